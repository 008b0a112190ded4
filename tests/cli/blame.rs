//! `orch blame`: what makes a case wrong, by the real runtime.

use serde_json::Value;

use crate::onnx::{RIGHT, expected, expected_padded, padded};
use crate::ready_onnx::{SPEC, refused_by_openvino, sandbox};
use crate::support::Sandbox;

#[test]
fn a_right_case_is_blamed_on_nobody_and_a_wrong_file_is_named() {
    let sandbox = sandbox(RIGHT);
    sandbox.run(["run", "specs/all.yaml"]).success();
    let held = ["report", "specs/all.yaml", "--format", "json"];
    let before = sandbox.run(held).success().json()["cases"].clone();
    for (case, runtime) in [
        ("linear:cpu-fp32", "onnxruntime"),
        ("linear:openvino-fp32", "openvino"),
    ] {
        let right = sandbox.run(["blame", case, "--json"]).success().json();
        let right = &right["cases"][0];
        assert_eq!(right["case"], case);
        assert_eq!(right["finding"]["runtime"], runtime);
        assert_eq!(right["finding"]["verdict"], "not_reproduced", "{right:#}");
        assert!(right["repro"].is_null());
    }
    assert_eq!(sandbox.run(held).success().json()["cases"], before);

    sandbox.write("models/expected/output_0.pb", expected([41.5, 51.5, 60.]));
    sandbox
        .run(["blame", "linear:cpu-fp32"])
        .success()
        .stdout_has("linear:cpu-fp32: the exported file is wrong")
        .stdout_has("`y`");
}

#[test]
fn what_cannot_be_looked_into_is_a_mistake_with_a_reason() {
    let sandbox = sandbox(RIGHT);
    let spec = SPEC.replace("precisions: [fp32]", "precisions: [int4]");
    assert_ne!(spec, SPEC);
    sandbox.write("half.yaml", spec);
    sandbox
        .run(["blame", "linear:openvino-int4", "--spec", "half.yaml"])
        .code(2)
        .stderr_has(
            "orch cuts windows for `openvino` in fp32 alone, and does not know what int4 rounds",
        );
    sandbox
        .run(["blame", "other*"])
        .code(2)
        .stderr_has("no case matches `other*`");
    sandbox.run(["blame"]).code(2).stderr_has("<CASE>");
}

