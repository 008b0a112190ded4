//! Ready files as users bring them: the example's generated tests, and a sample of the suite of ONNX's own node tests.

use std::path::Path;
use std::process::Command;

use prost::Message;
use serde_json::Value;

use crate::onnx::{RIGHT, folding, image_decoder, resize, tensor};
use crate::ready_onnx::{SPEC, sandbox};
use crate::support::{Sandbox, env_dir};

/// By the line that the report gives for each case.
#[test]
fn the_example_s_generated_tests_pass_by_themselves() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/onnx-file/specs");
    let mut sandbox = Sandbox::new().installs();
    for entry in std::fs::read_dir(example).unwrap() {
        let entry = entry.unwrap();
        let name = format!("specs/{}", entry.file_name().to_str().unwrap());
        sandbox = sandbox.file(&name, std::fs::read(entry.path()).unwrap());
    }
    sandbox.run(["setup", "ort", "openvino", "--spec", "specs/all.yaml"]).success();
    let document = sandbox.run(["run", "specs/all.yaml", "--json"]).success().summary([("passed", 3)]).json();
    for case in document["cases"].as_array().unwrap() {
        passes_by_itself(&sandbox, case);
    }
}

fn passes_by_itself(sandbox: &Sandbox, case: &Value) {
    let line = format!("{} --json by-itself.json", case["repro"].as_str().unwrap());
    let output = Command::new("sh").args(["-c", &line]).current_dir(sandbox.path("")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{line}\n{said}{}", String::from_utf8_lossy(&output.stdout));
    let passed: Value = serde_json::from_str(&sandbox.read("by-itself.json")).unwrap();
    assert_eq!(passed["facts"]["numerics"]["verdict"], "PASS", "{passed:#}");
}

/// Each case ends as `suites/onnx/known.yaml` says, or passes.
#[test]
fn a_sample_of_onnx_s_own_tests_ends_as_it_is_known_to() {
    let sandbox = Sandbox::new().installs();
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/onnx/make.py");
    let mut command = Command::new("python3");
    command.arg(make).arg(sandbox.path("suite")).args(["--sample", "100", "--packages"]);
    let output = command.arg(env_dir().join("suite-onnx")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    sandbox.run(["setup", "ort", "openvino", "--spec", "suite/all.yaml"]).success();
    let document = sandbox.run(["run", "suite/all.yaml", "--json"]).success().json();
    // A hundred, and the three trained ones.
    assert_eq!(document["summary"]["cases"], 206, "{}", document["summary"]);
    assert_eq!(document["summary"]["unavailable"], 0, "{}", document["summary"]);
    // It has an input without axes.
    for case in document["cases"].as_array().unwrap().iter().filter(|case| case["model"] == "silero-vad") {
        assert_eq!((&case["status"], &case["family"]), (&"PASS".into(), &"other".into()), "{case:#}");
        passes_by_itself(&sandbox, case);
    }
}

/// What it says of the second input is part of the verdict, so nothing is judged without it.
#[test]
fn a_ready_file_where_python_has_no_onnx_runtime_is_unavailable_with_a_remedy() {
    let sandbox = sandbox(RIGHT);
    let is_openvino = |name: &str| name.starts_with("openvino-") && !name.contains('.');
    let envs = std::fs::read_dir(sandbox.path("envs")).unwrap().map(|entry| entry.unwrap());
    let env = envs.filter(|entry| is_openvino(entry.file_name().to_str().unwrap())).map(|entry| entry.path());
    let python = env.max().unwrap().join("bin/python");
    let sandbox = sandbox.env("ORCH_PYTHON", python.to_str().unwrap());
    for _ in 0..2 {
        let ended = sandbox.run(["run", "specs/all.yaml", "-t", "openvino", "--json"]).code(3);
        let document = ended.summary([("cases", 1), ("unavailable", 1), ("failed", 0)]).json();
        let case = &document["cases"][0];
        assert_eq!(case["stage"], "generate", "{case:#}");
        let reason = case["reason"].as_str().unwrap();
        let remedy = format!("; hint: `{} -m pip install onnxruntime`, or", python.display());
        assert!(
            reason.starts_with("the Python of ORCH_PYTHON has no onnxruntime (") && reason.contains(&remedy),
            "{reason}"
        );
    }
}

/// Its scales moved by a place are another problem, which OpenVINO does not solve.
#[test]
fn a_second_input_keeps_what_decides_the_shapes() {
    let sandbox = sandbox(RIGHT);
    sandbox.write("models/linear.onnx", resize());
    sandbox.write("models/inputs/input_0.pb", tensor("x", &[1, 1, 1, 2], &[1., 2.]).encode_to_vec());
    sandbox.write("models/inputs/input_1.pb", tensor("scales", &[4], &[1., 1., 2., 1.]).encode_to_vec());
    sandbox.write("models/expected/output_0.pb", tensor("y", &[1, 1, 2, 2], &[1., 2., 1., 2.]).encode_to_vec());
    let (head, _) = SPEC.split_once("    inputs:").unwrap();
    sandbox.write("specs/all.yaml", format!("{head}    inputs_from: ../models/inputs\n"));
    let document = sandbox.run(["run", "specs/all.yaml", "--json"]).success().summary([("passed", 2)]).json();
    for case in document["cases"].as_array().unwrap() {
        let control = &case["numerics"]["control"];
        assert_eq!((&control["kept"][0], &control["by"]), (&"scales".into(), &"onnxruntime cpu".into()), "{case:#}");
        assert!(control["differs_by"].as_f64().unwrap() >= 1.0, "{control}");
    }
    let page = sandbox.read("orch-out/report/junit.xml");
    let told = "; its outputs are those of onnxruntime cpu; it has the given values of scales";
    assert!(page.contains(told), "{page}");
}

const PLUGINS: &str = "version: 1
targets:
  qnn: {runtime: ort, backend: qnn, device: htp, artefact: qnn, precisions: [fp16], options: {soc_model: 60}}
  webgpu: {runtime: ort, backend: webgpu, device: webgpu, artefact: onnx, precisions: [fp32]}
  webnn: {runtime: browser, backend: webnn, device: cpu, artefact: onnx, precisions: [fp32]}
measure: {warmup: 0, samples: 1}
models:
  one: {onnx: one.onnx, expected: expected, inputs: INPUTS}
";

/// These were failures: of the first kind, that no node ran where it was asked to, which is true of a graph without any.
#[test]
fn a_provider_that_has_nothing_to_run_or_no_kernel_is_unsupported() {
    let sandbox = Sandbox::new().installs();
    sandbox.write("specs/expected/output_0.pb", tensor("y", &[1, 3], &[1.5, 1.5, 3.]).encode_to_vec());
    sandbox.write("specs/one.onnx", folding());
    sandbox.write("specs/all.yaml", PLUGINS.replace("INPUTS", "{}"));
    let run = ["run", "specs/all.yaml", "--json"];
    let document = sandbox.run(run).code(3).summary([("cases", 3), ("unsupported", 3), ("passed", 0)]).json();
    for (case, provider) in document["cases"].as_array().unwrap().iter().zip(["QNN", "WebGpu", "WebNN"]) {
        let told = format!("the graph folds to constants: nothing is left for {provider}ExecutionProvider to run");
        assert_eq!(case["reason"], told, "{case:#}");
    }

    sandbox.write("specs/one.onnx", image_decoder());
    sandbox.write("specs/expected/output_0.pb", tensor("y", &[2, 2, 3], &[1.; 12]).encode_to_vec());
    sandbox.write("specs/all.yaml", PLUGINS.replace("INPUTS", "{x: {dtype: uint8, shape: [20], value: 1}}"));
    let document = sandbox.run(run).code(3).summary([("cases", 3), ("unsupported", 3)]).json();
    let reason = document["cases"][1]["reason"].as_str().unwrap();
    assert_eq!(reason, "Provider type for ImageDecoder node with name '' is not set.", "{document:#}");
}
