//! Everything that can change a result: how it is measured, the packages that compute, the machine. As in `matters.rs`.

use orch::device::{Device, DeviceKind};
use orch::toolchain::EnvName;

use crate::harness::{Outputs, World};
use crate::table::{assert_all, row, settled};

const TESTS: &str = "generate:bert:cpu-fp32 | generate:bert:openvino-fp16 | generate:bert:openvino-int8 \
    | generate:bert:qnn-fp16 | generate:bert:torch-cpu-fp32 | generate:bert:eager-cpu-fp32 | generate:bert:eager-cpu-fp32:run";
const RUNS: &str = "run:bert:cpu-fp32 | run:bert:openvino-fp16 | run:bert:openvino-int8 | run:bert:qnn-fp16 \
    | run:bert:torch-cpu-fp32 | run:bert:eager-cpu-fp32";
const OTHER_TESTS: &str = "generate:plain:cpu-fp32 | generate:hubbed:eager-cpu-fp32 | generate:hubbed:eager-cpu-fp32:run | generate:local:eager-cpu-fp32 | generate:local:eager-cpu-fp32:run \
    | generate:affine:cpu-fp32 | generate:affine:cpu-fp16 | generate:scaled:cpu-fp32";
const OTHER_RUNS: &str = "run:plain:cpu-fp32 | run:hubbed:eager-cpu-fp32 | run:local:eager-cpu-fp32 \
    | run:affine:cpu-fp32 | run:affine:cpu-fp16 | run:scaled:cpu-fp32";
const COMMANDS: &str = "command:sorted | command:packed | command:card";
const MODELS: &str = "generate:bert | generate:plain | generate:hubbed | generate:local";
const EXPORTS: &str = "convert:bert:onnx | convert:plain:onnx | convert:bert:torchscript";
const EAGER: &str =
    "run:bert:eager-cpu-fp32 | run:hubbed:eager-cpu-fp32 | run:local:eager-cpu-fp32";
const ORT: &str = "run:bert:cpu-fp32 | run:plain:cpu-fp32 | run:affine:cpu-fp32 | run:affine:cpu-fp16 | run:scaled:cpu-fp32";
const OPENVINO: &str = "run:bert:openvino-fp16 | run:bert:openvino-int8";

