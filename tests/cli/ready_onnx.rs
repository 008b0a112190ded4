//! A ready ONNX file from end to end: no torch, its own expected outputs, on ONNX Runtime and on OpenVINO.

use std::path::Path;

use prost::Message;

use crate::onnx::{ModelProto, RIGHT, determinant, expected, image_decoder, linear};
use crate::support::{Sandbox, env_dir};

pub(super) const SPEC: &str = "version: 1
pipelines:
  tabular: {description: numbers to numbers, tasks: [regression], template: text}
targets:
  cpu: {runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32]}
  openvino: {runtime: openvino, backend: openvino, device: CPU, artefact: openvino, precisions: [fp32]}
measure: {warmup: 1, samples: 6}
models:
  linear:
    onnx: ../models/linear.onnx
    expected: ../models/expected
    family: other
    task: regression
    pipeline: tabular
    inputs: {x: {dtype: float32, shape: [1, 2], data: [1, 10]}}
";

const RUN: [&str; 3] = ["run", "specs/all.yaml", "--json"];

/// A sandbox whose environments are those two that a ready ONNX file needs, and no other.
pub(super) fn sandbox(values: [f32; 3]) -> Sandbox {
    let sandbox = Sandbox::new()
        .installs()
        .file("specs/all.yaml", SPEC)
        .file("models/linear.onnx", linear())
        .file("models/expected/output_0.pb", expected(values));
    sandbox
        .run(["setup", "ort", "openvino", "--spec", "specs/all.yaml"])
        .success();
    let own = sandbox.path("envs");
    std::fs::create_dir(&own).unwrap();
    for entry in std::fs::read_dir(env_dir())
        .unwrap()
        .map(|entry| entry.unwrap())
    {
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() && (name.starts_with("ort-") || name.starts_with("openvino-")) {
            std::os::unix::fs::symlink(entry.path(), own.join(name)).unwrap();
        }
    }
    sandbox.env("ORCH_ENV_DIR", own.to_str().unwrap())
}

