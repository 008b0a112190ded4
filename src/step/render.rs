//! The step that renders a generated test. What the test is made of is `generate.rs`.

use crate::matrix::Case;
use crate::spec::{Dim, Model, Source, Spec, Target};
use crate::step::generate::{self, render_test};
use crate::step::{Code, InputSummary, Part, Places, RunParams, Step, StepKind, TestContext, Work};
use crate::toolchain::EnvName;

pub struct Render;
pub static RENDER: Render = Render;

impl StepKind for Render {
    fn name(&self) -> &'static str {
        "render"
    }

    /// A test is put together from many templates, and which ones the templates say: all of them count for each. What
    /// comes out as it was stops there.
    fn code(&self, _: &Step) -> &Code {
        static CODE: Code = Code::of(&[&[
            Part::Rust("step/render.rs"),
            Part::Rust("step/generate"),
            Part::Rust("template.rs"),
            Part::PythonFile(generate::JUDGE),
            Part::Templates("test.py.j2"),
            Part::Templates("hardware/"),
            Part::Templates("pipelines/"),
            Part::Templates("results/"),
            Part::Crate("minijinja"),
        ]]);
        &CODE
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn lower(&self, step: &Step, _: &Places) -> anyhow::Result<Work> {
        let context: TestContext = step.params.parse()?;
        Ok(Work::Files(vec![(context.file_name(), render_test(&context)?.into_bytes())]))
    }
}

/// All that the test of a case is made from.
pub fn test_context(
    spec: &Spec,
    model: &Model,
    target: &Target,
    case: &Case,
    run: &RunParams,
    artefact_variant: &str,
) -> TestContext {
    let size = |dim: &Dim| match dim {
        Dim::Fixed(n) => *n,
        Dim::Named(name) => case.dims[name],
    };
    let (class, trust_remote_code) = match &model.source {
        Source::Transformers { class, trust_remote_code, .. } => (Some(class.clone()), *trust_remote_code),
        Source::Ready { .. } => (None, false),
    };
    let inputs = model.inputs.iter().map(|(name, input)| InputSummary {
        name: name.clone(),
        dtype: input.dtype,
        shape: input.shape.iter().map(size).collect(),
    });
    TestContext {
        orch: env!("CARGO_PKG_VERSION").into(),
        model: model.name.clone(),
        class,
        family: model.family.clone(),
        task: model.task.clone(),
        pipeline: case.pipeline.clone(),
        template: spec.pipelines[&case.pipeline].template.clone(),
        target: target.name.clone(),
        backend: target.backend.clone(),
        runtime: target.runtime.clone(),
        device: target.device.clone(),
        precision: case.precision,
        computes: run.computes.clone(),
        variant: case.name.clone(),
        artefact: target.artefact,
        artefact_variant: artefact_variant.to_owned(),
        inputs: inputs.collect(),
        outputs: model.outputs.clone(),
        tolerance: None,
        measure: run.measure,
        options: target.options.clone(),
        trust_remote_code,
    }
}

/// The environment whose Python runs the test of a target by itself.
pub fn test_env(run: &RunParams) -> EnvName {
    match run.runtime.as_str() {
        // The page needs no Python, and the test only what has made its model.
        "torch" | "python" | "browser" | "transformers-js" => EnvName::Torch,
        "openvino" => EnvName::Openvino,
        _ => match run.backend.as_str() {
            "qnn" => EnvName::Qnn,
            "webgpu" => EnvName::Webgpu,
            "cuda" => EnvName::Cuda,
            "rocm" => EnvName::Rocm,
            _ => EnvName::Ort,
        },
    }
}

pub fn test_file_name(model: &str, variant: &str) -> String {
    format!("test_{}_{variant}.py", model.replace('/', "--"))
}
