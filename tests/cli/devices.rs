//! `orch devices`: what it prints is what its schema says, and a driver that crashes is a reason in the list.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::Sandbox;

/// Complaints of a value against a schema, as far as this schema goes: references, types, required and known properties.
pub(super) fn complaints(value: &Value, schema: &Value, root: &Value, at: &str) -> Vec<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        return complaints(value, root.pointer(&reference[1..]).unwrap(), root, at);
    }
    if let Some(any) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
        let fits = any
            .iter()
            .any(|one| complaints(value, one, root, at).is_empty());
        return if fits {
            vec![]
        } else {
            vec![format!("{at} fits none of its forms")]
        };
    }
    if let Some(only) = schema.get("const") {
        return if value == only {
            vec![]
        } else {
            vec![format!("{at} is not {only}")]
        };
    }
    if schema["enum"]
        .as_array()
        .is_some_and(|words| !words.contains(value))
    {
        return vec![format!("{at} is none of {}", schema["enum"])];
    }
    let is = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) => {
            if number.is_f64() {
                "number"
            } else {
                "integer"
            }
        }
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => return vec![],
    };
    if !types.contains(&is) {
        return vec![format!("{at} is {is} and no {}", types.join(", "))];
    }
    let mut found = vec![];
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        found.extend(complaints(
            item,
            &schema["items"],
            root,
            &format!("{at}/{index}"),
        ));
    }
    for name in schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if value.get(name).is_none() {
            found.push(format!("{at} lacks {name}"));
        }
    }
    if let (Some(fields), Some(known)) = (value.as_object(), schema["properties"].as_object()) {
        for (name, field) in fields {
            match known.get(name) {
                Some(part) => found.extend(complaints(field, part, root, &format!("{at}/{name}"))),
                None => found.push(format!("{at}/{name} is in no schema")),
            }
        }
    }
    if let Some(fields) = value.as_object()
        && schema["additionalProperties"].is_object()
        && schema["properties"].is_null()
    {
        for (name, field) in fields {
            let part = &schema["additionalProperties"];
            found.extend(complaints(field, part, root, &format!("{at}/{name}")));
        }
    }
    found
}

#[test]
fn the_document_is_what_its_schema_says() {
    let sandbox = Sandbox::new();
    let schema = sandbox.run(["schema", "--of", "devices"]).success().json();
    let document = sandbox.run(["devices", "--json"]).success().json();
    assert_eq!(
        complaints(&document, &schema, &schema, ""),
        Vec::<String>::new()
    );
    assert!(
        document["backends"]
            .as_array()
            .unwrap()
            .iter()
            .any(|backend| backend["name"] == "cpu")
    );
    // A schema that takes everything describes nothing.
    let mut wrong = document.clone();
    wrong["backends"][0]["available"] = "yes".into();
    wrong["backends"][0]["devices"][0]["kind"] = "imaginary".into();
    wrong["host"]["serial"] = 1.into();
    assert_eq!(complaints(&wrong, &schema, &schema, "").len(), 3);
}

/// A Python environment whose OpenVINO is a library that does `what` as soon as it is loaded.
pub(super) fn broken(sandbox: &Sandbox, what: &str) -> String {
    let home = sandbox.path("python");
    let made = Command::new("python3")
        .args(["-m", "venv", "--without-pip"])
        .arg(&home)
        .status()
        .unwrap();
    assert!(made.success());
    let python = home.join("bin/python");
    let site = Command::new(&python)
        .args([
            "-c",
            "import sysconfig; print(sysconfig.get_path('platlib'), end='')",
        ])
        .output()
        .unwrap();
    let folder = Path::new(std::str::from_utf8(&site.stdout).unwrap()).join("openvino/libs");
    std::fs::create_dir_all(&folder).unwrap();
    let source = sandbox.path("broken.c");
    std::fs::write(
        &source,
        format!("__attribute__((constructor)) static void start(void) {{ {what} }}\n"),
    )
    .unwrap();
    let library = folder.join("libopenvino_c.so.2641");
    assert!(
        Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(library)
            .arg(source)
            .status()
            .unwrap()
            .success()
    );
    python.to_str().unwrap().to_owned()
}

#[test]
fn a_driver_that_crashes_is_a_reason_in_the_list_and_takes_nothing_with_it() {
    let sandbox = Sandbox::new();
    let python = broken(&sandbox, "*(volatile int *)0 = 1;");
    let document = sandbox
        .run(["devices", "--json", "--python", &python])
        .success()
        .json();
    let find = |name: &str| {
        document["backends"]
            .as_array()
            .unwrap()
            .iter()
            .find(|backend| backend["name"] == name)
            .unwrap()
            .clone()
    };
    let openvino = find("openvino");
    assert_eq!(openvino["available"], false);
    assert_eq!(
        openvino["reason"],
        "asking its native library failed: the probe was ended by signal 11"
    );
    assert_eq!(
        openvino["devices"].as_array().unwrap().len(),
        0,
        "what died is not promised"
    );
    assert_eq!(find("cpu")["available"], true);
    // It ends by itself: that is no answer either.
    let python = broken(&sandbox, "__builtin_trap();");
    let said = sandbox
        .run(["devices", "--python", &python])
        .success()
        .stdout;
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("openvino unavailable asking its native library failed"),
        "{said}"
    );
}

/// Asking the browser gives its device another name, which is no reason to do anything again.
#[cfg(target_os = "linux")]
#[test]
fn to_look_at_the_devices_between_two_runs_changes_nothing() {
    let sandbox = crate::ready_onnx::sandbox(crate::onnx::RIGHT);
    let envs = Path::new(&sandbox.path("envs")).to_owned();
    let shared = sandbox.env("ORCH_ENV_DIR", crate::support::env_dir().to_str().unwrap());
    shared
        .run(["setup", "browser", "--spec", "specs/all.yaml"])
        .success();
    for entry in std::fs::read_dir(crate::support::env_dir())
        .unwrap()
        .map(|entry| entry.unwrap())
    {
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() && name.starts_with("browser-") {
            std::os::unix::fs::symlink(entry.path(), envs.join(name)).unwrap();
        }
    }
    let sandbox = shared.env("ORCH_ENV_DIR", envs.to_str().unwrap());
    let run = ["run", "specs/all.yaml", "--json", "-t", "cpu"];
    let name = |document: &Value| {
        let backends = document["backends"].as_array().unwrap();
        let browser = backends
            .iter()
            .find(|backend| backend["name"] == "webgpu-browser")
            .unwrap();
        browser["devices"][0]["name"].clone()
    };
    let before = name(&sandbox.run(run).success().json());
    // On a busy machine a browser may take longer to start than it is waited for.
    let is_asked = || name(&sandbox.run(["devices", "--json"]).success().json()) != before;
    assert!((0..5).any(|_| is_asked()), "the browser never answered");
    let after = sandbox.run(run).success().summary([("executed", 0)]).json();
    assert_ne!(before, name(&after), "the browser was asked: {after:#}");
    assert_eq!(after["summary"]["path"], "memo");
}
