//! What cannot change an output reruns nothing. Where only a page shows it, only the pages are made again.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use orch::device::{Backend, Device, DeviceKind};
use orch::toolchain::EnvName;

use crate::project;
use crate::table::{assert_all, row};

const TESTS: &str = "generate:bert:cpu-fp32 | generate:bert:openvino-fp16 | generate:bert:openvino-int8 \
    | generate:bert:qnn-fp16 | generate:bert:torch-cpu-fp32 | generate:bert:eager-cpu-fp32 | generate:bert:eager-cpu-fp32:run";

#[test]
fn places_and_times() {
    assert_all([
        // Every world is a checkout at a folder of its own, with a copy of the store.
        row("another folder", |_| {}, &[]),
        row(
            "times of files",
            |w| {
                let old = SystemTime::now() - Duration::from_secs(86_400 * 365);
                for entry in walkdir::WalkDir::new(w.root())
                    .into_iter()
                    .map(Result::unwrap)
                {
                    if entry.file_type().is_file() {
                        File::options()
                            .write(true)
                            .open(entry.path())
                            .unwrap()
                            .set_modified(old)
                            .unwrap();
                    }
                }
            },
            &[],
        ),
        row(
            "files replaced by equal ones",
            |w| project::write(&w.root()),
            &[],
        ),
        row(
            "files that no step reads",
            |w| {
                w.write("specs/notes.yaml", "nothing");
                w.write("data/other.txt", "nothing");
            },
            &[],
        ),
        row("how many jobs", |w| w.settings.jobs = Some(64), &[]),
        row(
            "how often a failure is tried again",
            |w| w.settings.retries = Some(3),
            &[],
        ),
        row(
            "how much memory a step may take",
            |w| w.settings.job_memory = Some(1),
            &[],
        ),
        row(
            "a first failure ends all",
            |w| w.settings.keep_going = orch::exec::KeepGoing::Never,
            &[],
        ),
        row(
            "free memory",
            |w| {
                w.inventory[0].devices[0].fact("memory_available_bytes", 7);
            },
            &[],
        ),
        row(
            "a package that no step uses",
            |w| w.bump(EnvName::Torch, "pygments", "99.0"),
            &[],
        ),
    ]);
}

#[test]
fn how_a_spec_is_written() {
    assert_all([
        row(
            "comments and blank lines",
            |w| {
                let lines = project::SPEC
                    .lines()
                    .map(|line| format!("{line} # a comment\n\n"));
                w.write(
                    "specs/all.yaml",
                    &format!("# Another one.\n{}", lines.collect::<String>()),
                );
            },
            &[],
        ),
        row(
            "the order of keys",
            |w| {
                w.edit("    class: BertForMaskedLM\n    family: encoder-only\n    task: fill-mask\n    pipeline: text\n    hub: {id: someone/bert}\n", "");
                w.edit("    priority: high\n", "    hub: {id: someone/bert}\n    priority: high\n    pipeline: text\n    task: fill-mask\n    family: encoder-only\n    class: BertForMaskedLM\n");
                w.edit(
                    "{vocab_size: 128, hidden_size: 64, layers: [{kind: full, size: 4}]}",
                    "{layers: [{size: 4, kind: full}], hidden_size: 64, vocab_size: 128}",
                );
                w.edit(
                    "runtime: ort, backend: qnn, device: htp, artefact: qnn",
                    "artefact: qnn, device: htp, backend: qnn, runtime: ort",
                );
                w.edit(
                    "{tree: {file: ../data/tree}, sorted: {step: \"command:sorted\"}}",
                    "{sorted: {step: \"command:sorted\"}, tree: {file: ../data/tree}}",
                );
                w.edit(
                    "measure: {warmup: 3, samples: 20,",
                    "measure: {samples: 20, warmup: 3,",
                );
            },
            &[],
        ),
        row(
            "quotes, blocks and numbers",
            |w| {
                w.edit("outputs: [logits]", "outputs:\n      - 'logits'");
                w.edit("someone/tuned", "\"someone/tuned\"");
                w.edit("max_seconds: 10,", "max_seconds: 10.0,");
                w.edit("data: [3, 4]", "data: [3.0, 4]");
            },
            &[],
        ),
        row(
            "anchors",
            |w| {
                w.edit("version: 1\n", "version: 1\nx-size: &size 64\n");
                w.edit("hidden_size: 64", "hidden_size: *size");
                w.edit(
                    "attention_mask: {dtype: int64, shape: [batch, seq], value: 1}",
                    "attention_mask: {dtype: &type int64, shape: &shape [batch, seq], value: 1}",
                );
                w.edit(
                    "input_ids: {dtype: int64, shape: [batch, seq], randint: [0, 9]}",
                    "input_ids: {dtype: *type, shape: *shape, randint: [0, 9]}",
                );
            },
            &[],
        ),
        row(
            "files that are included",
            |w| {
                let (head, models) = project::SPEC.split_once("models:\n  bert:").unwrap();
                let (models, commands) = models.split_once("commands:\n").unwrap();
                // Paths start from the file that names them.
                fs::create_dir_all(w.root().join("parts/deep")).unwrap();
                w.write(
                    "parts/deep/models.yaml",
                    &format!("models:\n  bert:{}", models.replace("../", "../../")),
                );
                w.write("specs/commands.yaml", &format!("commands:\n{commands}"));
                let include = "version: 1\ninclude: [../parts/deep/models.yaml, commands.yaml]\n";
                w.write("specs/all.yaml", &head.replace("version: 1\n", include));
            },
            &[],
        ),
        row(
            "lists without an order",
            |w| {
                w.edit(
                    "env: [ORCH_KEYS_DECLARED]",
                    "env: [ORCH_KEYS_DECLARED, ORCH_KEYS_DECLARED]",
                );
                w.edit("outputs: [all.tar]", "outputs: [all.tar, all.tar]");
            },
            &[],
        ),
    ]);
}

