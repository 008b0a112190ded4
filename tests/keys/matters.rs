//! Everything that can change an output: each input is changed alone, and exactly the steps that read it run, each
//! naming the line of its key, old and new; with them all that depends on what they make, if it comes out otherwise.

use std::fs;

use orch::device::{Device, DeviceKind};
use orch::toolchain::EnvName;

use crate::harness::{World, assert_all, row};
use crate::project;

/// All generated tests and all runs of `bert`, which meets every target.
const TESTS: &str = "generate:bert:cpu-fp32 | generate:bert:openvino-fp16 | generate:bert:openvino-int8 \
    | generate:bert:qnn-fp16 | generate:bert:torch-cpu-fp32 | generate:bert:eager-cpu-fp32";
const RUNS: &str = "run:bert:cpu-fp32 | run:bert:openvino-fp16 | run:bert:openvino-int8 | run:bert:qnn-fp16 \
    | run:bert:torch-cpu-fp32 | run:bert:eager-cpu-fp32";
const OTHER_TESTS: &str = "generate:plain:cpu-fp32 | generate:hubbed:eager-cpu-fp32 | generate:local:eager-cpu-fp32 \
    | generate:affine:cpu-fp32 | generate:scaled:cpu-fp32";
const OTHER_RUNS: &str = "run:plain:cpu-fp32 | run:hubbed:eager-cpu-fp32 | run:local:eager-cpu-fp32 \
    | run:affine:cpu-fp32 | run:scaled:cpu-fp32";
const COMMANDS: &str = "command:sorted | command:packed | command:card";
/// Steps by the package that computes in them.
const MODELS: &str = "generate:bert | generate:plain | generate:hubbed | generate:local";
const EXPORTS: &str = "convert:bert:onnx | convert:plain:onnx | convert:bert:torchscript";
const EAGER: &str = "run:bert:eager-cpu-fp32 | run:hubbed:eager-cpu-fp32 | run:local:eager-cpu-fp32";
const ORT: &str = "run:bert:cpu-fp32 | run:plain:cpu-fp32 | run:affine:cpu-fp32 | run:scaled:cpu-fp32";
const OPENVINO: &str = "run:bert:openvino-fp16 | run:bert:openvino-int8";

