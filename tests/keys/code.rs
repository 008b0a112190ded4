//! orch's own code: a change of one source reruns the steps that it performs, and every source has its place.

use std::collections::BTreeSet;

use orch::catalogue::{RUNTIMES, Runtime};
use orch::step::{BLAME, BLAME_EXPORT, Code, Sources, StepKind};

use crate::harness::World;
use crate::table::{Row, assert_all, row};

const MODELS: &str = "generate:bert | generate:plain | generate:hubbed | generate:local";
const ONNX: &str = "convert:bert:onnx | convert:plain:onnx";
const OPENVINO: &str = "convert:bert:openvino-fp16 | convert:bert:openvino-int8";
const OPENVINO_RUNS: &str = "run:bert:openvino-fp16 | run:bert:openvino-int8";
const QNN: &str = "convert:bert:qnn-fp16 | run:bert:qnn-fp16";
const ORT_RUNS: &str = "run:bert:cpu-fp32 | run:plain:cpu-fp32 | run:affine:cpu-fp32 | run:affine:cpu-fp16 | run:scaled:cpu-fp32";
const PRECISION: &str = "convert:affine:onnx-fp16";
const EAGER: &str =
    "run:bert:eager-cpu-fp32 | run:hubbed:eager-cpu-fp32 | run:local:eager-cpu-fp32";
const TESTS: &str = "generate:bert:cpu-fp32 | generate:bert:openvino-fp16 | generate:bert:openvino-int8 \
    | generate:bert:qnn-fp16 | generate:bert:torch-cpu-fp32 | generate:bert:eager-cpu-fp32 | generate:bert:eager-cpu-fp32:run | generate:plain:cpu-fp32 \
    | generate:hubbed:eager-cpu-fp32 | generate:hubbed:eager-cpu-fp32:run | generate:local:eager-cpu-fp32 | generate:local:eager-cpu-fp32:run | generate:affine:cpu-fp32 | generate:affine:cpu-fp16 \
    | generate:scaled:cpu-fp32";
const JUDGES: &str = "judge:bert:cpu-fp32 | judge:bert:openvino-fp16 | judge:bert:openvino-int8 | judge:bert:qnn-fp16 \
    | judge:bert:torch-cpu-fp32 | judge:bert:eager-cpu-fp32 | judge:plain:cpu-fp32 | judge:hubbed:eager-cpu-fp32 \
    | judge:local:eager-cpu-fp32 | judge:affine:cpu-fp32 | judge:affine:cpu-fp16 | judge:scaled:cpu-fp32";
const INPUTS: &str = "inputs:bert | inputs:plain | inputs:hubbed | inputs:local | inputs:scaled";
const READY: &str = "generate:affine | generate:scaled";

/// A change of one source and the steps whose code it is.
fn source(path: &'static str, steps: &[&str]) -> Row {
    let reads: Vec<_> = steps.iter().map(|steps| (*steps, "code")).collect();
    row(path, move |world| world.touch_source(path), &reads)
}

#[test]
fn python() {
    assert_all([
        source("python/orch_py/ops/materialise.py", &[MODELS]),
        source("python/orch_py/generate/generation.py", &[MODELS]),
        source("python/orch_py/generate/seeded.py", &[MODELS]),
        source("python/orch_py/generate/cached.py", &[MODELS, ONNX]),
        source("python/orch_py/generate/greedy.py", &[MODELS, ONNX, TESTS]),
        source("python/orch_py/ops/export_onnx.py", &[ONNX]),
        source("python/orch_py/export/onnx_decoder.py", &[ONNX]),
        source(
            "python/orch_py/export/decoder_tree.py",
            &[ONNX, PRECISION, OPENVINO],
        ),
        source("python/orch_py/stand_ins/onnx_equals.py", &[ONNX]),
        source("python/orch_py/export/onnx_routes.py", &[ONNX]),
        source(
            "python/orch_py/ops/export_torchscript.py",
            &["convert:bert:torchscript"],
        ),
        source("python/orch_py/ops/openvino_convert.py", &[OPENVINO]),
        source("python/orch_py/ops/onnx_convert.py", &[PRECISION]),
        source("python/orch_py/export/onnx_census.py", &[PRECISION]),
        source("python/orch_py/export/onnx_static.py", &[PRECISION]),
        source("python/orch_py/export/onnx_nbits.py", &[PRECISION]),
        source(
            "python/orch_py/inputs/calibration.py",
            &[PRECISION, OPENVINO],
        ),
        source("python/orch_py/export/onnx_fold.py", &[ONNX, PRECISION]),
        source("python/orch_py/export/onnx_graph.py", &[ONNX, PRECISION]),
        source("python/orch_py/export/onnx_messages.py", &[ONNX, PRECISION]),
        source("python/orch_py/ops/script.py", &[EAGER]),
        source(
            "python/orch_py/generate/torch_model.py",
            &[MODELS, ONNX, "convert:bert:torchscript"],
        ),
        source(
            "python/orch_py/worker/trees.py",
            &[
                MODELS,
                ONNX,
                "convert:bert:torchscript",
                OPENVINO,
                PRECISION,
            ],
        ),
        source(
            "python/orch_py/worker/child.py",
            &[
                MODELS,
                ONNX,
                "convert:bert:torchscript",
                OPENVINO,
                PRECISION,
                EAGER,
            ],
        ),
    ]);
}