#[test]
fn words_that_only_describe() {
    assert_all([
        row(
            "how long a run may take",
            |w| w.edit("timeout_seconds: 600", "timeout_seconds: 5"),
            &[],
        ),
        row(
            "how long a command may take",
            |w| {
                w.edit(
                    "outputs: [card.json]",
                    "outputs: [card.json]\n    timeout_seconds: 5",
                )
            },
            &[],
        ),
        row(
            "how much memory a command takes",
            |w| {
                w.edit(
                    "outputs: [card.json]",
                    "outputs: [card.json]\n    memory: 2 GiB",
                )
            },
            &[],
        ),
        row(
            "how much memory a model's steps take",
            |w| w.edit("tags: [key]", "tags: [key]\n    memory: 3 GiB"),
            &[],
        ),
        row(
            "what no loader reads beside path weights",
            |w| {
                w.write("weights/README.md", "# A model");
                w.write("weights/pytorch_model.bin", "pickled");
            },
            &[],
        ),
        row(
            "how long making and converting a model may take",
            |w| w.edit("tags: [key]", "tags: [key]\n    timeout_seconds: 30"),
            &[],
        ),
        row(
            "how long runs on a target may take",
            |w| {
                w.edit(
                    "artefact: qnn,",
                    "artefact: qnn, measure: {timeout_seconds: 5},",
                )
            },
            &[],
        ),
        row("tags", |w| w.edit("tags: [key]", "tags: [other]"), &[]),
        row(
            "priority, by which pages are ordered",
            |w| w.edit("priority: high", "priority: low"),
            &[("report", "what it shows")],
        ),
        row(
            "what is done about failures",
            |w| {
                let more = "artefact: torchscript, retries: 2, halve_batch: true, fallback: [cpu],";
                w.edit("artefact: torchscript,", more);
                w.edit(
                    "outputs: [sorted.txt]",
                    "outputs: [sorted.txt]\n    retries: 2\n    transient: [75]",
                );
            },
            &[],
        ),
        row(
            "what is expected to fail",
            |w| {
                w.edit(
                    "matrix:\n",
                    "matrix:\n  expect:\n    - {target: torch-cpu, status: FAIL, reason: x}\n",
                )
            },
            &[("report", "what it shows")],
        ),
        row(
            "a target's tags",
            |w| w.edit("artefact: qnn,", "artefact: qnn, tags: [slow],"),
            &[],
        ),
        row(
            "the description of a pipeline",
            |w| w.edit("token ids to logits", "ids in, logits out"),
            &[],
        ),
        row(
            "which Hub model seeded weights stand for",
            |w| w.edit("someone/bert", "someone/else"),
            &[],
        ),
        row(
            "a tolerance of a precision that is not tested",
            |w| {
                w.edit(
                    "version: 1\n",
                    "version: 1\ntolerances: {bf16: {atol: 0.5}}\n",
                )
            },
            &[],
        ),
    ]);
}