#[test]
fn all_wrong_cases_are_looked_into_once() {
    let sandbox = sandbox(RIGHT);
    sandbox.run(["run", "specs/all.yaml"]).success();
    sandbox
        .run(["blame", "--all"])
        .code(2)
        .stderr_has("no case was wrong when it ran last");
    sandbox.write("models/expected/output_0.pb", expected([41.5, 51.5, 60.]));
    sandbox
        .run(["run", "specs/all.yaml"])
        .code(1)
        .stderr_has("whose fault it is: `orch blame --all`");
    let blame = ["blame", "--all", "--json", "--sarif", "findings.sarif"];
    let first = sandbox.run(blame).success();
    assert!(
        first.stderr.contains("blame:linear:cpu-fp32"),
        "{}",
        first.stderr
    );
    let first = first.json();
    let cases: Vec<_> = first["cases"].as_array().unwrap().iter().collect();
    assert_eq!(cases.len(), 2, "{first:#}");
    for case in cases {
        assert_eq!(case["finding"]["verdict"], "file", "{case:#}");
        assert!(case["row"].as_str().unwrap().starts_with("specs/all.yaml:"));
    }
    let page = sandbox
        .run(["report", "specs/all.yaml", "--format", "json"])
        .success()
        .json();
    let facts = &page["cases"][0]["facts"]["blame:linear:cpu-fp32"];
    assert_eq!(facts["verdict"], "file", "{page:#}");
    // The second time nothing executes.
    let second = sandbox.run(blame).success();
    assert!(!second.stderr.contains("blame:linear"), "{}", second.stderr);
    assert_eq!(second.json(), first);

    let log: Value = serde_json::from_str(&sandbox.read("findings.sarif")).unwrap();
    assert_eq!(log["version"], "2.1.0");
    let results = log["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), 2, "{log:#}");
    let place = &results[0]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "specs/all.yaml");
    assert!(place["region"]["startLine"].as_u64().unwrap() > 1);
    assert_eq!(results[0]["ruleId"], "file-is-wrong");
}

#[test]
fn a_run_finds_out_what_makes_its_failed_cases_wrong() {
    let sandbox = sandbox(RIGHT);
    let run = ["run", "specs/all.yaml", "--blame", "--json"];
    sandbox
        .run(run)
        .success()
        .stderr_lacks("blame:linear")
        .stderr_lacks("nothing was found out");
    sandbox.write("models/expected/output_0.pb", expected([41.5, 51.5, 60.]));
    let ended = sandbox.run(run).code(1);
    ended
        .stderr_has("linear:cpu-fp32: the exported file is wrong")
        .stderr_lacks("whose fault it is");
    let document = sandbox.run(run).code(1).stderr_lacks("begin blame:").json();
    for (at, case) in ["linear:cpu-fp32", "linear:openvino-fp32"]
        .iter()
        .enumerate()
    {
        let facts = &document["cases"][at]["facts"][format!("blame:{case}")];
        assert_eq!(facts["verdict"], "file", "{document:#}");
    }
    assert!(
        sandbox
            .read("orch-out/report/matrix.json")
            .contains("\"blame:linear:cpu-fp32\"")
    );
    // What executed it, and what it is made of, is answered as of any step.
    let step = "blame:linear:cpu-fp32";
    let log = sandbox.run(["log", step, "--json"]).success().json();
    assert_eq!(log[0]["last"]["outcome"], "PASS", "{log:#}");
    assert_eq!(log[0]["current"], true, "{log:#}");
    sandbox
        .run(["explain", step])
        .success()
        .stdout_has("blame:linear:cpu-fp32: up to date")
        .stdout_has("input.artefact");
    sandbox
        .run(["log", "blame:*", "--history"])
        .success()
        .stdout_has("blame:linear:openvino-fp32");
    // It is the search of `orch blame`, and its result.
    sandbox
        .run(["blame", "--all"])
        .success()
        .stderr_lacks("blame:linear");
    sandbox
        .run(["run", "specs/all.yaml", "--blame", "--step", "run"])
        .code(2)
        .stderr_has("--blame");
}

/// A spec whose only model is computed wrongly by ONNX Runtime: a padding with 0 is merged into the MaxPool behind it.
fn wrong_by_runtime(sandbox: &Sandbox, matrix: &str) {
    sandbox.write("models/linear.onnx", padded());
    sandbox.write("models/expected/output_0.pb", expected_padded());
    let inputs = "{x: {dtype: float32, shape: [1, 1, 2, 2], data: [-1, -2, -3, -4]}}";
    let spec = SPEC.replace(
        "{x: {dtype: float32, shape: [1, 2], data: [1, 10]}}",
        inputs,
    );
    assert_ne!(spec, SPEC);
    sandbox.write("specs/all.yaml", spec + matrix);
}

#[test]
fn an_expected_failure_by_another_fault_is_not_expected() {
    let sandbox = sandbox(RIGHT);
    let expecting = |more: &str| {
        let row = format!("{{case: 'linear:cpu-fp32', status: NUMERICS, reason: known{more}}}");
        wrong_by_runtime(
            &sandbox,
            &format!("matrix:\n  targets: [cpu]\n  expect:\n    - {row}\n"),
        );
    };
    let run = ["run", "specs/all.yaml"];
    expecting("");
    sandbox.run(run).success();
    sandbox.run(["blame", "linear:cpu-fp32"]).success();
    expecting(
        ", cause: runtime, url: 'https://example.org/1', signature: 'onnxruntime * | Pad_Fusion | *'",
    );
    sandbox
        .run(run)
        .success()
        .stdout_has("known, https://example.org/1");
    expecting(", url: 'https://example.org/1', signature: 'onnxruntime * | MatMul*'");
    sandbox
        .run(run)
        .code(1)
        .stdout_has("Pad_Fusion")
        .stdout_has("specs/all.yaml:19:7")
        .stdout_has("MatMul*`");
    sandbox.run(["accept", "specs/all.yaml"]).success();
    let spec = sandbox.read("specs/all.yaml");
    assert!(
        spec.contains("signature: \"onnxruntime * | Pad_Fusion | Pad>MaxPool | float32\""),
        "{spec}"
    );
    assert!(!spec.contains("example.org"), "{spec}");
    sandbox.run(run).success();
}

#[test]
fn what_a_runtime_refuses_is_found_and_expected_by_its_error() {
    let sandbox = sandbox(RIGHT);
    refused_by_openvino(&sandbox);
    sandbox.run(["run", "specs/all.yaml"]).success();
    let found = sandbox.run(["blame", "--all", "--json"]).success().json();
    let [case] = &found["cases"].as_array().unwrap()[..] else {
        panic!("{found:#}");
    };
    assert_eq!(case["case"], "linear:openvino-fp32");
    assert_eq!(case["finding"]["verdict"], "refused", "{case:#}");
    assert_eq!(case["finding"]["nodes"][0]["operator"], "Det", "{case:#}");
    let class = case["finding"]["error"]["class"].as_str().unwrap();
    assert!(class.contains("No conversion rule found"), "{class}");
    let repro = sandbox.path(case["repro"].as_str().unwrap());
    assert!(repro.join("run.py").exists());
    let held = ["report", "specs/all.yaml", "--format", "json"];
    let cases = sandbox.run(held).success().json()["cases"].clone();
    let facts = &cases[1]["facts"]["blame:linear:openvino-fp32"];
    assert_eq!(facts["verdict"], "refused", "{cases:#}");
}

#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn the_release_is_found_since_which_a_case_is_wrong() {
    let sandbox = sandbox(RIGHT);
    wrong_by_runtime(&sandbox, "");
    sandbox.run(["run", "specs/all.yaml", "-t", "cpu"]).code(1);
    let bisect = ["bisect", "linear:cpu-fp32", "--bad", "1.31.1", "--json"];
    let found = sandbox
        .run([&bisect[..], &["--good", "1.18.1"]].concat())
        .success()
        .json();
    assert_eq!(found["package"], "onnxruntime", "{found:#}");
    assert_eq!(found["since"]["result"], "release", "{found:#}");
    assert_eq!(found["since"]["last_right"], "1.19.2", "{found:#}");
    assert_eq!(found["since"]["first"], "1.20.0", "{found:#}");
    assert_eq!(found["finding"]["pass"]["name"], "Pad_Fusion");
    let never = sandbox.run([&bisect[..], &["--good", "1.30.0"]].concat());
    let never = never.success().json();
    assert_eq!(never["since"]["result"], "never_right", "{never:#}");
    sandbox
        .run([&bisect[..], &["--good", "1.2.3"]].concat())
        .code(2)
        .stderr_has("the index has no onnxruntime 1.2.3 for this machine")
        .stderr_has("1.31.1");
    sandbox
        .run([&bisect[..], &["--good", "1.31.1"]].concat())
        .code(2)
        .stderr_has("is not older than 1.31.1");
}
