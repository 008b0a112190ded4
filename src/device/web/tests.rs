//! Tests of the browser that is probed, and of how long its answer is kept.

use std::path::Path;
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::device::tests::{of, reason};
use crate::device::{Backend, DeviceKind, Host, Libraries, inventory_cheap, probe_all};

#[test]
fn a_browser_is_orch_s_own_or_the_one_that_the_user_names() {
    let backends = |host: &Host| inventory_cheap(host);
    let plain = backends(&Host::recorded("neither"));
    for name in ["webgpu-browser", "webnn"] {
        assert!(of(&plain, name).available, "{name}");
        assert_eq!(
            of(&plain, name).facts["browser"],
            "installed on first need (`orch setup browser`)"
        );
    }
    assert_eq!(
        of(&plain, "webgpu-browser").devices[0].kind,
        DeviceKind::Software,
        "there is no GPU"
    );
    let gpu = backends(&Host::recorded("amd"));
    assert_eq!(
        of(&gpu, "webgpu-browser").devices[0].kind,
        DeviceKind::Hardware
    );

    let gone = backends(&Host::recorded("neither").with_env("ORCH_BROWSER", "/opt/chrome"));
    assert_eq!(
        reason(of(&gone, "webnn")),
        "ORCH_BROWSER=/opt/chrome is no file"
    );
    assert!(
        of(&gone, "webnn")
            .remedy
            .as_deref()
            .unwrap()
            .contains("unset ORCH_BROWSER")
    );
    let own = Host::recorded("intel-npu").with_env("ORCH_BROWSER", "/usr/lib/chromium/chromium");
    let own = backends(&own);
    assert_eq!(
        of(&own, "webgpu-browser").facts["browser"],
        "/usr/lib/chromium/chromium"
    );
    assert_eq!(
        of(&own, "webgpu-browser").facts["browser_by"],
        "ORCH_BROWSER"
    );

    let mac = backends(&Host::recorded("mac"));
    assert!(
        reason(of(&mac, "webnn"))
            .starts_with("the browser that orch installs is for Linux on x86_64")
    );
    let remedy = of(&mac, "webnn").remedy.as_deref().unwrap();
    assert!(remedy.contains("ORCH_BROWSER"), "{remedy}");
}

#[test]
fn what_a_page_answered_is_kept_until_the_browser_or_a_driver_changes() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("chromium");
    std::fs::write(&program, "one").unwrap();
    let host = |variable: &str| {
        let libraries = Libraries {
            browser: Some(program.clone()),
            answers: Some(folder.path().join("answers")),
            ..Libraries::default()
        };
        Host::recorded("neither")
            .with_env("VK_ICD_FILENAMES", variable)
            .with_libraries(libraries)
    };
    let probed = |host: &Host| {
        let names = Mutex::new(vec![]);
        let child = |name: &str, params: Value| {
            if params.get("answer_at").is_none() {
                return Err("no browser".to_owned());
            }
            names.lock().unwrap().push(name.to_owned());
            let path = params["answer_at"].as_str().unwrap().to_owned();
            std::fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
            let answer = match name {
                "webnn" => json!({"cpu": "NotSupportedError: no backend"}),
                _ => {
                    json!({"vendor": "google", "architecture": "swiftshader", "is_fallback_adapter": true})
                }
            };
            std::fs::write(path, answer.to_string()).unwrap();
            Err("the child of this test answers by its file".to_owned())
        };
        probe_all(host, &child);
        let mut names = names.into_inner().unwrap();
        names.sort_unstable();
        names
    };
    let both = ["webgpu-browser", "webnn"];
    let before = inventory_cheap(&host("a"));
    assert_eq!(probed(&host("a")), both);
    assert!(probed(&host("a")).is_empty(), "probed twice for the same");
    let after = inventory_cheap(&host("a"));
    assert_eq!(
        of(&after, "webgpu-browser").devices[0].name,
        "google swiftshader (software)"
    );
    let known_as = |inventory: &[Backend]| {
        of(inventory, "webgpu-browser").devices[0]
            .known_as()
            .to_owned()
    };
    assert_eq!(known_as(&after), known_as(&before));
    assert!(
        reason(of(&after, "webnn")).ends_with("NotSupportedError: no backend"),
        "{}",
        reason(of(&after, "webnn"))
    );
    assert!(
        of(&after, "webnn")
            .remedy
            .as_deref()
            .unwrap()
            .contains("ORCH_BROWSER")
    );
    assert_eq!(probed(&host("b")), both, "another driver was chosen");
    std::fs::write(&program, "another").unwrap();
    assert_eq!(probed(&host("a")), both, "the browser is another");
}
