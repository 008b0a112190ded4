//! `orch profile`: each runtime's own counters of a real model.

use crate::onnx::RIGHT;
use crate::ready_onnx::sandbox;

#[test]
fn operators_are_timed_where_they_ran_and_no_record_changes() {
    let sandbox = sandbox(RIGHT);
    sandbox.run(["run", "specs/all.yaml"]).success();
    let before = sandbox
        .run(["report", "specs/all.yaml", "--format", "json"])
        .success()
        .stdout;
    for (case, place, by) in [
        ("linear:cpu-fp32", "CPUExecutionProvider", "ONNX Runtime"),
        ("linear:openvino-fp32", "CPU", "OpenVINO"),
    ] {
        let profile = sandbox.run(["profile", case, "--json"]).success().json();
        assert_eq!(profile["case"], case);
        let profile = &profile["profile"];
        assert!(
            profile["by"].as_str().unwrap().starts_with(by),
            "{profile:#}"
        );
        let operators = profile["operators"].as_array().unwrap();
        assert!(!operators.is_empty(), "{profile:#}");
        for operator in operators {
            assert!(
                operator["place"].as_str().unwrap().starts_with(place),
                "{operator:#}"
            );
            assert!(
                (operator["calls"].as_f64().unwrap() - 1.0).abs() < 1e-9,
                "{operator:#}"
            );
        }
        // Counters of whole microseconds, of a model of less than one.
        let sum: f64 = operators
            .iter()
            .map(|operator| operator["ms"].as_f64().unwrap())
            .sum();
        assert!(
            sum <= profile["wall_ms"].as_f64().unwrap() + 0.002,
            "{profile:#}"
        );
        sandbox
            .run(["profile", case])
            .success()
            .stdout_has(place)
            .stdout_has("operator  ");
    }
    let after = sandbox
        .run(["report", "specs/all.yaml", "--format", "json"])
        .success()
        .stdout;
    assert_eq!(cases(&before), cases(&after));
    sandbox
        .run(["profile", "linear:*"])
        .code(2)
        .stderr_has("matches 2 cases")
        .stderr_has("linear:cpu-fp32");
}

fn cases(report: &str) -> serde_json::Value {
    serde_json::from_str::<serde_json::Value>(report).unwrap()["cases"].clone()
}
