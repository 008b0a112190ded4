//! Commands that read the last run's report: whichever folder it is in, and what they say of it.

use serde_json::Value;

use crate::onnx::{RIGHT, expected};
use crate::ready_onnx::sandbox;
use crate::support::Sandbox;

const RUN: [&str; 2] = ["run", "specs/all.yaml"];
const PART: [&str; 4] = ["run", "specs/all.yaml", "-t", "cpu"];
const GATE: [&str; 3] = ["compare", "base.json", "--gate"];

/// A folder in which all of the spec ran, with the report as `base.json`.
fn ran() -> Sandbox {
    let sandbox = sandbox(RIGHT);
    sandbox.run(RUN).success();
    sandbox.write("base.json", sandbox.read("orch-out/report/matrix.json"));
    sandbox
}

/// From now on its outputs are wrong.
fn breaks(sandbox: &Sandbox) {
    sandbox.write("models/expected/output_0.pb", expected([41.5, 51.5, 60.]));
}

#[test]
fn the_gate_closes_on_a_failed_run_of_a_part() {
    let sandbox = ran();
    breaks(&sandbox);
    sandbox.run(PART).code(1);
    let told = sandbox
        .run(GATE)
        .code(1)
        .stdout_has("broken (1)")
        .stdout_has("1 outside of this part");
    let head = told
        .stdout
        .lines()
        .find(|line| line.starts_with("head"))
        .unwrap();
    assert!(
        head.starts_with("head  orch-out/part/matrix.json, the run of 20"),
        "{head}"
    );
    assert!(
        head.contains(" UTC: specs/all.yaml (target:cpu), "),
        "{head}"
    );
    let json = sandbox
        .run(["compare", "base.json", "--json"])
        .success()
        .json();
    assert_eq!(json["head"]["name"], "orch-out/part/matrix.json");
    assert!(
        json["head"]["run"].as_str().unwrap() > json["base"]["run"].as_str().unwrap(),
        "{json}"
    );
}

#[test]
fn the_last_run_counts_where_it_left_the_pages_as_they_were() {
    let sandbox = ran();
    breaks(&sandbox);
    sandbox.run(PART).code(1);
    sandbox.write("models/expected/output_0.pb", expected(RIGHT));
    // What it shows is what the first run showed, and nothing is written anew.
    sandbox.run(RUN).success();
    let whole = sandbox.run(GATE).success().stdout_has("2 the same");
    whole.stdout_has("head  orch-out/report/matrix.json, the run of ");
    // The same once more, known from the memo.
    sandbox.run(PART).success();
    sandbox
        .run(GATE)
        .success()
        .stdout_has("head  orch-out/part/matrix.json");
    sandbox.run(RUN).success();
    sandbox
        .run(GATE)
        .success()
        .stdout_has("head  orch-out/report/matrix.json");
}

#[test]
fn a_run_is_not_compared_with_itself() {
    let sandbox = ran();
    sandbox
        .run(GATE)
        .code(2)
        .stderr_has("base and head are one run")
        .stderr_has("hint: ");
    sandbox
        .run(["compare", "base.json", "orch-out/report/matrix.json"])
        .code(2);
    sandbox
        .run(["compare", "base.json", "base.json"])
        .code(2)
        .stderr_has("base and head are one run");
    // A later run that finds the same is another.
    sandbox.run(RUN).success();
    sandbox.run(GATE).success().stdout_has("2 the same");
}

#[test]
fn a_run_that_left_no_report_is_not_passed_over() {
    let sandbox = ran();
    // As a run that was killed leaves it.
    let last: Value = serde_json::from_str(&sandbox.read("orch-out/last-run.json")).unwrap();
    let mut killed = last.clone();
    killed["report"] = Value::Null;
    killed["began"] = "2099-01-01T00:00:00.000Z".into();
    sandbox.write("orch-out/last-run.json", killed.to_string());
    let told = sandbox
        .run(GATE)
        .code(2)
        .stderr_has("the last run, of 2099-01-01 00:00:00 UTC, left no report");
    told.stderr_has("was interrupted, or goes on")
        .stderr_has("hint: ");
    let named = sandbox
        .run(["compare", "base.json", "orch-out/report/matrix.json"])
        .code(2);
    named.stderr_has("left no report");
    // Where nothing says which is the last, it is the one that began last.
    std::fs::remove_file(sandbox.path("orch-out/last-run.json")).unwrap();
    breaks(&sandbox);
    sandbox.run(PART).code(1);
    std::fs::remove_file(sandbox.path("orch-out/last-run.json")).unwrap();
    sandbox
        .run(GATE)
        .code(1)
        .stdout_has("head  orch-out/part/matrix.json");
    std::fs::remove_dir_all(sandbox.path("orch-out")).unwrap();
    sandbox
        .run(GATE)
        .code(2)
        .stderr_has("no run has left a report in `orch-out`")
        .stderr_has("`orch run`");
}

#[test]
fn a_newer_report_beside_the_named_one_is_noted() {
    let sandbox = ran();
    breaks(&sandbox);
    sandbox.run(PART).code(1);
    let newer = "`orch-out/part/matrix.json` is newer: the run of ";
    for named in [
        &["compare", "base.json", "orch-out/report/matrix.json"][..],
        &["site", "pages", "--report", "orch-out/report/matrix.json"],
        &[
            "report",
            "specs/all.yaml",
            "--merge",
            "orch-out/report/matrix.json",
        ],
    ] {
        let told = sandbox.run(named).stderr_has(newer);
        told.stderr_has("(target:cpu)");
    }
    let last = "orch-out/part/matrix.json";
    sandbox
        .run(["compare", "base.json", last])
        .success()
        .stderr_lacks("newer");
    sandbox
        .run(["compare", "orch-out/report/matrix.json"])
        .success()
        .stderr_lacks("newer")
        .stdout_has("broken (1)");
}

#[test]
fn a_site_shows_the_last_run_and_says_which() {
    let sandbox = ran();
    breaks(&sandbox);
    sandbox.run(PART).code(1);
    let told = sandbox.run(["site", "pages"]).success();
    told.stderr_has("orch-out/part/matrix.json, the run of ")
        .stderr_has("(target:cpu)");
    assert!(sandbox.read("pages/index.html").contains("target:cpu"));
    let json = sandbox.run(["site", "pages", "--json"]).success().json();
    assert_eq!(
        json["reports"],
        serde_json::json!(["orch-out/part/matrix.json"]),
        "{json}"
    );
}
