//! What is missing on this machine: for the spec that is here, and for whatever would be installed.

use serde_json::Value;

use crate::onnx::RIGHT;
use crate::ready_onnx::sandbox;
use crate::support::Sandbox;

/// Nobody listens there.
const NOWHERE: &str = "http://127.0.0.1:9/simple";

/// A project of which nothing is installed, on a machine that reaches no index.
fn bare() -> Sandbox {
    let sandbox = sandbox(RIGHT);
    let envs = sandbox.path("no-envs").display().to_string();
    ["UV_DEFAULT_INDEX", "PIP_INDEX_URL"]
        .into_iter()
        .fold(sandbox, |sandbox, name| sandbox.env(name, NOWHERE))
        .env("ORCH_ENV_DIR", envs)
}

fn finding(document: &Value, subject: &str) -> Value {
    let findings = document["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["subject"] == subject).unwrap_or_else(|| panic!("{document:#}")).clone()
}

#[test]
fn it_knows_of_compiler_index_and_room_for_the_spec() {
    let sandbox = bare();
    let document = sandbox.run(["doctor", "--json"]).json();
    assert!(finding(&document, "C compiler")["what"].is_string());
    let index = finding(&document, "package index");
    assert_eq!(index["ok"], false);
    assert!(index["what"].as_str().unwrap().starts_with("nothing can be installed: "), "{index}");
    assert!(index["remedy"].as_str().unwrap().contains("UV_DEFAULT_INDEX"), "{index}");
    let disk = finding(&document, "disk");
    let said = "specs/all.yaml would install python environment `ort` (238 MiB)";
    assert!(disk["what"].as_str().unwrap().contains(said), "{disk}");
    assert!(document["environment"]["wanted"]["bytes"].as_u64().unwrap() >= 250_000_000, "{document}");
    // A spec that cannot be read is no reason to say nothing of the machine.
    sandbox.write("specs/all.yaml", "models: [");
    let told = sandbox.run(["doctor", "--json"]).stderr_has("cannot tell what the spec needs");
    assert!(finding(&told.json(), "disk")["what"].as_str().unwrap().contains("all environments together"));
}

#[test]
fn a_run_says_what_it_installs_before_it_does() {
    let said = "to install: python environment `ort` (238 MiB)";
    let ended = bare().run(["run", "-t", "cpu"]).code(1).stderr_has(said).stderr_has("at 100 Mbit/s");
    let (told, begun) = (ended.stderr.find(said), ended.stderr.find("setup python environment"));
    assert!(told < begun, "{}", ended.stderr);
    bare().run(["setup", "ort"]).code(1).stderr_has(said);
}

#[test]
fn outside_of_a_project_a_run_says_how_to_make_one() {
    let sandbox = Sandbox::new();
    sandbox.run(["run"]).code(2).stderr_has("orch init").stderr_lacks("os error");
}
