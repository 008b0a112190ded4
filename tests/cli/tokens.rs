//! Whole numbers that are tokens, from a ready file through `orch run` and then through its generated test.

use std::array;

use serde_json::{Value, json};

use crate::onnx::{RIGHT, expected_labels, labels};
use crate::page;
use crate::ready_onnx::{SPEC, sandbox};
use crate::sizes::shell;
use crate::support::Sandbox;

/// Where the largest value of a row is. The control, the same values in reverse, has every label somewhere else.
fn label(row: i64) -> i64 {
    (row + row / 10) % 4
}

fn spec(tokens: &str, tolerance: &str) -> String {
    let rows =
        (0..20).flat_map(|row| (0..4).map(move |at| 4 * row + (at - label(row) + 3).rem_euclid(4)));
    let rows: Vec<_> = rows.map(|value| value.to_string()).collect();
    SPEC.replace("template: text}", &format!("template: tensors{tokens}}}"))
        .replace(
            "measure:",
            &format!("tolerances: {{fp32: {{{tolerance}}}}}\nmeasure:"),
        )
        .replace(
            "shape: [1, 2], data: [1, 10]",
            &format!("shape: [20, 4], data: [{}]", rows.join(", ")),
        )
}

const TOKENS: &str = ", tokens: {regression: [y]}";

/// A model of which so many labels are expected to be others, each of one of the four.
fn labelled(off: i64, tokens: &str, tolerance: &str) -> Sandbox {
    let sandbox = sandbox(RIGHT);
    sandbox.write("specs/all.yaml", spec(tokens, tolerance));
    sandbox.write("models/linear.onnx", labels());
    let expected = array::from_fn(|row| (label(row as i64) + i64::from((row as i64) < off)) % 4);
    sandbox.write("models/expected/output_0.pb", expected_labels(expected));
    sandbox
}

/// On ONNX Runtime and on OpenVINO, natively and by itself.
#[track_caller]
fn both(sandbox: &Sandbox, status: &str, tokens: Option<f64>) -> Value {
    let document = sandbox.run(["run", "specs/all.yaml", "--json"]).json();
    let cases = document["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 2);
    for case in cases {
        assert_eq!(case["status"], status, "{case:#}");
        assert_eq!(case["numerics"]["tokens"].as_f64(), tokens, "{case:#}");
        let line = format!("{} --json own.json", case["repro"].as_str().unwrap());
        let (_, said) = shell(sandbox, &line);
        let own: Value = serde_json::from_str(&sandbox.read("own.json"))
            .unwrap_or_else(|e| panic!("{e}\n{said}"));
        let own = &own["facts"]["numerics"];
        assert_eq!(
            (&own["verdict"], own["tensors"]["y"]["tokens"].as_f64()),
            (&status.into(), tokens),
            "{own:#}"
        );
    }
    document
}

#[test]
fn the_labels_themselves_pass_and_no_other_is_allowed_at_fp32() {
    both(&labelled(0, TOKENS, "atol: 0.001"), "PASS", Some(1.0));
    let sandbox = labelled(1, TOKENS, "atol: 0.001");
    let document = both(&sandbox, "NUMERICS", Some(0.95));
    let reason = document["cases"][0]["reason"].as_str().unwrap();
    let says = "1 of 20 tokens differ, the first at [0]: 0 where the reference is 1; the equal share 0.950000 is below 1";
    assert!(reason.ends_with(says), "{reason}");
}

#[test]
fn what_a_spec_lets_differ_passes_and_is_marked_on_every_page() {
    let sandbox = labelled(1, TOKENS, "tokens: 0.9");
    let document = both(&sandbox, "PASS", Some(0.95));
    let numerics = &document["cases"][0]["numerics"];
    assert_eq!(
        (&numerics["looser"], &numerics["tolerance"]["tokens"]),
        (&json!(["tokens"]), &json!(0.9))
    );
    assert_eq!(numerics["control"]["tokens"], 0.0, "{numerics:#}");
    sandbox
        .run(["run", "specs/all.yaml"])
        .success()
        .stdout_has("looser than orch's own in tokens;");
    let asked = "snr 50, tokens 0.9 (looser than usual";
    assert!(sandbox.read("orch-out/report/matrix.md").contains(asked));
    let page = page::data(&sandbox.read("orch-out/report/index.html"))["details"].to_string();
    for told in [
        asked,
        "0.95 of the tokens equal",
        "0.95, 0.95 in the worst row",
    ] {
        assert!(page.contains(told), "{told}");
    }
    // More than that is wrong, with the same bound. Of all it would be 0.8; of the four labels less, on the average.
    both(
        &labelled(4, TOKENS, "tokens: 0.9"),
        "NUMERICS",
        Some(0.7958333333333334),
    );
}

#[test]
fn another_input_that_the_bound_would_let_pass_decides_nothing() {
    both(&labelled(0, TOKENS, "tokens: 0"), "INDECISIVE", Some(1.0));
}

#[test]
fn whole_numbers_of_which_the_pipeline_says_nothing_are_equal_or_wrong() {
    let sandbox = labelled(1, "", "tokens: 0.5");
    let document = both(&sandbox, "NUMERICS", None);
    let reason = document["cases"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("1 of 20 values differ"), "{reason}");
    assert_eq!(document["cases"][0]["numerics"].get("looser"), None);
}
