//! `orch blame`: what makes a case wrong, by the real runtime.

use crate::onnx::{RIGHT, expected};
use crate::ready_onnx::{SPEC, sandbox};

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
    let spec = SPEC.replace("precisions: [fp32]", "precisions: [fp16]");
    assert_ne!(spec, SPEC);
    sandbox.write("half.yaml", spec);
    sandbox
        .run(["blame", "linear:openvino-fp16", "half.yaml"])
        .code(2)
        .stderr_has("orch cuts windows for `openvino` in fp32 alone, and this case has fp16");
    sandbox
        .run(["blame", "linear*"])
        .code(2)
        .stderr_has("matches 2 cases: name one, such as `linear:cpu-fp32`");
}
