//! What a report says first: how much is right, and what changed since earlier runs.

use crate::onnx::{RIGHT, expected};
use crate::ready_onnx::sandbox;

const RUN: [&str; 3] = ["run", "specs/all.yaml", "--json"];
const WRONG: [f32; 3] = [41.5, 51.5, 60.];

#[test]
fn a_report_says_what_broke_since_the_last_run_and_what_was_mended() {
    let sandbox = sandbox(RIGHT);
    let first = sandbox.run(RUN).success().json();
    assert!(first["since"].is_null(), "no run was before it");
    let page = || std::fs::read_to_string(sandbox.path("orch-out/report/index.html")).unwrap();
    assert!(page().contains("All 2 cases that can run on this machine are right."));

    sandbox.write("models/expected/output_0.pb", expected(WRONG));
    let broken = sandbox.run(RUN).code(1).json();
    let since = &broken["since"][0];
    assert_eq!(since["started"], first["run"]["started"]);
    assert_eq!(since["changes"][0]["kind"], "broken", "{since:#}");
    assert_eq!(since["changes"][0]["cases"][0], "linear:cpu-fp32");
    assert!(page().contains("0 of 2 cases that can run on this machine are right; 2 NUMERICS"));
    assert!(page().contains("2 broken (linear on cpu-fp32, linear on openvino-fp32)."));

    // A run that executes nothing has nothing to compare.
    let again = sandbox.run(RUN).code(1).summary([("executed", 0)]).json();
    assert!(again["since"].is_null(), "{:#}", again["since"]);

    sandbox.write("models/expected/output_0.pb", expected(RIGHT));
    sandbox
        .run(["run", "specs/all.yaml", "--rerun", "run"])
        .success()
        .stdout_has(" UTC: 2 fixed (linear on cpu-fp32, linear on openvino-fp32).");
}

#[test]
fn a_part_is_compared_with_a_run_of_the_same_part() {
    let sandbox = sandbox(RIGHT);
    sandbox.run(RUN).success();
    let part = [
        "run",
        "specs/all.yaml",
        "--json",
        "-t",
        "cpu",
        "--rerun",
        "run",
    ];
    let first = sandbox.run(part).success().json();
    assert!(first["since"].is_null(), "{:#}", first["since"]);
    let second = sandbox.run(part).success().json();
    assert_eq!(second["since"][0]["started"], first["run"]["started"]);
    assert_eq!(second["since"][0]["changes"].as_array().unwrap().len(), 0);
}