#[test]
fn runs_and_tests() {
    let samples = "param.measure.samples 20 => 5";
    // An empty map has a line of its own: for a config, `{}` is not the same as nothing.
    let hint =
        r#"param.options {} => absent, param.options.performance_hint absent => "THROUGHPUT""#;
    let threads = "param.options {} => absent, param.options.threads absent => 2";
    let tolerance = "param.tolerance.atol 0.001 => 0.5";
    // Nothing is measured again.
    let fp32 = "judge:bert:cpu-fp32 | judge:bert:torch-cpu-fp32 | judge:bert:eager-cpu-fp32 \
        | generate:bert:cpu-fp32 | generate:bert:torch-cpu-fp32 | generate:bert:eager-cpu-fp32";
    assert_all([
        row(
            "how many samples",
            |w| w.edit("samples: 20", "samples: 5"),
            &[
                (RUNS, samples),
                (OTHER_RUNS, samples),
                (TESTS, samples),
                (OTHER_TESTS, samples),
            ],
        ),
        row(
            "samples of one target",
            |w| w.edit("artefact: qnn,", "artefact: qnn, measure: {samples: 5},"),
            &[("run:bert:qnn-fp16 | generate:bert:qnn-fp16", samples)],
        ),
        row(
            "more rounds of one target",
            |w| w.edit("artefact: qnn,", "artefact: qnn, measure: {rounds: 3},"),
            &[(
                "run:bert:qnn-fp16:round-2 | run:bert:qnn-fp16:round-3",
                "never ran",
            )],
        ),
        row(
            "an option of OpenVINO",
            |w| {
                w.edit(
                    "precisions: [fp16, int8]",
                    "precisions: [fp16, int8], options: {performance_hint: THROUGHPUT}",
                )
            },
            &[
                (OPENVINO, hint),
                (
                    "generate:bert:openvino-fp16 | generate:bert:openvino-int8",
                    hint,
                ),
            ],
        ),
        row(
            "an option of ONNX Runtime",
            |w| w.edit("artefact: onnx,", "artefact: onnx, options: {threads: 2},"),
            &[
                (ORT, threads),
                (
                    "generate:bert:cpu-fp32 | generate:plain:cpu-fp32 | generate:affine:cpu-fp32 | generate:affine:cpu-fp16 \
                     | generate:scaled:cpu-fp32",
                    threads,
                ),
            ],
        ),
        row(
            "an option of eager PyTorch",
            |w| {
                w.edit(
                    "artefact: model,",
                    "artefact: model, options: {threads: 2},",
                )
            },
            &[
                (EAGER, threads),
                (
                    "generate:bert:eager-cpu-fp32 | generate:bert:eager-cpu-fp32:run | generate:hubbed:eager-cpu-fp32 | generate:hubbed:eager-cpu-fp32:run | generate:local:eager-cpu-fp32 | generate:local:eager-cpu-fp32:run",
                    threads,
                ),
            ],
        ),
        row(
            "an option of libtorch",
            |w| {
                w.edit(
                    "artefact: torchscript,",
                    "artefact: torchscript, options: {threads: 2},",
                )
            },
            &[(
                "run:bert:torch-cpu-fp32 | generate:bert:torch-cpu-fp32",
                threads,
            )],
        ),
        row(
            "the device",
            |w| w.edit("device: CPU", "device: GPU"),
            &[
                (OPENVINO, r#"param.device "CPU" => "GPU""#),
                (
                    "generate:bert:openvino-fp16 | generate:bert:openvino-int8",
                    r#"param.device "CPU" => "GPU""#,
                ),
                ("report", "what it shows"),
            ],
        ),
        row(
            "the tolerance of a model",
            |w| w.edit("seed: 7", "seed: 7\n    tolerances: {fp32: {atol: 0.5}}"),
            &[(fp32, tolerance)],
        ),
        row(
            "the tolerance of a target",
            |w| {
                w.edit(
                    "artefact: torchscript,",
                    "artefact: torchscript, tolerances: {fp32: {atol: 0.5}},",
                )
            },
            &[(
                "judge:bert:torch-cpu-fp32 | generate:bert:torch-cpu-fp32",
                tolerance,
            )],
        ),
        row(
            "the tokens of a task",
            |w| {
                w.edit(
                    "template: text}",
                    "template: text, tokens: {feature-extraction: [y]}}",
                )
            },
            &[
                (
                    "judge:affine:cpu-fp32 | judge:affine:cpu-fp16 | judge:scaled:cpu-fp32",
                    r#"param.tokens absent => ["y"]"#,
                ),
                (
                    "generate:affine:cpu-fp32 | generate:affine:cpu-fp16 | generate:scaled:cpu-fp32",
                    r#"param.tokens [] => ["y"]"#,
                ),
            ],
        ),
        row(
            "the tokens of a model that is converted",
            |w| {
                w.edit(
                    "tasks: [fill-mask]}",
                    "tasks: [fill-mask], tokens: {fill-mask: [logits]}}",
                )
            },
            &[
                (
                    "judge:bert:cpu-fp32 | judge:bert:openvino-fp16 | judge:bert:openvino-int8 | judge:bert:qnn-fp16 \
                     | judge:bert:torch-cpu-fp32 | judge:bert:eager-cpu-fp32 | judge:plain:cpu-fp32 \
                     | judge:hubbed:eager-cpu-fp32 | judge:local:eager-cpu-fp32 | generate:bert | generate:plain \
                     | generate:hubbed | generate:local | convert:bert:onnx | convert:plain:onnx | convert:bert:torchscript",
                    r#"param.tokens absent => ["logits"]"#,
                ),
                (
                    "generate:bert:cpu-fp32 | generate:bert:openvino-fp16 | generate:bert:openvino-int8 \
                     | generate:bert:qnn-fp16 | generate:bert:torch-cpu-fp32 | generate:bert:eager-cpu-fp32 \
                     | generate:plain:cpu-fp32 | generate:hubbed:eager-cpu-fp32 | generate:local:eager-cpu-fp32",
                    r#"param.tokens [] => ["logits"]"#,
                ),
            ],
        ),
        row(
            "the template",
            |w| w.edit("template: text", "template: vision"),
            &[(
                "generate:affine:cpu-fp32 | generate:affine:cpu-fp16 | generate:scaled:cpu-fp32",
                r#"param.template "text" => "vision""#,
            )],
        ),
    ]);
}

#[test]
fn packages() {
    let new = |tool: &str, old: &str| format!("tool.{tool} {old} => 99.0");
    let transformers = new("transformers", "5.23.0");
    let torch = new("torch", "2.13.0");
    let numpy = new("numpy", "2.4.6");
    let tensors = new("safetensors", "0.8.0");
    let ort = new("onnxruntime", "1.31.1");
    let openvino = new("openvino", "2026.4.1");
    let onnx = "convert:bert:onnx | convert:plain:onnx";
    let small = "convert:affine:onnx-fp16";
    let qnn = "convert:bert:qnn-fp16 | run:bert:qnn-fp16";
    assert_all([
        row(
            "transformers",
            |w| w.bump(EnvName::Torch, "transformers", "99.0"),
            &[
                (MODELS, &transformers),
                (EXPORTS, &transformers),
                (EAGER, &transformers),
            ],
        ),
        row(
            "torch",
            |w| w.bump(EnvName::Torch, "torch", "99.0"),
            &[
                (MODELS, &torch),
                (EXPORTS, &torch),
                (EAGER, &torch),
                ("run:bert:torch-cpu-fp32", &torch),
            ],
        ),
        row(
            "tokenizers",
            |w| w.bump(EnvName::Torch, "tokenizers", "99.0"),
            &[(MODELS, &new("tokenizers", "0.23.3"))],
        ),
        row(
            "safetensors",
            |w| w.bump(EnvName::Torch, "safetensors", "99.0"),
            &[(MODELS, &tensors), (EXPORTS, &tensors), (EAGER, &tensors)],
        ),
        row(
            "numpy beside torch",
            |w| w.bump(EnvName::Torch, "numpy", "99.0"),
            &[(MODELS, &numpy), (EXPORTS, &numpy), (EAGER, &numpy)],
        ),
        row(
            "onnx",
            |w| w.bump(EnvName::Torch, "onnx", "99.0"),
            &[(onnx, &new("onnx", "1.23.2"))],
        ),
        row(
            "onnx-ir",
            |w| w.bump(EnvName::Torch, "onnx-ir", "99.0"),
            &[(onnx, &new("onnx-ir", "1.1.0"))],
        ),
        row(
            "onnxscript",
            |w| w.bump(EnvName::Torch, "onnxscript", "99.0"),
            &[(onnx, &new("onnxscript", "0.7.2"))],
        ),
        row(
            "ONNX Runtime that checks exports",
            |w| w.bump(EnvName::Torch, "onnxruntime", "99.0"),
            &[(onnx, &ort)],
        ),
        row(
            "ONNX Runtime",
            |w| w.bump(EnvName::Ort, "onnxruntime", "99.0"),
            &[
                (ORT, &ort),
                (
                    "generate:affine:reference | generate:scaled:reference",
                    &ort,
                ),
                (small, &ort),
            ],
        ),
        row(
            "onnx of what makes fp16 and int8",
            |w| w.bump(EnvName::Ort, "onnx", "99.0"),
            &[(small, &new("onnx", "1.23.2"))],
        ),
        row(
            "numpy beside it",
            |w| w.bump(EnvName::Ort, "numpy", "99.0"),
            &[(small, &numpy)],
        ),
        row(
            "ONNX Runtime of QNN",
            |w| w.bump(EnvName::Qnn, "onnxruntime", "99.0"),
            &[(qnn, &ort)],
        ),
        row(
            "QNN",
            |w| w.bump(EnvName::Qnn, "onnxruntime-qnn", "99.0"),
            &[(qnn, &new("onnxruntime-qnn", "2.7.0"))],
        ),
        // The wheel holds the SDK's libraries: other content of the same version is another library.
        row(
            "the content of QNN's libraries",
            |w| w.bump(EnvName::Qnn, "onnxruntime-qnn", "2.7.0"),
            &[(qnn, "tool.onnxruntime-qnn 2.7.0 => 2.7.0")],
        ),
        row(
            "OpenVINO",
            |w| w.bump(EnvName::Openvino, "openvino", "99.0"),
            &[
                ("convert:bert:openvino-fp16", &openvino),
                (OPENVINO, &openvino),
            ],
        ),
        row(
            "OpenVINO beside nncf",
            |w| w.bump(EnvName::Nncf, "openvino", "99.0"),
            &[("convert:bert:openvino-int8", &openvino)],
        ),
        row(
            "nncf",
            |w| w.bump(EnvName::Nncf, "nncf", "99.0"),
            &[("convert:bert:openvino-int8", &new("nncf", "3.4.0"))],
        ),
        row(
            "numpy beside nncf",
            |w| w.bump(EnvName::Nncf, "numpy", "99.0"),
            &[("convert:bert:openvino-int8", &numpy)],
        ),
    ]);
}

#[test]
fn the_machine() {
    let target = "target x86_64-linux => aarch64-linux";
    let threads = "env.OMP_NUM_THREADS absent => 1";
    let bf16 = "env.ONEDNN_DEFAULT_FPMATH_MODE absent => BF16";
    fn set(world: &mut World, name: &str, value: &str) {
        world.host.variables.insert(name.into(), value.into());
    }
    assert_all([
        row(
            "architecture and system",
            |w| w.host.target = "aarch64-linux".into(),
            &[
                (
                    "generate:affine:reference | generate:scaled:reference | convert:bert:qnn-fp16",
                    target,
                ),
                (RUNS, target),
                (OTHER_RUNS, target),
                (COMMANDS, target),
            ],
        ),
        row(
            "the kind of machine",
            |w| w.host.fingerprint = "e".repeat(64),
            &[(RUNS, "host"), (OTHER_RUNS, "host")],
        ),
        row(
            "the GPU",
            |w| {
                w.inventory[1].devices.push(Device::new(
                    "openvino:GPU.0",
                    "a GPU",
                    DeviceKind::Hardware,
                ))
            },
            &[
                (OPENVINO, "device.openvino:GPU.0 absent => a GPU"),
                ("report", "what it shows"),
            ],
        ),
        row(
            "its driver",
            |w| drop(w.inventory[1].facts.insert("driver".into(), "31.0".into())),
            &[(OPENVINO, r#"device.driver absent => "31.0""#)],
        ),
        row(
            "threads by the environment",
            |w| set(w, "OMP_NUM_THREADS", "1"),
            &[(RUNS, threads), (OTHER_RUNS, threads)],
        ),
        row(
            "arithmetic by the environment",
            |w| set(w, "ONEDNN_DEFAULT_FPMATH_MODE", "BF16"),
            &[
                (MODELS, bf16),
                (EXPORTS, bf16),
                (
                    "generate:affine:reference | generate:scaled:reference",
                    bf16,
                ),
                (RUNS, bf16),
                (OTHER_RUNS, bf16),
                (
                    "convert:bert:openvino-fp16 | convert:bert:openvino-int8 | convert:bert:qnn-fp16",
                    bf16,
                ),
                ("convert:affine:onnx-fp16", bf16),
            ],
        ),
    ]);
}

/// A verdict holds on each machine that computes alike, however fast it is; a time on none but its own kind.
#[test]
fn an_untimed_run_depends_on_what_computes_and_on_nothing_that_is_only_faster() {
    let run = "run:bert:torch-cpu-fp32";
    let mut world = World::new();
    world.edit(
        "artefact: torchscript,",
        "artefact: torchscript, measure: none,",
    );
    let changed = settled(&world, Outputs::Equal);
    let none = "param.measure absent => \"none\"";
    let keyed: Vec<_> = changed
        .iter()
        .filter(|(_, lines)| lines.contains(none))
        .map(|(step, _)| step.as_str())
        .collect();
    assert_eq!(keyed, ["generate:bert:torch-cpu-fp32", run], "{changed:?}");
    assert!(changed[run].contains("host"), "{changed:?}");

    world.host.fingerprint = "e".repeat(64);
    world
        .host
        .variables
        .insert("OMP_PROC_BIND".into(), "true".into());
    let faster = settled(&world, Outputs::Equal);
    assert!(
        faster.contains_key("run:bert:cpu-fp32") && !faster.contains_key(run),
        "{faster:?}"
    );
    world.host.computing = "d".repeat(64);
    world
        .host
        .variables
        .insert("OMP_NUM_THREADS".into(), "1".into());
    let other = settled(&world, Outputs::Equal);
    assert!(
        other[run].contains("host") && other[run].contains("env.OMP_NUM_THREADS absent => 1"),
        "{other:?}"
    );
    assert!(!other["run:bert:cpu-fp32"].contains("host"), "{other:?}");
}
