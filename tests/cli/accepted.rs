//! Intended changes: `orch accept --figures` writes what, why and until when, the gate shows it and passes.

use serde_json::{Value, json};

use crate::onnx::RIGHT;
use crate::ready_onnx::sandbox;
use crate::support::Sandbox;

const REPORT: &str = "orch-out/report/matrix.json";
const GATE: [&str; 3] = ["compare", "base.json", "--gate"];
const ACCEPT: [&str; 5] = [
    "accept",
    "--figures",
    "base.json",
    "--reason",
    "three layers instead of two",
];

/// After a run with its report as `base.json`, and a later one whose first case takes 1 GiB more and is less accurate.
fn worse() -> (Sandbox, Value) {
    let sandbox = sandbox(RIGHT);
    sandbox.run(["run", "specs/all.yaml"]).success();
    let mut head: Value = serde_json::from_str(&sandbox.read(REPORT)).unwrap();
    let mut base = head.clone();
    base["run"]["started"] = json!("2026-01-01T00:00:00.000Z");
    sandbox.write("base.json", base.to_string());
    let case = &mut head["cases"][0];
    let bytes = case["metrics"]["peak_rss_bytes"].as_u64().unwrap();
    case["metrics"]["peak_rss_bytes"] = json!(bytes + (1 << 30));
    case["numerics"]["snr_db"] = json!(52.0);
    sandbox.write(REPORT, head.to_string());
    (sandbox, head)
}

#[test]
fn an_intended_change_passes_the_gate_with_its_reason_until_its_day() {
    let (sandbox, _) = worse();
    sandbox
        .run(GATE)
        .code(1)
        .stderr_has("`orch accept --figures base.json --reason TEXT`");
    sandbox
        .run([&ACCEPT[..], &["--dry-run"]].concat())
        .success();
    assert!(!sandbox.path("orch-accepted.toml").exists());
    sandbox
        .run([&ACCEPT[..], &["--until", "2099-12-31"]].concat())
        .success()
        .stderr_has("accepts more memory: linear:cpu-fp32")
        .stderr_has("its rows count until 2099-12-31");
    sandbox
        .run(GATE)
        .success()
        .stdout_has("; accepted until 2099-12-31: three layers instead of two")
        .stdout_has("1 less accurate · 1 more memory · 2 of them accepted");
    let markdown = [&GATE[..], &["--format", "markdown"]].concat();
    sandbox
        .run(markdown)
        .success()
        .stdout_has("accepted until 2099-12-31: three layers instead of two");
    // Once more takes the place of the same rows.
    let text = sandbox.read("orch-accepted.toml");
    sandbox
        .run([&ACCEPT[..], &["--until", "2099-12-31"]].concat())
        .success();
    assert_eq!(sandbox.read("orch-accepted.toml"), text);
    sandbox.write("orch-accepted.toml", text.replace("2099", "2025"));
    sandbox
        .run(GATE)
        .code(1)
        .stdout_has("orch-accepted.toml:1 (`linear:cpu-fp32`, less accurate) ended on 2025-12-31");
}

#[test]
fn what_goes_beyond_an_accepted_figure_closes_the_gate() {
    let (sandbox, mut head) = worse();
    sandbox.run(ACCEPT).success();
    sandbox.run(GATE).success();
    let bytes = head["cases"][0]["metrics"]["peak_rss_bytes"]
        .as_u64()
        .unwrap();
    head["cases"][0]["metrics"]["peak_rss_bytes"] = json!(2 * bytes);
    sandbox.write(REPORT, head.to_string());
    let told = sandbox.run(GATE).code(1);
    told.stdout_has("(`linear:cpu-fp32`, more memory) accepts up to ")
        .stdout_has("and linear:cpu-fp32 is at ");
    // A failure is no figure.
    head["cases"][0]["status"] = json!("NUMERICS");
    sandbox.write(REPORT, head.to_string());
    sandbox
        .run(ACCEPT)
        .success()
        .stderr_has("1 case failed and cannot be accepted here: `orch accept`");
    sandbox.run(GATE).code(1).stdout_has("broken (1)");
}

#[test]
fn only_selected_cases_are_accepted_and_what_the_spec_expects_needs_no_row() {
    let (sandbox, mut head) = worse();
    sandbox
        .run([&ACCEPT[..], &["--case", "linear:openvino-*"]].concat())
        .success()
        .stderr_has("nothing is worse that could be accepted");
    head["cases"][0]["status"] = json!("XFAIL");
    sandbox.write(REPORT, head.to_string());
    sandbox
        .run(GATE)
        .success()
        .stdout_has("; accepted: the spec expects it");
}

#[test]
fn a_file_with_an_error_is_reported_with_its_line_and_a_remedy() {
    let (sandbox, _) = worse();
    let row =
        "[[accepted]]\ncase = \"linear:*\"\nkind = \"slow\"\nreason = \"x\"\nuntil = 2099-12-31\n";
    for (kind, up_to, told) in [
        (
            "slow",
            "",
            "orch-accepted.toml:1: `slow` is no change that can be accepted",
        ),
        (
            "slower",
            "",
            "orch-accepted.toml:1: `slower` takes an `up_to_percent` above 0",
        ),
        (
            "no longer shown to be right",
            "up_to_percent = 3\n",
            "has no figure, so no `up_to_percent`",
        ),
        ("slower", "upto = 3\n", "unknown field `upto`"),
    ] {
        let text = row.replace("\"slow\"\n", &format!("\"{kind}\"\n{up_to}"));
        sandbox.write("orch-accepted.toml", text);
        sandbox.run(GATE).code(2).stderr_has(told);
    }
    sandbox
        .run(["accept", "--figures", "base.json"])
        .code(2)
        .stderr_has("`--figures` needs a reason");
    sandbox
        .run([&ACCEPT[..], &["--until", "soon"]].concat())
        .code(2)
        .stderr_has("`soon` is neither a day nor a time from today");
}