#[test]
fn a_models_own_inputs() {
    assert_all([
        row(
            "the revision of hub weights",
            |w| w.edit(&"1".repeat(40), &"2".repeat(40)),
            &[("generate:hubbed", "param.weights.revision")],
        ),
        row(
            "the id of hub weights",
            |w| w.edit("someone/tuned", "someone/else"),
            &[("generate:hubbed", r#"param.weights.id "someone/tuned" => "someone/else""#)],
        ),
        row(
            "a file of path weights",
            |w| w.write("weights/model.safetensors", "weightz"),
            &[("generate:local", "input.weights")],
        ),
        row(
            "a new file beside path weights",
            |w| w.write("weights/tokenizer.json", "{}"),
            &[("generate:local", "input.weights")],
        ),
        row(
            "code that comes with the weights",
            |w| w.edit("weights: path\n", "weights: path\n    trust_remote_code: true\n"),
            &[
                ("generate:local", "param.trust_remote_code false => true"),
                ("generate:local:eager-cpu-fp32", "param.trust_remote_code false => true"),
            ],
        ),
        row(
            "the class",
            |w| w.edit("class: BertModel", "class: BertLMHeadModel"),
            &[
                ("generate:plain", r#"param.class "BertModel" => "BertLMHeadModel""#),
                ("generate:plain:cpu-fp32", r#"param.class "BertModel" => "BertLMHeadModel""#),
            ],
        ),
        row(
            "a value of the config",
            |w| w.edit("hidden_size: 64", "hidden_size: 32"),
            &[("generate:bert", "param.config.hidden_size 64 => 32")],
        ),
        row(
            "a value deep in the config",
            |w| w.edit("size: 4}", "size: 5}"),
            &[("generate:bert", r#"param.config.layers [{"kind":"full","size":4}] => [{"kind":"full","size":5}]"#)],
        ),
        row("the seed", |w| w.edit("seed: 7", "seed: 8"), &[("inputs:bert | generate:bert", "param.seed 7 => 8")]),
        row(
            "the seed of inputs alone",
            |w| w.edit("weights: hub\n", "weights: hub\n    seed: 8\n"),
            &[("inputs:hubbed", "param.seed 0 => 8")],
        ),
        row(
            "a size of the inputs",
            |w| w.edit("seq: 16}", "seq: 8}"),
            &[
                (
                    "inputs:bert",
                    r#"param.inputs.input_ids.shape [{"fixed":1},{"fixed":16}] => [{"fixed":1},{"fixed":8}], param.inputs.attention_mask.shape [{"fixed":1},{"fixed":16}] => [{"fixed":1},{"fixed":8}]"#,
                ),
                (TESTS, "param.inputs"),
            ],
        ),
        row(
            "the type of an input",
            |w| w.edit("attention_mask: {dtype: int64", "attention_mask: {dtype: int32"),
            &[("inputs:bert", r#"param.inputs.attention_mask.dtype "int64" => "int32""#), (TESTS, "param.inputs")],
        ),
        // int8 is calibrated by no other data: its conversion reads the ONNX artefact and nothing else.
        row(
            "how an input is filled",
            |w| w.edit("randint: [5, 128]", "randint: [6, 128]"),
            &[("inputs:bert", "param.inputs.input_ids.fill.randint [5,128] => [6,128]")],
        ),
        row(
            "which outputs are compared",
            |w| w.edit("outputs: [logits]", "outputs: [logits, states]"),
            &[
                ("generate:bert", r#"param.outputs ["logits"] => ["logits","states"]"#),
                (TESTS, r#"param.outputs ["logits"] => ["logits","states"]"#),
            ],
        ),
        row(
            "the task",
            |w| {
                w.edit("tasks: [fill-mask]", "tasks: [fill-mask, other]");
                w.edit(
                    "class: BertModel\n    family: encoder-only\n    task: fill-mask",
                    "class: BertModel\n    family: encoder-only\n    task: other",
                );
            },
            &[
                ("generate:plain | generate:plain:cpu-fp32", r#"param.task "fill-mask" => "other""#),
                ("report", "case.run:plain:cpu-fp32"),
            ],
        ),
        row(
            "the family",
            |w| w.edit("class: BertModel\n    family: encoder-only", "class: BertModel\n    family: other"),
            &[
                ("generate:plain:cpu-fp32", r#"param.family "encoder-only" => "other""#),
                ("report", "case.run:plain:cpu-fp32"),
            ],
        ),
    ]);
}

#[test]
fn ready_files() {
    assert_all([
        row("the file", |w| w.write("ready/affine.onnx", "affinf"), &[("generate:affine", "input.file")]),
        row(
            "the file of given inputs",
            |w| w.write("ready/inputs.npz", "others"),
            &[("generate:affine", "input.inputs_from")],
        ),
        row(
            "the file of expected outputs",
            |w| w.write("ready/expected.npz", "others"),
            &[("generate:affine", "input.expected")],
        ),
        row(
            "inputs by recipe",
            |w| w.edit("data: [3, 4]", "data: [3, 5]"),
            &[("inputs:scaled", "param.inputs.y.fill.data [3.0,4.0] => [3.0,5.0]")],
        ),
    ]);
}

#[test]
fn conversions() {
    let soc = "param.options.soc_model 60 => 69";
    assert_all([
        row(
            "the exporters",
            |w| w.edit("routes: [legacy, dynamo]", "routes: [dynamo, legacy]"),
            &[("convert:bert:onnx", r#"param.routes ["legacy","dynamo"] => ["dynamo","legacy"]"#)],
        ),
        row("the opset", |w| w.edit("opset: 17", "opset: 18"), &[("convert:bert:onnx", "param.opset 17 => 18")]),
        row(
            "the chip",
            |w| w.edit("soc_model: 60", "soc_model: 69"),
            &[("convert:bert:qnn-fp16 | run:bert:qnn-fp16 | generate:bert:qnn-fp16", soc)],
        ),
        row(
            "another option of QNN",
            |w| w.edit("soc_model: 60", "soc_model: 60, vtcm_mb: 4"),
            &[(
                "convert:bert:qnn-fp16 | run:bert:qnn-fp16 | generate:bert:qnn-fp16",
                "param.options.vtcm_mb absent => 4",
            )],
        ),
        row(
            "the precision",
            |w| w.edit("precisions: [fp16, int8]", "precisions: [fp16, fp32]"),
            &[
                ("convert:bert:openvino-fp32 | generate:bert:openvino-fp32 | run:bert:openvino-fp32", "never ran"),
                ("report", "case.run:bert:openvino-int8, excluded, order"),
            ],
        ),
    ]);
}

#[test]
fn runs_and_tests() {
    let samples = "param.measure.samples 20 => 5";
    // An empty map has a line of its own: for a config, `{}` is not the same as nothing.
    let hint = r#"param.options {} => absent, param.options.performance_hint absent => "THROUGHPUT""#;
    let threads = "param.options {} => absent, param.options.threads absent => 2";
    let tolerance = "param.tolerance.max_abs 0.001 => 0.5";
    let fp32 = "run:bert:cpu-fp32 | run:bert:torch-cpu-fp32 | run:bert:eager-cpu-fp32 \
        | generate:bert:cpu-fp32 | generate:bert:torch-cpu-fp32 | generate:bert:eager-cpu-fp32";
    assert_all([
        row(
            "how many samples",
            |w| w.edit("samples: 20", "samples: 5"),
            &[(RUNS, samples), (OTHER_RUNS, samples), (TESTS, samples), (OTHER_TESTS, samples)],
        ),
        row(
            "samples of one target",
            |w| w.edit("artefact: qnn,", "artefact: qnn, measure: {samples: 5},"),
            &[("run:bert:qnn-fp16 | generate:bert:qnn-fp16", samples)],
        ),
        row(
            "an option of OpenVINO",
            |w| w.edit("precisions: [fp16, int8]", "precisions: [fp16, int8], options: {performance_hint: THROUGHPUT}"),
            &[(OPENVINO, hint), ("generate:bert:openvino-fp16 | generate:bert:openvino-int8", hint)],
        ),
        row(
            "an option of ONNX Runtime",
            |w| w.edit("artefact: onnx,", "artefact: onnx, options: {threads: 2},"),
            &[
                (ORT, threads),
                (
                    "generate:bert:cpu-fp32 | generate:plain:cpu-fp32 | generate:affine:cpu-fp32 | generate:scaled:cpu-fp32",
                    threads,
                ),
            ],
        ),
        row(
            "an option of eager PyTorch",
            |w| w.edit("artefact: model,", "artefact: model, options: {threads: 2},"),
            &[
                (EAGER, threads),
                (
                    "generate:bert:eager-cpu-fp32 | generate:hubbed:eager-cpu-fp32 | generate:local:eager-cpu-fp32",
                    threads,
                ),
            ],
        ),
        row(
            "an option of libtorch",
            |w| w.edit("artefact: torchscript,", "artefact: torchscript, options: {threads: 2},"),
            &[("run:bert:torch-cpu-fp32 | generate:bert:torch-cpu-fp32", threads)],
        ),
        row(
            "the device",
            |w| w.edit("device: CPU", "device: GPU"),
            &[
                (OPENVINO, r#"param.device "CPU" => "GPU""#),
                ("generate:bert:openvino-fp16 | generate:bert:openvino-int8", r#"param.device "CPU" => "GPU""#),
                ("report", "case.run:bert:openvino-fp16, case.run:bert:openvino-int8"),
            ],
        ),
        row(
            "the tolerance of a model",
            |w| w.edit("seed: 7", "seed: 7\n    tolerances: {fp32: {max_abs: 0.5}}"),
            &[(fp32, tolerance)],
        ),
        row(
            "the tolerance of a target",
            |w| w.edit("artefact: torchscript,", "artefact: torchscript, tolerances: {fp32: {max_abs: 0.5}},"),
            &[("run:bert:torch-cpu-fp32 | generate:bert:torch-cpu-fp32", tolerance)],
        ),
        row(
            "the template",
            |w| w.edit("template: text", "template: vision"),
            &[("generate:affine:cpu-fp32 | generate:scaled:cpu-fp32", r#"param.template "text" => "vision""#)],
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
    let qnn = "convert:bert:qnn-fp16 | run:bert:qnn-fp16";
    assert_all([
        row(
            "transformers",
            |w| w.bump(EnvName::Torch, "transformers", "99.0"),
            &[(MODELS, &transformers), (EXPORTS, &transformers), (EAGER, &transformers)],
        ),
        row(
            "torch",
            |w| w.bump(EnvName::Torch, "torch", "99.0"),
            &[(MODELS, &torch), (EXPORTS, &torch), (EAGER, &torch), ("run:bert:torch-cpu-fp32", &torch)],
        ),
        row("tokenizers", |w| w.bump(EnvName::Torch, "tokenizers", "99.0"), &[(MODELS, &new("tokenizers", "0.23.3"))]),
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
        row("onnx", |w| w.bump(EnvName::Torch, "onnx", "99.0"), &[(onnx, &new("onnx", "1.23.2"))]),
        row("onnx-ir", |w| w.bump(EnvName::Torch, "onnx-ir", "99.0"), &[(onnx, &new("onnx-ir", "1.1.0"))]),
        row("onnxscript", |w| w.bump(EnvName::Torch, "onnxscript", "99.0"), &[(onnx, &new("onnxscript", "0.7.2"))]),
        row("ONNX Runtime that checks exports", |w| w.bump(EnvName::Torch, "onnxruntime", "99.0"), &[(onnx, &ort)]),
        row(
            "ONNX Runtime",
            |w| w.bump(EnvName::Ort, "onnxruntime", "99.0"),
            &[(ORT, &ort), ("generate:scaled:reference", &ort)],
        ),
        row("ONNX Runtime of QNN", |w| w.bump(EnvName::Qnn, "onnxruntime", "99.0"), &[(qnn, &ort)]),
        row("QNN", |w| w.bump(EnvName::Qnn, "onnxruntime-qnn", "99.0"), &[(qnn, &new("onnxruntime-qnn", "2.7.0"))]),
        // The wheel holds the SDK's libraries: other content of the same version is another library.
        row(
            "the content of QNN's libraries",
            |w| w.bump(EnvName::Qnn, "onnxruntime-qnn", "2.7.0"),
            &[(qnn, "tool.onnxruntime-qnn 2.7.0 => 2.7.0")],
        ),
        row(
            "OpenVINO",
            |w| w.bump(EnvName::Openvino, "openvino", "99.0"),
            &[("convert:bert:openvino-fp16", &openvino), (OPENVINO, &openvino)],
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
        row("numpy beside nncf", |w| w.bump(EnvName::Nncf, "numpy", "99.0"), &[("convert:bert:openvino-int8", &numpy)]),
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
                ("generate:scaled:reference | convert:bert:qnn-fp16", target),
                (RUNS, target),
                (OTHER_RUNS, target),
                (COMMANDS, target),
            ],
        ),
        row("the kind of machine", |w| w.host.fingerprint = "e".repeat(64), &[(RUNS, "host"), (OTHER_RUNS, "host")]),
        row(
            "the GPU",
            |w| w.inventory[1].devices.push(Device::new("openvino:GPU.0", "a GPU", DeviceKind::Hardware)),
            &[(OPENVINO, "device.openvino:GPU.0 absent => a GPU"), ("report", "backend.openvino")],
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
                ("generate:scaled:reference", bf16),
                (RUNS, bf16),
                (OTHER_RUNS, bf16),
                ("convert:bert:openvino-fp16 | convert:bert:openvino-int8 | convert:bert:qnn-fp16", bf16),
            ],
        ),
    ]);
}

#[test]
fn commands() {
    let folder = &[("command:packed", "input.tree")];
    assert_all([
        row("its arguments", |w| w.edit("-u, words.txt", "-r, words.txt"), &[("command:sorted", "param.argv")]),
        row("a file that it reads", |w| w.write("data/words.txt", "b\nc\n"), &[("command:sorted", "input.words.txt")]),
        row("a file in a folder that it reads", |w| w.write("data/tree/sub/two.txt", "3"), folder),
        row("another file in it", |w| w.write("data/tree/three.txt", "3"), folder),
        row("a file in it that is gone", |w| fs::remove_file(w.root().join("data/tree/one.txt")).unwrap(), folder),
        row(
            "the name of a file in it",
            |w| fs::rename(w.root().join("data/tree/one.txt"), w.root().join("data/tree/1.txt")).unwrap(),
            folder,
        ),
        row(
            "the name under which it sees a file",
            |w| w.edit("inputs: {words.txt:", "inputs: {other.txt:"),
            &[("command:sorted", "input.words.txt, input.other.txt")],
        ),
        row(
            "what it makes",
            |w| w.edit("outputs: [all.tar]", "outputs: [all.tar, list]"),
            &[("command:packed", r#"param.outputs ["all.tar"] => ["all.tar","list"]"#)],
        ),
        row(
            "which variables it sees",
            |w| w.edit("outputs: [card.json]", "outputs: [card.json]\n    env: [ORCH_KEYS_DECLARED]"),
            &[("command:card", r#"param.env [] => ["ORCH_KEYS_DECLARED"]"#)],
        ),
        row(
            "which step it reads",
            |w| w.edit("onnx: {step: \"convert:bert:onnx\"}", "onnx: {step: \"convert:plain:onnx\"}"),
            &[("command:card", "input.onnx")],
        ),
    ]);
}

/// The change of one model reaches every step of that model and none of another's.
#[test]
fn a_wave_ends_at_the_model() {
    let world = World::new();
    world.edit("hidden_size: 64", "hidden_size: 32");
    let reran: Vec<String> = world.settle(crate::harness::Outputs::Changed).into_iter().map(|(step, _)| step).collect();
    assert!(project::SPEC.contains("  plain:"));
    let expected = [
        "generate:bert",
        "convert:bert:onnx",
        "run:bert:eager-cpu-fp32",
        "convert:bert:torchscript",
        "run:bert:cpu-fp32",
        "convert:bert:openvino-fp16",
        "convert:bert:openvino-int8",
        "convert:bert:qnn-fp16",
        "command:card",
        "run:bert:openvino-fp16",
        "run:bert:openvino-int8",
        "run:bert:qnn-fp16",
        "run:bert:torch-cpu-fp32",
        "report",
    ];
    assert_eq!(reran.iter().map(String::as_str).collect::<std::collections::BTreeSet<_>>(), expected.into());
}
