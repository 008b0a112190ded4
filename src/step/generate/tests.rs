//! Every pipeline on every hardware template renders, the same each time, and into Python.

mod composed;
mod own;
mod platforms;
mod syntax;

use std::path::PathBuf;

use serde_json::json;

use super::*;
use crate::catalogue::{RUNTIMES, onnx, openvino, python, qnn, torch, transformers_js};
use crate::device::backends;

/// Renders as all tests here do, for whatever is rendered must be Python.
fn render_test(ctx: &TestContext) -> anyhow::Result<String> {
    let text = super::render_test(ctx)?;
    syntax::assert_parses(&text);
    Ok(text)
}

/// Pipeline template and its tasks with the inputs that such a model takes.
fn pipelines() -> Vec<(&'static str, &'static str, Vec<InputSummary>)> {
    let ids = || input("input_ids", Element::Int64, &[1, 16]);
    let mask = || input("attention_mask", Element::Int64, &[1, 16]);
    let decoder = || input("decoder_input_ids", Element::Int64, &[1, 4]);
    let pixels = || input("pixel_values", Element::Float32, &[1, 3, 32, 32]);
    let sound = || input("input_values", Element::Float32, &[1, 1600]);
    let features = || input("input_features", Element::Float32, &[1, 80, 100]);
    let of_text = [
        "text-generation",
        "text-classification",
        "token-classification",
        "feature-extraction",
        "another",
    ];
    let of_pixels = [
        "object-detection",
        "semantic-segmentation",
        "depth-estimation",
        "image-feature-extraction",
    ];
    let of_both = [
        "zero-shot-image-classification",
        "zero-shot-video-classification",
        "visual-question-answering",
    ];
    let of_sound = [
        "audio-classification",
        "audio-feature-extraction",
        "audio-tokenization",
    ];
    let all: [(_, &[&'static str], _); 13] = [
        ("text", &of_text, vec![ids(), mask()]),
        (
            "text",
            &["fill-mask", "question-answering"],
            vec![ids(), mask()],
        ),
        (
            "text",
            &["text2text-generation"],
            vec![ids(), mask(), decoder()],
        ),
        ("vision", &of_pixels, vec![pixels()]),
        ("vision", &["image-classification"], vec![pixels()]),
        ("vision-text", &of_both, vec![ids(), pixels(), mask()]),
        ("audio", &["automatic-speech-recognition"], vec![sound()]),
        (
            "audio",
            &["automatic-speech-recognition"],
            vec![features(), decoder()],
        ),
        ("audio", &of_sound, vec![sound()]),
        (
            "audio",
            &["zero-shot-audio-classification"],
            vec![ids(), features(), mask()],
        ),
        (
            "multimodal",
            &["image-text-to-text"],
            vec![ids(), pixels(), mask()],
        ),
        ("mixture-of-experts", &of_text, vec![ids(), mask()]),
        ("state-space", &of_text, vec![ids(), mask()]),
    ];
    let all = all.into_iter().flat_map(|(pipeline, tasks, inputs)| {
        tasks
            .iter()
            .map(move |task| (pipeline, *task, inputs.clone()))
    });
    all.chain(composed::pipelines()).collect()
}

/// Target, runtime, backend, device, artefact and its variant, precision.
const TARGETS: &[Row] = &[
    (
        "cpu",
        "ort",
        "cpu",
        "cpu",
        &onnx::ARTEFACT,
        "onnx",
        Precision::Fp32,
    ),
    (
        "cuda",
        "ort",
        "cuda",
        "cuda",
        &onnx::ARTEFACT,
        "onnx",
        Precision::Fp32,
    ),
    (
        "rocm",
        "ort",
        "rocm",
        "rocm",
        &onnx::ARTEFACT,
        "onnx",
        Precision::Fp32,
    ),
    (
        "openvino",
        "openvino",
        "openvino",
        "CPU",
        &openvino::ARTEFACT,
        "openvino-fp16",
        Precision::Fp16,
    ),
    (
        "openvino",
        "openvino",
        "openvino",
        "CPU",
        &openvino::ARTEFACT,
        "openvino-int8",
        Precision::Int8,
    ),
    (
        "qnn",
        "ort",
        "qnn",
        "htp",
        &qnn::ARTEFACT,
        "qnn-fp16",
        Precision::Fp16,
    ),
    (
        "openvino",
        "openvino",
        "openvino",
        "CPU",
        &openvino::ARTEFACT,
        "openvino-int4",
        Precision::Int4,
    ),
    (
        "qnn",
        "ort",
        "qnn",
        "htp",
        &qnn::ARTEFACT,
        "qnn-a16w8",
        Precision::A16w8,
    ),
    (
        "qnn-android",
        "android",
        "qnn-android",
        "htp",
        &qnn::ARTEFACT,
        "qnn-android-fp16",
        Precision::Fp16,
    ),
    (
        "torch-cpu",
        "torch",
        "cpu",
        "cpu",
        &torch::ARTEFACT,
        "torchscript",
        Precision::Fp32,
    ),
    (
        "mps",
        "torch",
        "mps",
        "mps",
        &torch::ARTEFACT,
        "torchscript",
        Precision::Fp32,
    ),
    (
        "eager-cpu",
        "python",
        "cpu",
        "cpu",
        &python::ARTEFACT,
        "model",
        Precision::Fp32,
    ),
    (
        "eager-cuda",
        "python",
        "cuda",
        "cuda",
        &python::ARTEFACT,
        "model",
        Precision::Bf16,
    ),
    (
        "coreml",
        "ort",
        "mps",
        "all",
        &onnx::ARTEFACT,
        "onnx",
        Precision::Fp32,
    ),
    (
        "webgpu",
        "ort",
        "webgpu",
        "webgpu",
        &onnx::ARTEFACT,
        "onnx",
        Precision::Fp32,
    ),
    (
        "webgpu-browser",
        "browser",
        "webgpu-browser",
        "webgpu",
        &onnx::ARTEFACT,
        "onnx",
        Precision::Fp32,
    ),
    (
        "webnn",
        "browser",
        "webnn",
        "cpu",
        &onnx::ARTEFACT,
        "onnx",
        Precision::Fp32,
    ),
    (
        "tasks",
        "transformers-js",
        "cpu",
        "wasm",
        &transformers_js::ARTEFACT,
        "transformers-js",
        Precision::Fp32,
    ),
];

type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static Artefact,
    &'static str,
    Precision,
);

/// Those, and one for every other pair of the catalogue.
fn targets() -> Vec<Row> {
    let pairs = RUNTIMES
        .iter()
        .flat_map(|runtime| runtime.pairs.iter().map(|pair| (runtime.name, pair)));
    let others = pairs.filter(|(runtime, pair)| {
        !TARGETS
            .iter()
            .any(|(_, known, backend, ..)| known == runtime && *backend == pair.backend.name)
    });
    let other = others.map(|(runtime, pair)| {
        let backend = pair.backend.name;
        let artefact = pair.loads[0];
        (
            runtime,
            runtime,
            backend,
            backend,
            artefact,
            artefact.name,
            (artefact.precisions)(false)[0],
        )
    });
    TARGETS.iter().copied().chain(other).collect()
}

fn input(name: &str, dtype: Element, shape: &[u64]) -> InputSummary {
    InputSummary {
        name: name.to_owned(),
        dtype,
        shape: shape.to_vec(),
    }
}

fn contexts() -> Vec<TestContext> {
    let mut all = Vec::new();
    for (pipeline, task, inputs) in pipelines() {
        let components = composed::components(task);
        let runs =
            |runtime: &str| components.is_empty() || Runtime::named(runtime).unwrap().composes;
        for (target, runtime, backend, device, artefact, artefact_variant, precision) in targets() {
            if !runs(runtime) {
                continue;
            }
            let name = serde_json::to_value(precision).unwrap();
            all.push(TestContext {
                orch: "0.1.0".to_owned(),
                model: "tiny".to_owned(),
                class: Some("TinyModel".to_owned()),
                family: "encoder-only".to_owned(),
                task: task.to_owned(),
                pipeline: pipeline.to_owned(),
                template: pipeline.to_owned(),
                target: target.to_owned(),
                backend: BackendRow::named(backend).unwrap(),
                runtime: Runtime::named(runtime).unwrap(),
                device: device.to_owned(),
                precision,
                computes: None,
                variant: format!("{target}-{}", name.as_str().unwrap()),
                instance: "tiny".to_owned(),
                artefact,
                artefact_variant: artefact_variant.to_owned(),
                inputs: inputs.clone(),
                outputs: Vec::new(),
                tokens: Vec::new(),
                tolerance: Some(Tolerance::usual(Precision::Fp32)),
                measure: TestMeasure::Times {
                    warmup: 3,
                    samples: 20,
                    max_seconds: 10.0,
                },
                options: match runtime {
                    "openvino" => BTreeMap::from([("num_streams".to_owned(), json!(1))]),
                    _ if backend == "qnn" => BTreeMap::from([("soc_model".to_owned(), json!(60))]),
                    _ => BTreeMap::new(),
                },
                trust_remote_code: false,
                generates: ["text-generation", "retrieval-augmented-generation"].contains(&task),
                own_weights: false,
                positions: None,
                experts_per_token: (pipeline == "mixture-of-experts").then_some(2),
                components: components.clone(),
            });
        }
    }
    all
}

fn context(task: &str, target: &str) -> TestContext {
    contexts()
        .into_iter()
        .find(|ctx| ctx.task == task && ctx.target == target)
        .unwrap()
}

#[test]
fn every_pipeline_renders_on_every_hardware() {
    let folder = std::env::var_os("ORCH_GENERATED").map(PathBuf::from);
    for (number, ctx) in contexts().into_iter().enumerate() {
        let text = render_test(&ctx)
            .unwrap_or_else(|error| panic!("{} on {}: {error:#}", ctx.task, ctx.target));
        // The page of a browser loads, infers and cleans up; the file asks for it as a whole. A phone's file says why not.
        let common: &[&str] = &["def check", "def postprocess", "def preprocess"];
        let (common, own): (&[&str], &[&str]) = match ctx.runtime.name {
            "android" => (&[], &[]),
            "browser" | "transformers-js" => (common, &["def in_browser("]),
            _ => (common, &["def load(", "def infer(", "def cleanup("]),
        };
        for name in common.iter().chain(own) {
            assert_eq!(
                text.matches(name).count(),
                1,
                "{name}: {} on {}",
                ctx.task,
                ctx.target
            );
        }
        assert!(
            !text.contains("\n\n\n\n") && !text.contains(" \n"),
            "{} on {}",
            ctx.task,
            ctx.target
        );
        if let Some(folder) = &folder {
            let text = handed_out(text.into_bytes(), "orch run", &BTreeMap::new());
            std::fs::write(folder.join(format!("{number}_{}", ctx.file_name())), text).unwrap();
        }
    }
}

/// Its inputs come from a file of tensors, and its outputs are called as its author liked.
#[test]
fn a_ready_file_is_indexed_by_no_name_that_it_may_not_have() {
    // These run no ready file, and a phone gets no test of its own.
    let other =
        |ctx: &TestContext| ["python", "transformers-js", "android"].contains(&ctx.runtime.name);
    for ctx in contexts()
        .into_iter()
        .filter(|ctx| !other(ctx) && ctx.components.is_empty())
    {
        let ready = TestContext {
            class: None,
            inputs: Vec::new(),
            ..ctx
        };
        let text = render_test(&ready)
            .unwrap_or_else(|error| panic!("{} on {}: {error:#}", ready.task, ready.target));
        for access in ["inputs[\"", "outputs[\""] {
            assert!(
                !text.contains(access),
                "{access} for {} on {}",
                ready.task,
                ready.target
            );
        }
    }
}

#[test]
fn a_ready_file_is_checked_as_its_task_where_the_spec_has_its_names() {
    let mut ready = context("fill-mask", "cpu");
    ready.class = None;
    assert!(!render_test(&ready).unwrap().contains("outputs[\"scores\"]"));
    ready.outputs = vec!["scores".to_owned()];
    assert!(render_test(&ready).unwrap().contains("outputs[\"scores\"]"));
}

#[track_caller]
fn assert_golden(file: &str, text: &str) {
    let path = format!(
        "{}/tests/fixtures/generated/{file}",
        env!("CARGO_MANIFEST_DIR")
    );
    if std::env::var_os("ORCH_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    pretty_assertions::assert_eq!(
        text,
        golden,
        "run the test with ORCH_BLESS=1 to accept the new text"
    );
}

#[test]
fn the_golden_file_of_all_platforms_is_current() {
    let (file, text) = for_all_platforms("tiny_2.5").unwrap();
    syntax::assert_parses(&text);
    if let Some(folder) = std::env::var_os("ORCH_GENERATED") {
        std::fs::write(PathBuf::from(folder).join(&file), &text).unwrap();
    }
    assert_eq!(file, "all_tiny__2+5.py");
    assert_golden(&file, &text);
}

#[test]
fn rendering_again_gives_the_same_text() {
    for ctx in contexts().iter().filter(|ctx| ctx.task == "fill-mask") {
        assert_eq!(
            render_test(ctx).unwrap(),
            render_test(ctx).unwrap(),
            "{}",
            ctx.target
        );
    }
}

#[test]
fn every_template_of_a_test_is_reached() {
    let rendered: std::collections::BTreeSet<_> = contexts()
        .iter()
        .map(|ctx| format!("hardware/{}.py.j2", ctx.hardware().unwrap()))
        .collect();
    for name in template::names() {
        if name.starts_with("hardware/") && !name.starts_with("hardware/_") {
            assert!(rendered.contains(name), "{name} belongs to no target");
        }
    }
}

/// Every file holds the whole text of the verdict, and none holds another one.
#[test]
fn a_file_judges_by_the_verdict_of_the_package() {
    let of_package = embedded(JUDGE, JUDGE_BELOW);
    assert!(
        of_package.contains("def tensor_verdict(") && !of_package.contains("import"),
        "{of_package}"
    );
    for ctx in contexts().iter().filter(|ctx| ctx.task == "fill-mask") {
        let text = render_test(ctx).unwrap();
        assert_eq!(
            text.contains(of_package),
            ctx.runtime.name != "android",
            "{}",
            ctx.target
        );
        assert!(!text.contains("orch_py"), "{}", ctx.target);
    }
}

/// All but a phone's, which loads nothing.
#[test]
fn a_file_that_is_handed_out_knows_the_trees_beside_it() {
    let trees = ["model", "onnx"]
        .map(|name| (name.to_owned(), Digest::of(name.as_bytes())))
        .into();
    for ctx in contexts().iter().filter(|ctx| ctx.task == "fill-mask") {
        let text = render_test(ctx).unwrap();
        assert_eq!(
            text.matches("HANDED_OUT: Document").count(),
            usize::from(ctx.runtime.name != "android"),
            "{}",
            ctx.target
        );
        let filled = handed_out(
            text.clone().into_bytes(),
            "orch run \"a b\" --case 'x:y'",
            &trees,
        );
        let filled = String::from_utf8(filled).unwrap();
        syntax::assert_parses(&filled);
        let expected = format!(
            "HANDED_OUT: Document | None = {{
    \"again\": \"orch run \\\"a b\\\" --case 'x:y'\",
    \"trees\": {{
        \"model\": \"{}\",
        \"onnx\": \"{}\",
    }},
}}
",
            trees["model"], trees["onnx"]
        );
        assert_eq!(
            filled.contains(&expected),
            ctx.runtime.name != "android",
            "{}: {expected}",
            ctx.target
        );
        assert_eq!(
            as_made(filled.as_bytes()),
            text.as_bytes(),
            "{}",
            ctx.target
        );
        let one_line = text.replacen(
            UNFILLED,
            "\nHANDED_OUT: Document | None = {\"again\":\"x\",\"trees\":{}}\n",
            1,
        );
        assert_eq!(
            as_made(one_line.as_bytes()),
            text.as_bytes(),
            "as it was written before, {}",
            ctx.target
        );
    }
}

/// Names that would run code, or end what they stand in, if they were put there as they are.
const HOSTILE: [&str; 8] = [
    "logits\": __import__(\"os\").system(\"pwned\") or 1, \"y",
    "x\"\"\"\nimport pwned\n\"\"\"",
    "{__import__('pwned')}",
    "a\\",
    "a\nimport pwned",
    "a\r\u{c}import pwned",
    "{{ pwned }}{% pwned %}",
    "\u{202e}'''pwned\0",
];
