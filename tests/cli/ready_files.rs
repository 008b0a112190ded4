//! Ready files as users bring them: the example's generated tests, and a sample of the suite of ONNX's own node tests.

use std::path::Path;
use std::process::Command;

use prost::Message;
use serde_json::Value;

use crate::onnx::{RIGHT, einsum_of_doubles, folding, image_decoder, resize, tensor};
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
    sandbox
        .run(["setup", "ort", "openvino", "--spec", "specs/all.yaml"])
        .success();
    let document = sandbox
        .run(["run", "specs/all.yaml", "--json"])
        .success()
        .summary([("passed", 3)])
        .json();
    for case in document["cases"].as_array().unwrap() {
        passes_by_itself(&sandbox, case);
    }
}

fn passes_by_itself(sandbox: &Sandbox, case: &Value) {
    let line = format!("{} --json by-itself.json", case["repro"].as_str().unwrap());
    let output = Command::new("sh")
        .args(["-c", &line])
        .current_dir(sandbox.path(""))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{line}\n{said}{}",
        String::from_utf8_lossy(&output.stdout)
    );
    let passed: Value = serde_json::from_str(&sandbox.read("by-itself.json")).unwrap();
    assert_eq!(passed["facts"]["numerics"]["verdict"], "PASS", "{passed:#}");
}

/// Each case ends as `suites/onnx/known.yaml` says, or passes.
#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn a_sample_of_onnx_s_own_tests_ends_as_it_is_known_to() {
    let sandbox = Sandbox::new().installs();
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/onnx/make.py");
    let mut command = Command::new("python3");
    command
        .arg(make)
        .arg(sandbox.path("suite"))
        .args(["--sample", "100", "--packages"]);
    let output = command.arg(env_dir().join("suite-onnx")).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    sandbox
        .run(["setup", "ort", "openvino", "--spec", "suite/all.yaml"])
        .success();
    let document = sandbox
        .run(["run", "suite/all.yaml", "--json"])
        .success()
        .json();
    // A hundred, and the three trained ones.
    assert_eq!(document["summary"]["cases"], 206, "{}", document["summary"]);
    assert_eq!(
        document["summary"]["unavailable"], 0,
        "{}",
        document["summary"]
    );
    // It has an input without axes.
    for case in document["cases"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|case| case["model"] == "silero-vad")
    {
        assert_eq!(
            (&case["status"], &case["family"]),
            (&"PASS".into(), &"other".into()),
            "{case:#}"
        );
        passes_by_itself(&sandbox, case);
    }
}

/// What it says of the second input is part of the verdict, so nothing is judged without it.
#[test]
fn a_ready_file_where_python_has_no_onnx_runtime_is_unavailable_with_a_remedy() {
    let sandbox = sandbox(RIGHT);
    let is_openvino = |name: &str| name.starts_with("openvino-") && !name.contains('.');
    let envs = std::fs::read_dir(sandbox.path("envs"))
        .unwrap()
        .map(|entry| entry.unwrap());
    let env = envs
        .filter(|entry| is_openvino(entry.file_name().to_str().unwrap()))
        .map(|entry| entry.path());
    let python = env.max().unwrap().join("bin/python");
    let sandbox = sandbox.env("ORCH_PYTHON", python.to_str().unwrap());
    for _ in 0..2 {
        let ended = sandbox
            .run(["run", "specs/all.yaml", "-t", "openvino", "--json"])
            .code(3);
        let document = ended
            .summary([("cases", 1), ("unavailable", 1), ("failed", 0)])
            .json();
        let case = &document["cases"][0];
        assert_eq!(case["stage"], "generate", "{case:#}");
        let reason = case["reason"].as_str().unwrap();
        let remedy = format!(
            "; hint: `{} -m pip install onnxruntime`, or",
            python.display()
        );
        assert!(
            reason.starts_with("the Python of ORCH_PYTHON has no onnxruntime (")
                && reason.contains(&remedy),
            "{reason}"
        );
    }
}