/// Gives another environment the ONNX Runtime of orch's own: no ready ONNX file has a second input without it.
pub(super) fn lend_onnx_runtime(packages: &Path) {
    let is_ort = |name: &str| name.starts_with("ort-") && !name.contains('.');
    let envs = std::fs::read_dir(env_dir())
        .unwrap()
        .map(|entry| entry.unwrap());
    let ort = envs
        .filter(|entry| is_ort(entry.file_name().to_str().unwrap()))
        .map(|entry| entry.path())
        .max()
        .unwrap();
    let lib = std::fs::read_dir(ort.join("lib"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    for entry in std::fs::read_dir(lib.join("site-packages"))
        .unwrap()
        .map(|entry| entry.unwrap())
    {
        let name = entry.file_name();
        if name.to_str().unwrap().starts_with("onnxruntime") && !packages.join(&name).exists() {
            std::os::unix::fs::symlink(entry.path(), packages.join(&name)).unwrap();
        }
    }
}

#[test]
fn it_passes_on_onnx_runtime_and_on_openvino_without_torch() {
    let sandbox = sandbox(RIGHT);
    let ended = sandbox.run(RUN).success().summary([
        ("cases", 2),
        ("passed", 2),
        ("failed", 0),
        ("unavailable", 0),
    ]);
    let document = ended.json();
    for (case, target, device) in [(0, "cpu", "cpu"), (1, "openvino", "CPU")] {
        let case = &document["cases"][case];
        assert_eq!(
            (&case["model"], &case["target"], &case["status"]),
            (&"linear".into(), &target.into(), &"PASS".into())
        );
        assert_eq!(
            (&case["pipeline"], &case["precision"]),
            (&"tabular".into(), &"fp32".into())
        );
        let requested = case["requested_device"].as_str().unwrap();
        let actual = case["actual_device"].as_str().unwrap();
        assert!(
            requested.contains(device) && actual.contains(device),
            "{requested} {actual}"
        );
        assert_eq!(case["numerics"]["passed"], true);
        assert_eq!(
            case["numerics"]["reference"],
            "expected outputs given by the user"
        );
        assert!(
            case["metrics"]["samples"].as_u64() >= Some(6),
            "a short sample is taken more often"
        );
        assert!(case["metrics"]["median_ms"].as_f64().unwrap() > 0.);
        assert!(
            case["repro"]
                .as_str()
                .unwrap()
                .contains(&format!("orch-out/tests/test_linear_{target}-fp32.py"))
        );
    }
    let placement = document["cases"][0]["placement"].as_object().unwrap();
    assert_eq!(
        placement.keys().collect::<Vec<_>>(),
        ["CPUExecutionProvider"]
    );
    let envs = std::fs::read_dir(sandbox.path("envs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let torch: Vec<_> = envs
        .filter(|name| name.to_string_lossy().contains("torch"))
        .collect();
    assert!(torch.is_empty(), "{torch:?}");

    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 0), ("passed", 2)]);
    // Another expectation is another reference: both runs are judged again.
    sandbox.write("models/expected/output_0.pb", expected([41.5, 51.5, 60.]));
    sandbox
        .run(RUN)
        .code(1)
        .summary([("passed", 0), ("failed", 2)]);
}

#[test]
fn wrong_outputs_never_pass() {
    let sandbox = sandbox([41.5, 51.5, 60.]);
    for cached in [false, true] {
        let ended = sandbox
            .run(["run", "specs/all.yaml", "-t", "cpu", "--json"])
            .code(1);
        let case = &ended.json()["cases"][0];
        assert_eq!(
            (&case["status"], &case["stage"], &case["cached"]),
            (&"NUMERICS".into(), &"run".into(), &cached.into())
        );
        assert_eq!(case["numerics"]["passed"], false);
        assert!(case["reason"].as_str().unwrap().contains('y'), "{case}");
        ended.stdout_has("NUMERICS");
    }
}

#[test]
fn without_expected_outputs_the_reference_is_named_for_what_it_is() {
    let sandbox = sandbox(RIGHT);
    sandbox.write(
        "specs/all.yaml",
        SPEC.replace("    expected: ../models/expected\n", ""),
    );
    let document = sandbox.run(RUN).success().summary([("passed", 2)]).json();
    for case in document["cases"].as_array().unwrap() {
        assert_eq!(
            case["numerics"]["reference"], "onnxruntime cpu fp32",
            "{case}"
        );
    }
}

/// As by an update of orch or a build of it beside a run.
#[cfg(target_os = "linux")]
#[test]
fn a_run_whose_program_is_removed_meanwhile_goes_on() {
    let sandbox = sandbox(RIGHT);
    let own = sandbox.path("orch");
    // By a process: a child that another test starts meanwhile would hold a copy of this one open for writing, and what
    // is open for writing cannot be executed.
    let copied = std::process::Command::new("cp")
        .args([env!("CARGO_BIN_EXE_orch").as_ref(), own.as_path()])
        .status()
        .unwrap();
    assert!(copied.success());
    let remove = format!("rm {}; echo > out", own.display());
    let commands = format!(
        "commands:\n  remove: {{argv: [sh, -c, '{remove}'], outputs: [out], writable: [..]}}\n"
    );
    sandbox.write("specs/all.yaml", format!("{SPEC}{commands}"));
    // Timed runs on the CPU wait until nothing else executes.
    let like = sandbox.command(["run", "specs/all.yaml", "-t", "cpu"]);
    let mut command = std::process::Command::new(&own);
    command
        .args(like.get_args())
        .current_dir(sandbox.path(""))
        .env_clear();
    command.envs(
        like.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let ended = command.output().unwrap();
    assert!(!own.exists());
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
}

/// Each was a failure, OpenVINO's with a line that said where in its sources.
/// The spec up to the inputs of its model, whose reference is ONNX Runtime's own.
fn without_expected() -> String {
    let (head, _) = SPEC.split_once("    inputs:").unwrap();
    head.replace("    expected: ../models/expected\n", "")
}

/// Writes a model of an operator that OpenVINO does not have.
pub(super) fn refused_by_openvino(sandbox: &Sandbox) {
    sandbox.write("models/linear.onnx", determinant());
    let inputs = "inputs: {x: {dtype: float32, shape: [1, 2, 2], data: [1, 2, 3, 4]}}";
    let head = without_expected();
    sandbox.write("specs/all.yaml", format!("{head}    {inputs}\n"));
}

#[test]
fn what_a_runtime_has_no_operator_for_is_its_refusal_in_its_words() {
    let sandbox = sandbox(RIGHT);
    refused_by_openvino(&sandbox);
    let document = sandbox.run(RUN).json();
    let case = &document["cases"][1];
    assert_eq!(
        (&case["target"], &case["status"]),
        (&"openvino".into(), &"SKIP_UNSUPPORTED".into()),
        "{case:#}"
    );
    assert_eq!(case["stage"], "convert", "{case:#}");
    let reason = case["reason"].as_str().unwrap();
    assert!(reason.starts_with("OpenVINO 20"), "{reason}");
    assert!(
        reason.ends_with(
            "does not convert the model: No conversion rule found for operations: Det-17"
        ),
        "{reason}"
    );

    // Nobody can say what is right where the reference is ONNX Runtime's own, and it lacks the operator.
    sandbox.write("models/linear.onnx", image_decoder());
    sandbox.write(
        "specs/all.yaml",
        format!(
            "{}    inputs: {{x: {{dtype: uint8, shape: [20], value: 1}}}}\n",
            without_expected()
        ),
    );
    let document = sandbox.run(RUN).json();
    let case = &document["cases"][0];
    assert_eq!(
        (&case["target"], &case["status"]),
        (&"cpu".into(), &"SKIP_UNSUPPORTED".into()),
        "{case:#}"
    );
    let reason = case["reason"].as_str().unwrap();
    assert!(
        reason.contains("Could not find an implementation for ImageDecoder(20)"),
        "{reason}"
    );
}

/// It was a failure, although the file is right and only orch has no tensor for it. A file that is none fails.
#[test]
fn a_type_that_no_tensor_here_has_is_unsupported_and_a_broken_file_fails() {
    let sandbox = sandbox(RIGHT);
    let mut model = ModelProto::decode(&*linear()).unwrap();
    let input = &mut model.graph.as_mut().unwrap().input[0];
    input
        .r#type
        .as_mut()
        .unwrap()
        .tensor_type
        .as_mut()
        .unwrap()
        .elem_type = 8;
    sandbox.write("models/linear.onnx", model.encode_to_vec());
    for cached in [false, true] {
        let document = sandbox
            .run(RUN)
            .code(3)
            .summary([("unsupported", 2), ("failed", 0)])
            .json();
        for case in document["cases"].as_array().unwrap() {
            assert_eq!(
                (&case["stage"], &case["cached"]),
                (&"generate".into(), &cached.into()),
                "{case:#}"
            );
            let reason = case["reason"].as_str().unwrap();
            assert!(
                reason.contains("its input `x` is a tensor of strings; inputs and outputs must be"),
                "{reason}"
            );
        }
    }
    sandbox.write(
        "models/linear.onnx",
        "version https://git-lfs.github.com/spec/v1",
    );
    sandbox
        .run(RUN)
        .code(1)
        .summary([("unsupported", 0), ("failed", 2)]);
}

/// As PyTorch's exporter writes large files: the data of a Constant node lies beside the graph, and no row names it.
#[test]
fn files_that_constant_nodes_name_come_along_and_are_in_the_key() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/onnx");
    let sandbox = sandbox(RIGHT);
    for name in ["outside.onnx", "outside.data"] {
        let bytes = std::fs::read(fixtures.join(name)).unwrap();
        sandbox.write(&format!("models/{name}"), bytes);
    }
    let row = "    inputs: {x: {dtype: float32, shape: [1, 4], data: [1, 10, 100, 1000]}}\n";
    let (head, _) = SPEC.split_once("  linear:\n").unwrap();
    let row = format!(
        "{head}  outside:\n    onnx: ../models/outside.onnx\n    family: other\n    task: regression\n    pipeline: tabular\n{row}"
    );
    sandbox.write("specs/all.yaml", row);
    let ran = sandbox.run(RUN).success().json();
    assert_eq!(ran["summary"]["passed"], 2, "{ran:#}");
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 0), ("passed", 2)]);
    let changed: Vec<u8> = [3f32, 4.0, 5.0, 7.0]
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    sandbox.write("models/outside.data", changed);
    sandbox
        .run(["plan", "specs/all.yaml"])
        .success()
        .stdout_has("input.external/outside.data");
}
