//! `orch blame`: what makes a case wrong, by the real runtime.

use crate::onnx::{RIGHT, expected};
use crate::ready_onnx::sandbox;

#[test]
fn a_right_case_is_blamed_on_nobody_and_a_wrong_file_is_named() {
    let sandbox = sandbox(RIGHT);
    sandbox.run(["run", "specs/all.yaml"]).success();
    let held = ["report", "specs/all.yaml", "--format", "json"];
    let before = sandbox.run(held).success().json()["cases"].clone();
    let right = sandbox
        .run(["blame", "linear:cpu-fp32", "--json"])
        .success()
        .json();
    assert_eq!(right["case"], "linear:cpu-fp32");
    assert_eq!(right["finding"]["verdict"], "not_reproduced", "{right:#}");
    assert!(right["repro"].is_null());
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
    sandbox
        .run(["blame", "linear:openvino-fp32"])
        .code(2)
        .stderr_has("orch cuts no windows for `openvino`");
    sandbox
        .run(["blame", "linear*"])
        .code(2)
        .stderr_has("matches 2 cases: name one, such as `linear:cpu-fp32`");
}
