//! Two versions of a runtime as columns of one matrix, by locks that uv makes.

use crate::onnx::RIGHT;
use crate::ready_onnx::{SPEC, sandbox};

const TOOLCHAINS: &str = "toolchains:
  ort-1.28: {locks: {ort: ../toolchains/ort-1.28/ort.txt}}
  openvino-2025.4: {locks: {openvino: ../toolchains/openvino-2025.4/openvino.txt}}
  newest-ir: {locks: {openvino: ../toolchains/openvino-2025.4/openvino.txt}, convert: newest}
measure:";

#[test]
fn a_package_that_no_environment_is_for_is_named() {
    let sandbox = crate::support::Sandbox::new();
    sandbox
        .run(["toolchain", "add", "onnxruntim==1.28.0"])
        .code(2)
        .stderr_has("no environment is for `onnxruntim`")
        .stderr_has("onnxruntime");
    sandbox
        .run(["toolchain", "add", "--env", "orrt", "numpy==2"])
        .code(2)
        .stderr_has("no locked environment is called `orrt`");
    sandbox
        .run(["toolchain", "add", "numpy=2"])
        .code(2)
        .stderr_has("PACKAGE==VERSION");
}

#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn two_versions_of_a_runtime_stand_side_by_side() {
    let sandbox = sandbox(RIGHT);
    let add = |wish: &str| {
        let added = sandbox.run(["toolchain", "add", wish, "--json"]).success();
        added.json()
    };
    let ort = add("onnxruntime==1.28.0");
    assert_eq!(ort["name"], "ort-1.28", "{ort:#}");
    let moved = &ort["locks"][0]["moved"];
    assert_eq!(moved[0]["package"], "onnxruntime", "{ort:#}");
    assert_eq!(moved[0]["to"], "1.28.0", "{ort:#}");
    let openvino = add("openvino==2025.4.1");
    let names: Vec<_> = openvino["locks"][0]["moved"]
        .as_array()
        .unwrap()
        .iter()
        .map(|moved| moved["package"].as_str().unwrap().to_owned())
        .collect();
    assert!(names.contains(&"numpy".to_owned()), "{openvino:#}");

    let spec = SPEC
        .replace("measure:", TOOLCHAINS)
        .replace(
            "artefact: onnx, precisions: [fp32]}",
            "artefact: onnx, precisions: [fp32], toolchains: [default, ort-1.28]}",
        )
        .replace(
            "artefact: openvino, precisions: [fp32]}",
            "artefact: openvino, precisions: [fp32], toolchains: [default, openvino-2025.4, newest-ir]}",
        );
    sandbox.write("specs/all.yaml", spec);
    let ran = sandbox.run(["run", "specs/all.yaml", "--json"]).success();
    let ran = ran.json();
    let cases: Vec<_> = ran["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| {
            (
                case["case"].as_str().unwrap(),
                case["status"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        cases,
        [
            ("linear:cpu-fp32", "PASS"),
            ("linear:cpu@ort-1.28-fp32", "PASS"),
            ("linear:openvino-fp32", "PASS"),
            ("linear:openvino@openvino-2025.4-fp32", "PASS"),
            ("linear:openvino@newest-ir-fp32", "PASS"),
        ]
    );
    // Each column loads the library of its own lock, by what the library says of itself.
    let text = ran.to_string();
    for version in ["1.31.1", "1.28.0", "2026.4.1", "2025.4.1"] {
        assert!(text.contains(version), "{version}: {ran:#}");
    }
    for folder in ["openvino-fp32", "openvino-fp32@openvino-2025.4"] {
        let folder = format!("orch-out/artefacts/linear/{folder}");
        assert!(sandbox.path(&folder).is_dir(), "{folder}");
    }
    let listed = sandbox.run(["toolchain", "list", "specs/all.yaml"]);
    listed
        .success()
        .stdout_has("ort-1.28: cpu@ort-1.28")
        .stdout_has("onnxruntime 1.28.0 (orch's own: 1.31.1)");
    let again = sandbox.run(["run", "specs/all.yaml", "--json", "--remeasure", "0"]);
    again.success().summary([("executed", 0)]);
}
