//! What is missing on this machine: for the spec that is here, and for whatever would be installed.

use serde_json::Value;

use crate::onnx::RIGHT;
use crate::ready_onnx::sandbox;
use crate::support::{Sandbox, skipped};

/// Nobody listens there.
const NOWHERE: &str = "http://127.0.0.1:9/simple";

/// A project of which nothing is installed, on a machine that reaches no index.
fn bare() -> Sandbox {
    let sandbox = sandbox(RIGHT);
    let envs = sandbox.path("no-envs").display().to_string();
    ["UV_DEFAULT_INDEX", "PIP_INDEX_URL"]
        .into_iter()
        .fold(sandbox, |sandbox, name| sandbox.env(name, NOWHERE))
        // Nobody will be there when it is asked again either, and asking takes half a minute.
        .env("UV_HTTP_RETRIES", "0")
        .env("PIP_RETRIES", "0")
        .env("ORCH_ENV_DIR", envs)
}

fn finding(document: &Value, subject: &str) -> Value {
    let findings = document["findings"].as_array().unwrap();
    findings
        .iter()
        .find(|finding| finding["subject"] == subject)
        .unwrap_or_else(|| panic!("{document:#}"))
        .clone()
}

#[test]
fn it_knows_of_compiler_index_and_room_for_the_spec() {
    let sandbox = bare();
    let document = sandbox.run(["doctor", "--json"]).json();
    assert!(finding(&document, "C compiler")["what"].is_string());
    let index = finding(&document, "package index");
    assert_eq!(index["ok"], false);
    assert!(
        index["what"]
            .as_str()
            .unwrap()
            .starts_with("nothing can be installed: "),
        "{index}"
    );
    assert!(
        index["remedy"]
            .as_str()
            .unwrap()
            .contains("UV_DEFAULT_INDEX"),
        "{index}"
    );
    let disk = finding(&document, "disk");
    let said = "specs/all.yaml would install python environment `ort` (238 MiB)";
    assert!(disk["what"].as_str().unwrap().contains(said), "{disk}");
    assert!(
        document["environment"]["wanted"]["bytes"].as_u64().unwrap() >= 250_000_000,
        "{document}"
    );
    // A spec that cannot be read is no reason to say nothing of the machine.
    sandbox.write("specs/all.yaml", "models: [");
    let told = sandbox
        .run(["doctor", "--json"])
        .stderr_has("cannot tell what the spec needs");
    assert!(
        finding(&told.json(), "disk")["what"]
            .as_str()
            .unwrap()
            .contains("all environments together")
    );
}

#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn a_run_says_what_it_installs_before_it_does() {
    let said = "to install: python environment `ort` (238 MiB)";
    let ended = bare()
        .run(["run", "-t", "cpu"])
        .code(1)
        .stderr_has(said)
        .stderr_has("at 100 Mbit/s");
    let told = ended.stderr.find(said);
    let begun = ended.stderr.find("setup python environment");
    assert!(told < begun, "{}", ended.stderr);
    bare().run(["setup", "ort"]).code(2).stderr_has(said);
}

#[test]
fn outside_of_a_project_a_run_says_how_to_make_one() {
    let sandbox = Sandbox::new();
    sandbox
        .run(["run"])
        .code(2)
        .stderr_has("orch init")
        .stderr_lacks("os error");
}

/// The kernel shows another bus to a process in a namespace of its own: a GPU, and nothing of its maker's driver.
#[test]
#[cfg(target_os = "linux")]
fn a_gpu_on_the_bus_without_a_driver_is_reported_with_what_to_install() {
    const BUS: &str = "/sys/bus/pci/devices";
    if std::path::Path::new("/proc/driver/nvidia").exists() {
        return skipped("this machine has NVIDIA's driver");
    }
    let sandbox = bare();
    for (file, text) in [
        ("vendor", "0x10de"),
        ("device", "0x2335"),
        ("class", "0x030200"),
    ] {
        sandbox.write(&format!("bus/0000:17:00.0/{file}"), text);
    }
    let mount = format!("mount --bind bus {BUS} && exec \"$0\" \"$@\"");
    let starter = ["unshare", "--map-root-user", "--mount", "sh", "-c", &mount];
    let mut tried = std::process::Command::new(starter[0]);
    tried
        .args(&starter[1..4])
        .args(["-c", &format!("mount --bind /tmp {BUS}")]);
    if !tried
        .stderr(std::process::Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
    {
        return skipped("no mount namespace, or no bus to cover");
    }
    let ended = sandbox.run_through(starter, &["doctor", "--json"]);
    let gpu = finding(&ended.json(), "cuda");
    let said = "an NVIDIA GPU (10de:2335 at 0000:17:00.0) has no driver";
    assert!(
        gpu["ok"] == false && gpu["what"].as_str().unwrap().starts_with(said),
        "{gpu}"
    );
    assert!(
        gpu["remedy"]
            .as_str()
            .unwrap()
            .contains("install the NVIDIA driver"),
        "{gpu}"
    );
    // Without the card there is none to install a driver for.
    let gpu = finding(&sandbox.run(["doctor", "--json"]).json(), "cuda");
    assert!(!gpu["what"].as_str().unwrap().starts_with(said), "{gpu}");
}