/// Its scales moved by a place are another problem, which OpenVINO does not solve.
#[test]
fn a_second_input_keeps_what_decides_the_shapes() {
    let sandbox = sandbox(RIGHT);
    sandbox.write("models/linear.onnx", resize());
    sandbox.write(
        "models/inputs/input_0.pb",
        tensor("x", &[1, 1, 1, 2], &[1., 2.]).encode_to_vec(),
    );
    sandbox.write(
        "models/inputs/input_1.pb",
        tensor("scales", &[4], &[1., 1., 2., 1.]).encode_to_vec(),
    );
    sandbox.write(
        "models/expected/output_0.pb",
        tensor("y", &[1, 1, 2, 2], &[1., 2., 1., 2.]).encode_to_vec(),
    );
    let (head, _) = SPEC.split_once("    inputs:").unwrap();
    sandbox.write(
        "specs/all.yaml",
        format!("{head}    inputs_from: ../models/inputs\n"),
    );
    let document = sandbox
        .run(["run", "specs/all.yaml", "--json"])
        .success()
        .summary([("passed", 2)])
        .json();
    for case in document["cases"].as_array().unwrap() {
        let control = &case["numerics"]["control"];
        assert_eq!(
            (&control["kept"][0], &control["by"]),
            (&"scales".into(), &"onnxruntime cpu".into()),
            "{case:#}"
        );
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
    sandbox.write(
        "specs/expected/output_0.pb",
        tensor("y", &[1, 3], &[1.5, 1.5, 3.]).encode_to_vec(),
    );
    sandbox.write("specs/one.onnx", folding());
    sandbox.write("specs/all.yaml", PLUGINS.replace("INPUTS", "{}"));
    let run = ["run", "specs/all.yaml", "--json"];
    let document = sandbox
        .run(run)
        .code(3)
        .summary([("cases", 3), ("unsupported", 3), ("passed", 0)])
        .json();
    for (case, provider) in document["cases"]
        .as_array()
        .unwrap()
        .iter()
        .zip(["QNN", "WebGpu", "WebNN"])
    {
        let told = format!(
            "the graph folds to constants: nothing is left for {provider}ExecutionProvider to run"
        );
        assert_eq!(case["reason"], told, "{case:#}");
    }

    sandbox.write("specs/one.onnx", image_decoder());
    sandbox.write(
        "specs/expected/output_0.pb",
        tensor("y", &[2, 2, 3], &[1.; 12]).encode_to_vec(),
    );
    sandbox.write(
        "specs/all.yaml",
        PLUGINS.replace("INPUTS", "{x: {dtype: uint8, shape: [20], value: 1}}"),
    );
    let document = sandbox
        .run(run)
        .code(3)
        .summary([("cases", 3), ("unsupported", 3)])
        .json();
    let reason = document["cases"][1]["reason"].as_str().unwrap();
    assert_eq!(
        reason, "Provider type for ImageDecoder node with name '' is not set.",
        "{document:#}"
    );

    // WebNN's provider takes the node, and then says that it has no doubles.
    sandbox.write("specs/one.onnx", einsum_of_doubles());
    let spec = PLUGINS.replace("INPUTS", "{x: {dtype: float64, shape: [2], data: [1, 2]}}");
    sandbox.write("specs/all.yaml", spec.replace("expected: expected, ", ""));
    let document = sandbox
        .run(["run", "specs/all.yaml", "-t", "webnn", "--json"])
        .code(3)
        .json();
    let reason = document["cases"][0]["reason"].as_str().unwrap();
    assert!(
        reason.contains("WebNN backend does not support data type: 11"),
        "{document:#}"
    );
}

const IR: &str = "version: 1
targets:
  openvino: {runtime: openvino, backend: openvino, device: CPU, artefact: openvino, precisions: [fp32]}
measure: {warmup: 0, samples: 1}
models:
  all: {openvino: m.xml, inputs_from: given, expected: all}
  one: {openvino: m.xml, inputs_from: given, expected: one, outputs: [product]}
  still: {openvino: m.xml, inputs_from: given, expected: still, outputs: [still]}
";

/// Names and their order are the file's; only a second input shows that `still` looks at nothing.
#[test]
fn an_openvino_ir_holds_its_names_and_has_a_second_input() {
    let sandbox = sandbox(RIGHT);
    let file = |name: &str, values: &[f32]| tensor(name, &[1, 2], values).encode_to_vec();
    sandbox.write("specs/m.xml", crate::ir::xml());
    sandbox.write("specs/m.bin", crate::ir::bin());
    // Without names, in the file's order: b, a; sum, product, still.
    sandbox.write("specs/given/input_0.pb", file("", &[3., 4.]));
    sandbox.write("specs/given/input_1.pb", file("", &[1., 10.]));
    for (index, values) in [[2., 12.], [3., 40.], [1., 2.]].iter().enumerate() {
        sandbox.write(&format!("specs/all/output_{index}.pb"), file("", values));
    }
    sandbox.write("specs/one/output_0.pb", file("product", &[3., 40.]));
    sandbox.write("specs/still/output_0.pb", file("still", &[1., 2.]));
    sandbox.write("specs/all.yaml", IR);
    let run = ["run", "specs/all.yaml", "--json"];
    let document = sandbox
        .run(run)
        .summary([("passed", 2), ("indecisive", 1), ("failed", 0)])
        .json();
    let cases = document["cases"].as_array().unwrap();
    for case in &cases[..2] {
        let numerics = &case["numerics"];
        assert_eq!(case["status"], "PASS", "{case:#}");
        assert_eq!(numerics["reference"], "expected outputs given by the user");
        assert_eq!(
            numerics["control"]["by"], "openvino cpu, which is tested itself",
            "{case:#}"
        );
        passes_by_itself(&sandbox, case);
    }
    assert_eq!(
        cases[0]["numerics"]["tensors"]
            .as_object()
            .unwrap()
            .keys()
            .collect::<Vec<_>>(),
        ["product", "still", "sum"]
    );
    assert_eq!(cases[0]["numerics"]["control"]["undecided"][0], "still");
    assert_eq!(
        cases[1]["numerics"]["tensors"]
            .as_object()
            .unwrap()
            .keys()
            .collect::<Vec<_>>(),
        ["product"]
    );
    assert_eq!(
        (&cases[2]["model"], &cases[2]["status"]),
        (&"still".into(), &"INDECISIVE".into()),
        "{:#}",
        cases[2]
    );

    sandbox.write(
        "specs/all.yaml",
        IR.replace("outputs: [still]", "outputs: [stil]"),
    );
    let document = sandbox.run(run).code(1).json();
    let told = "`outputs` names `stil`, which `m.xml` does not give; it gives: sum, product, still";
    let reason = document["cases"][2]["reason"]
        .as_str()
        .unwrap()
        .replace(&*sandbox.path("specs/").to_string_lossy(), "");
    assert_eq!(reason, told);
}