#[test]
fn rust() {
    assert_all([
        source("src/spec/recipe.rs", &[INPUTS]),
        source(
            "src/step/ready.rs",
            &[
                READY,
                "generate:affine:reference | generate:scaled:reference",
            ],
        ),
        source(
            "src/step/command.rs",
            &["command:sorted | command:packed | command:card"],
        ),
        source("src/step/generate.rs", &[TESTS]),
        source(
            "src/runtime/ort/run.rs",
            &[
                QNN,
                ORT_RUNS,
                "generate:affine:reference | generate:scaled:reference",
            ],
        ),
        source(
            "src/runtime/ort/decoder.rs",
            &[
                QNN,
                ORT_RUNS,
                "generate:affine:reference | generate:scaled:reference",
            ],
        ),
        source("src/runtime/openvino/options.rs", &[OPENVINO_RUNS]),
        source("src/runtime/openvino/decoder.rs", &[OPENVINO_RUNS]),
        // A row says what is made, what a run is told, and which template a test is made from.
        source("src/catalogue/onnxruntime.rs", &[QNN, ORT_RUNS, TESTS]),
        source(
            "src/catalogue/openvino.rs",
            &[OPENVINO, OPENVINO_RUNS, TESTS],
        ),
        source("src/catalogue/onnx.rs", &[ONNX, PRECISION, TESTS]),
        source(
            "src/step/run.rs",
            &[
                "run:bert:qnn-fp16",
                ORT_RUNS,
                OPENVINO_RUNS,
                EAGER,
                "run:bert:torch-cpu-fp32",
            ],
        ),
        source("src/bin/orch-torch.rs", &["run:bert:torch-cpu-fp32"]),
        source("src/bin/orch-torch/build.rs", &["run:bert:torch-cpu-fp32"]),
        source("src/judge/tensor.rs", &[JUDGES]),
        source("src/judge/generation.rs", &[JUDGES]),
        source("src/report/markdown.rs", &["report"]),
        source("src/cli/args.rs", &[]),
        row(
            "the crate that runs ONNX",
            |world| world.bump_crate("ort"),
            &[
                (QNN, "code"),
                (ORT_RUNS, "code"),
                (
                    "generate:affine:reference | generate:scaled:reference",
                    "code",
                ),
            ],
        ),
        row(
            "the crate that renders",
            |world| world.bump_crate("minijinja"),
            &[(TESTS, "code"), ("report", "code")],
        ),
        row(
            "a crate that makes no output",
            |world| world.bump_crate("clap"),
            &[],
        ),
    ]);
}

#[test]
fn templates() {
    assert_all([
        source("templates/pipelines/text.py.j2", &[TESTS]),
        source("templates/hardware/qnn.py.j2", &[TESTS]),
        source("templates/report/style.css", &["report"]),
        source("templates/init/all.yaml", &[]),
    ]);
}