/// What is added runs, and nothing else does.
#[test]
fn neighbours() {
    let model = "  further:
    class: BertModel
    family: encoder-only
    task: fill-mask
    pipeline: text
    inputs:
      input_ids: {dtype: int64, shape: [batch, seq], randint: [0, 8]}
";
    let target = "  further: {runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32], options: {x: 1}}\n";
    assert_all([
        row(
            "another model",
            move |w| {
                w.edit("models:\n  bert:", &format!("models:\n{model}  bert:"));
                w.edit(
                    "    - {model: plain, target: cpu}",
                    "    - {model: plain, target: cpu}\n    - {model: further, target: cpu}",
                );
            },
            &[
                (
                    "inputs:further | generate:further | convert:further:onnx | run:further:cpu-fp32 \
                        | generate:further:cpu-fp32 | judge:further:cpu-fp32",
                    "never ran",
                ),
                ("report", "what it shows"),
            ],
        ),
        row(
            "another target",
            move |w| {
                w.edit("matrix:\n", &format!("{target}matrix:\n"));
            },
            &[
                (
                    "generate:bert:further-fp32 | run:bert:further-fp32 | judge:bert:further-fp32",
                    "never ran",
                ),
                ("report", "what it shows"),
            ],
        ),
        row(
            "another command",
            |w| {
                w.edit(
                    "commands:\n",
                    "commands:\n  further: {argv: [\"true\"], outputs: [x]}\n",
                )
            },
            &[("command:further", "never ran")],
        ),
        row(
            "a model less",
            |w| w.edit("    - {model: local, target: eager-cpu}\n", ""),
            &[("report", "what it shows")],
        ),
    ]);
}

#[test]
fn what_only_the_pages_show() {
    assert_all([
        row(
            "the name of the machine",
            |w| w.host.report.name = "forge".into(),
            &[("report", "what it shows")],
        ),
        row(
            "how the spec is called",
            |w| w.spec = "../specs/all.yaml".into(),
            &[("report", "what it shows")],
        ),
        row(
            "why a case is left out",
            |w| w.edit("one target is enough", "one is enough"),
            &[("report", "what it shows")],
        ),
        row(
            "hardware that no case uses",
            |w| {
                let gpu = Device::new("cuda:0", "a GPU", DeviceKind::Hardware);
                w.inventory.push(Backend::available("cuda", vec![gpu]));
            },
            &[("report", "what it shows")],
        ),
        row(
            "the order of models",
            |w| {
                let (head, rest) = project::SPEC.split_once("  plain:\n").unwrap();
                let (plain, rest) = rest.split_once("  hubbed:\n").unwrap();
                let (hubbed, rest) = rest.split_once("  local:\n").unwrap();
                w.write(
                    "specs/all.yaml",
                    &format!("{head}  hubbed:\n{hubbed}  plain:\n{plain}  local:\n{rest}"),
                );
            },
            &[("report", "what it shows")],
        ),
        row(
            "the order of precisions",
            |w| w.edit("precisions: [fp16, int8]", "precisions: [int8, fp16]"),
            &[("report", "what it shows")],
        ),
        // A generated test lists its inputs; what is made of them goes by their names.
        row(
            "the order of inputs",
            |w| {
                w.edit(
                    "      input_ids: {dtype: int64, shape: [batch, seq], randint: [5, 128]}\n",
                    "",
                );
                w.edit("attention_mask: {dtype: int64, shape: [batch, seq], value: 1}\n", "attention_mask: {dtype: int64, shape: [batch, seq], value: 1}\n      input_ids: {dtype: int64, shape: [batch, seq], randint: [5, 128]}\n");
            },
            &[(TESTS, "param.inputs")],
        ),
        row(
            "the order of inputs of an ONNX file",
            |w| {
                w.edit("      x: {dtype: float32, shape: [2], data: [1, 2]}\n", "");
                w.edit(
                    "data: [3, 4]}\n",
                    "data: [3, 4]}\n      x: {dtype: float32, shape: [2], data: [1, 2]}\n",
                );
            },
            &[("generate:scaled:cpu-fp32", "param.inputs")],
        ),
    ]);
}
