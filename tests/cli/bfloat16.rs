//! A type that numpy does not have, from a ready file through `orch run` and then through its generated test.

use serde_json::Value;

use crate::onnx::{RIGHT, bfloat16_linear, expected_bfloat16};
use crate::ready_onnx::{SPEC, sandbox};
use crate::sizes::shell;
use crate::support::Sandbox;

fn bfloat16(values: [f32; 3]) -> Sandbox {
    let sandbox = sandbox(RIGHT);
    sandbox.write("specs/all.yaml", SPEC.replace("float32", "bfloat16"));
    sandbox.write("models/linear.onnx", bfloat16_linear());
    sandbox.write("models/expected/output_0.pb", expected_bfloat16(values));
    sandbox
}

/// The status of each case, and what its test says by itself.
fn both(sandbox: &Sandbox) -> Vec<(String, bool, Value)> {
    let document = sandbox.run(["run", "specs/all.yaml", "--json"]).json();
    let cases = document["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 2);
    let by_itself = |case: &Value| {
        let line = format!(
            "{} --json own.json --save saved",
            case["repro"].as_str().unwrap_or_else(|| panic!("{case:#}"))
        );
        let (passed, said) = shell(sandbox, &line);
        let own: Value = serde_json::from_str(&sandbox.read("own.json"))
            .unwrap_or_else(|e| panic!("{e}\n{said}"));
        (case["status"].as_str().unwrap().to_owned(), passed, own)
    };
    cases.iter().map(by_itself).collect()
}

#[test]
fn a_ready_file_with_bfloat16_passes_natively_and_in_its_test() {
    let sandbox = bfloat16([41.5, 51.5, 63.]);
    for (status, passed, own) in both(&sandbox) {
        assert_eq!((status.as_str(), passed), ("PASS", true), "{own:#}");
        assert_eq!(own["facts"]["numerics"]["verdict"], "PASS", "{own:#}");
        assert_eq!(own["facts"]["inputs"]["x"], "bfloat16 [1, 2]");
        assert_eq!(
            own["facts"]["numerics"]["tensors"]["y"]["dtype"],
            "bfloat16"
        );
        assert_eq!(own["facts"]["result"]["y"]["mean"], 52.0, "{own:#}");
        let saved = sandbox.path("saved");
        for name in ["outputs", "control-outputs"] {
            let bytes = std::fs::read(saved.join(format!("{name}.safetensors"))).unwrap();
            let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
            let y = tensors.tensor("y").unwrap();
            assert_eq!(
                (y.dtype(), y.shape()),
                (safetensors::Dtype::BF16, [1, 3].as_slice())
            );
        }
    }
}

#[test]
fn a_wrong_value_in_bfloat16_fails_natively_and_in_its_test() {
    let sandbox = bfloat16([41.5, 51.5, 60.]);
    for (status, passed, own) in both(&sandbox) {
        assert_eq!((status.as_str(), passed), ("NUMERICS", false), "{own:#}");
        assert_eq!(own["facts"]["numerics"]["verdict"], "NUMERICS", "{own:#}");
        assert!(
            own["reason"]
                .as_str()
                .unwrap()
                .contains("it is 63 where the reference is 60"),
            "{own:#}"
        );
    }
}
