//! The runtime that is a part of orch: a ready ONNX file on it, in a build that has it and in one that does not.

use crate::onnx::{RIGHT, linear};
use crate::ready_onnx::{SPEC, sandbox};
use crate::support::Sandbox;

const ALL: [&str; 3] = ["run", "specs/all.yaml", "--json"];
const ALONE: [&str; 5] = ["run", "specs/all.yaml", "-t", "tract", "--json"];

const CPU: &str = "  cpu: {runtime: ort";
const TRACT: &str = "  tract: {runtime: tract, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32], measure: none}\n";

/// A ready file on tract, ONNX Runtime and OpenVINO.
fn with_tract(values: [f32; 3]) -> Sandbox {
    let spec = SPEC.replace(CPU, &format!("{TRACT}{CPU}"));
    sandbox(values).file("specs/all.yaml", &spec)
}

#[test]
#[cfg(not(feature = "tract"))]
fn without_it_nothing_runs_on_it_and_the_cell_says_why() {
    let sandbox = with_tract(RIGHT);
    // The test that runs without orch is written for every case, also for one that cannot run here.
    let document = sandbox
        .run(ALONE)
        .code(3)
        .summary([("cases", 1), ("unavailable", 1), ("executed", 1)])
        .json();
    let reason = document["cases"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("`--features tract`"), "{reason}");
    sandbox
        .run(ALL)
        .success()
        .summary([("cases", 3), ("passed", 2), ("unavailable", 1)]);
}

#[test]
#[cfg(feature = "tract")]
fn it_passes_and_a_wrong_expectation_is_wrong_there_too() {
    let sandbox = with_tract(RIGHT);
    let document = sandbox
        .run(ALL)
        .success()
        .summary([("cases", 3), ("passed", 3)])
        .json();
    let case = &document["cases"][0];
    assert_eq!(case["target"], "tract");
    assert_eq!(case["actual_device"], "cpu");
    assert_eq!(case["numerics"]["passed"], true);
    let [first, ..] = RIGHT;
    let document = with_tract([first + 1.0, RIGHT[1], RIGHT[2]])
        .run(ALONE)
        .code(1)
        .summary([("cases", 1), ("failed", 1)])
        .json();
    assert_eq!(document["cases"][0]["status"], "NUMERICS");
}

#[test]
fn the_first_spec_of_a_file_names_it_first_where_it_is() {
    let sandbox = Sandbox::new().file("linear.onnx", linear());
    sandbox.run(["init", "--model", "linear.onnx"]).success();
    let spec = std::fs::read_to_string(sandbox.path("specs/all.yaml")).unwrap();
    let targets = spec.lines().find(|line| line.starts_with("  targets:"));
    let first = match cfg!(feature = "tract") {
        true => "  targets: [tract, cpu",
        false => "  targets: [cpu",
    };
    assert!(targets.unwrap().starts_with(first), "{targets:?}");
}