/// Sources that make no output of a step: they decide what runs and in which order, tell people, keep what was made, or
/// carry it. A new file is in one of these folders, or in the code of a step, or this fails.
const NO_OUTPUT: &[&str] = &[
    "src/base/",
    "src/capability/",
    "src/cases/",
    "src/cli/",
    "src/config",
    "src/device/",
    "src/exec/",
    "src/explain/",
    "src/history/",
    "src/journal/",
    "src/lib.rs",
    "src/main.rs",
    "src/matrix",
    "src/memo/",
    "src/plan/",
    "src/provision/",
    "src/session/",
    "src/spec/",
    "src/step/mod.rs",
    "src/store/",
    "src/trace/",
    "src/worker/",
    "src/event.rs",
    "src/key.rs",
    "src/key/change.rs",
    "src/reapi/",
    "src/record.rs",
    "src/toolchain.rs",
    "src/toolchain/",
    // They show what a device computes in, which decides which cases there are.
    "src/runtime/half.rs",
    "python/orch_py/ops/half.py",
    // It derives small configs for specs, and no step calls it.
    "python/orch_py/zoo/",
    // It only spares each job what all of them work out alike.
    "python/orch_py/worker/warm.py",
    "src/runtime/libtorch.rs",
    // `orch profile` asks for it, and no step does.
    "src/runtime/profile.rs",
    "templates/init/",
    // Written beside the tests of a model after the run, by what it itself says.
    "templates/all.py.j2",
    // The files that it lists are inputs, each by its name and content.
    "src/step/model_folder.rs",
    // Sites are made of reports when somebody asks for one.
    "templates/site/",
];

#[test]
fn every_source_has_its_place() {
    let world = World::new();
    // Of every runtime one target: the project itself opens no browser and reaches no phone.
    let target = |runtime: &&Runtime| {
        let pair = &runtime.pairs[0];
        let runtime = runtime.name;
        let backend = pair.backend.name;
        let artefact = pair.loads[0];
        let precision = (artefact.precisions)(false)[0].word();
        let loads = format!("artefact: {}, precisions: [{precision}]", artefact.name);
        format!("  any-{runtime}: {{runtime: {runtime}, backend: {backend}, {loads}}}\n")
    };
    let targets: String = RUNTIMES.iter().map(target).collect();
    let calibrated =
        "  calibrated: {runtime: ort, backend: cpu, artefact: onnx, precisions: [int8-static]}\n";
    world.edit("  qnn: {", &format!("{targets}{calibrated}  qnn: {{"));
    let parts = ["question", "context", "generator"].map(|part| format!("{part}: bert"));
    let composed = format!(
        "  composed: {{compose: rag, components: {{{}}}, family: encoder-only, task: fill-mask, pipeline: text, inputs: \
         {{input_ids: {{dtype: int64, shape: [1, 4], randint: [0, 9]}}}}}}\n",
        parts.join(", ")
    );
    world.edit("models:\n", &format!("models:\n{composed}"));
    world.edit("models: [bert, plain]", "models: [bert, plain, composed]");
    let said = "  said: {class: BertForMaskedLM, weights: path, path: weights, family: encoder-only, task: fill-mask, \
        pipeline: text, inputs: {input_ids: {dtype: int64, shape: [1, 4], text: [a]}}}\n";
    world.edit("models:\n", &format!("models:\n{said}"));
    let shown = "  shown: {class: ViTModel, weights: path, path: weights, family: vision, task: fill-mask, pipeline: text, \
        inputs: {pixel_values: {dtype: float32, shape: [1, 4], picture: [a.png]}}}\n";
    world.edit("models:\n", &format!("models:\n{shown}"));
    world.write("specs/a.png", "a");
    world.edit(
        "models: [bert, plain, composed]",
        "models: [bert, plain, composed, said, shown]",
    );
    let plan = world.plan();
    let steps = plan.steps.iter().map(|step| step.kind.code(step));
    let code: BTreeSet<String> = steps
        .chain([&orch::report::CODE])
        // `orch blame` adds its steps to a plan.
        .chain([
            BLAME.code(&plan.steps[0]),
            BLAME_EXPORT.code(&plan.steps[0]),
        ])
        .flat_map(Code::files)
        .collect();
    let has_place =
        |path: &str| code.contains(path) || NO_OUTPUT.iter().any(|prefix| path.starts_with(prefix));
    let lost: Vec<_> = Sources::embedded()
        .paths()
        .filter(|path| !has_place(path))
        .collect();
    assert!(
        lost.is_empty(),
        "neither the code of a step nor known to make no output: {lost:?}"
    );
    for prefix in NO_OUTPUT {
        assert!(
            Sources::embedded()
                .paths()
                .any(|path| path.starts_with(prefix)),
            "nothing begins with {prefix}"
        );
    }
}
