//! A model in tract: loaded for inputs of certain shapes, run, measured.
//!
//! The only home of the tract crate. What tract lacks is its refusal; a panic of it is a crash of the run, and not of the worker.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tract_onnx::prelude::{
    DatumType, Framework, InferenceFact, InferenceModelExt, IntoTValue, TValue, TVec,
    Tensor as Held, TractResult, TypedSimplePlan, TypedSimpleState,
};

use super::{DEVICE, Params};
use crate::base::Bug;
use crate::runtime::generation;
use crate::runtime::loops::{Component, Loop};
use crate::runtime::manifest::Manifest;
use crate::runtime::measure;
use crate::runtime::onnx_file::{self, Size};
use crate::runtime::refusal::Refusal;
use crate::runtime::serve::panic_message;
use crate::runtime::tensors::{self, Element, Tensor, Tensors};
use crate::runtime::{Job, JobOutput, JobStatus, RawMeasure};

/// The version of the crate, which itself does not tell.
const VERSION: &str = "0.23.9";

const SYNC: &str = "a call that returns when the outputs are complete";
const WITHOUT_CACHE: &str = "the model is loaded for one length here";

/// Words of tract's for what it does not have.
const LACKS: [&str; 5] = [
    "unsupported",
    "not supported",
    "unimplemented",
    "not implemented",
    "not yet implemented",
];

/// One row a type: ours, and tract's.
const ELEMENTS: [(Element, DatumType); 12] = [
    (Element::Float64, DatumType::F64),
    (Element::Float32, DatumType::F32),
    (Element::Float16, DatumType::F16),
    (Element::Int64, DatumType::I64),
    (Element::Int32, DatumType::I32),
    (Element::Int16, DatumType::I16),
    (Element::Int8, DatumType::I8),
    (Element::Uint64, DatumType::U64),
    (Element::Uint32, DatumType::U32),
    (Element::Uint16, DatumType::U16),
    (Element::Uint8, DatumType::U8),
    (Element::Bool, DatumType::Bool),
];

/// Measures the artefact and writes its outputs.
pub(super) fn run(job: &Job, params: &Params) -> Result<JobOutput> {
    let tree = job.artefact()?;
    let inputs = tensors::read(&tree.join(tensors::INPUTS))?;
    if let Some(looped) = Loop::read(tree)? {
        return run_loop(job, params, &looped, &inputs);
    }
    let manifest = Manifest::read(tree)?;
    let model = Model::read(tree)?;
    let load = || {
        let session = Session::open(&model, Some(model.kinds(&inputs)?))?;
        let feed = session.feed(&inputs)?;
        Ok((session, feed))
    };
    let ((mut session, _), outputs, timings) =
        measure::run(params.measure.as_ref(), load, |(session, feed)| {
            session.run(feed.clone())
        })?;
    let first = session.named(outputs, &manifest.outputs)?;
    tensors::write(&job.out.join(tensors::OUTPUTS), &first)?;
    let mut infer = |inputs: &Tensors| again(&mut session, &manifest, inputs);
    tensors::run_control(tree, &job.out, &mut infer)?;
    generation::run_without_cache(job, tree, WITHOUT_CACHE, &mut infer)?;
    Ok(JobOutput::ok(facts(), Some(on_device(timings, params))))
}

/// The same of a model of several: a session for each component, and the loop that calls them.
fn run_loop(job: &Job, params: &Params, looped: &Loop, inputs: &Tensors) -> Result<JobOutput> {
    let tree = job.artefact()?;
    let components = looped.components(tree)?;
    let models = components
        .iter()
        .map(|component| Ok((component.name.as_str(), Model::read(&component.tree)?)))
        .collect::<Result<BTreeMap<_, _>>>()?;
    let open = |component: &Component| {
        let model = &models[component.name.as_str()];
        Session::open(model, model.declared()?)
    };
    let measured = params.measure.as_ref();
    let (mut sessions, outputs, timings) =
        looped.measure(&components, inputs, measured, open, again)?;
    looped.write(job, tree, outputs, |inputs| {
        looped.run_loaded(&mut sessions, inputs, again)
    })?;
    let mut facts = facts();
    facts["components"] = json!(sessions.keys().collect::<Vec<_>>());
    Ok(JobOutput::ok(facts, Some(on_device(timings, params))))
}

fn facts() -> Value {
    json!({"tract": VERSION, "device": {"id": DEVICE}, "threads": 1})
}

fn on_device(timings: RawMeasure, params: &Params) -> RawMeasure {
    timings.on(SYNC, &params.device, DEVICE)
}

/// An inference on other inputs.
fn again(session: &mut Session<'_>, manifest: &Manifest, inputs: &Tensors) -> Result<Tensors> {
    session.fit(session.model.kinds(inputs)?)?;
    let feed = session.feed(inputs)?;
    let outputs = session.run(feed)?;
    session.named(outputs, &manifest.outputs)
}

/// An ONNX file with what orch itself reads of it.
struct Model {
    file: PathBuf,
    inputs: Vec<String>,
    outputs: Vec<String>,
}

impl Model {
    /// Refuses a model with operators that tract does not have.
    fn read(tree: &Path) -> Result<Self> {
        let file = tree.join("model.onnx");
        let known = tract_onnx::onnx().op_register.0;
        let unknown: Vec<_> = onnx_file::operators(&file)?
            .into_iter()
            .filter(|operator| !known.contains_key(operator))
            .map(|operator| format!("`{operator}`"))
            .collect();
        if !unknown.is_empty() {
            let word = if unknown.len() == 1 {
                "operator"
            } else {
                "operators"
            };
            let why = format!("tract {VERSION} has no {word} {}", unknown.join(", "));
            return Err(Refusal::because(JobStatus::Unsupported, why));
        }
        let facts = onnx_file::facts(&file)?;
        Ok(Self {
            file,
            inputs: facts.inputs,
            outputs: facts.outputs,
        })
    }

    /// What these inputs are, in its order.
    fn kinds(&self, inputs: &Tensors) -> Result<Vec<Kind>> {
        let kind = |name: &String| {
            let tensor = input(inputs, name)?;
            Ok((tensor.element(), tensor.shape().to_vec()))
        };
        self.inputs.iter().map(kind).collect()
    }

    /// What the file itself says of its inputs; None where it leaves a size open.
    fn declared(&self) -> Result<Option<Vec<Kind>>> {
        let kind = |port: onnx_file::Port| {
            let size = |size: &Size| match size {
                Size::Fixed(size) => usize::try_from(*size).ok(),
                Size::Named(_) | Size::Open => None,
            };
            let sizes = port.sizes.iter().map(size).collect::<Option<_>>()?;
            Some((port.element, sizes))
        };
        Ok(onnx_file::ports(&self.file)?
            .into_iter()
            .map(kind)
            .collect())
    }

    fn load(&self, kinds: &[Kind]) -> TractResult<TypedSimpleState> {
        let mut model = tract_onnx::onnx().model_for_path(&self.file)?;
        for (place, (element, shape)) in kinds.iter().enumerate() {
            let fact = InferenceFact::dt_shape(tracts(*element)?, shape.as_slice());
            model.set_input_fact(place, fact)?;
        }
        TypedSimplePlan::new(model.into_optimized()?)?.spawn()
    }
}

/// The type and the shape of an input.
type Kind = (Element, Vec<usize>);

/// A model that is ready for inputs of these kinds.
struct Session<'m> {
    model: &'m Model,
    /// None before the kinds are known.
    loaded: Option<(Vec<Kind>, TypedSimpleState)>,
}

impl<'m> Session<'m> {
    fn open(model: &'m Model, kinds: Option<Vec<Kind>>) -> Result<Self> {
        let mut session = Self {
            model,
            loaded: None,
        };
        if let Some(kinds) = kinds {
            session.fit(kinds)?;
        }
        Ok(session)
    }

    /// Loads the model again where the inputs are of other kinds.
    fn fit(&mut self, kinds: Vec<Kind>) -> Result<()> {
        if self
            .loaded
            .as_ref()
            .is_none_or(|(fitting, _)| *fitting != kinds)
        {
            let state = guarded(|| self.model.load(&kinds)).context("failed to load model.onnx")?;
            self.loaded = Some((kinds, state));
        }
        Ok(())
    }

    fn feed(&self, inputs: &Tensors) -> Result<TVec<TValue>> {
        let value = |name: &String| held(input(inputs, name)?);
        self.model.inputs.iter().map(value).collect()
    }

    fn run(&mut self, feed: TVec<TValue>) -> Result<TVec<TValue>> {
        let (_, state) = self
            .loaded
            .as_mut()
            .context(Bug::new("a model is loaded before it runs"))?;
        guarded(|| state.run(feed)).context("failed to run the model")
    }

    /// The outputs that are wanted. tract calls outputs by its nodes, and gives them in the order of the file.
    fn named(&self, outputs: TVec<TValue>, wanted: &[String]) -> Result<Tensors> {
        ensure!(
            outputs.len() == self.model.outputs.len(),
            "tract gives {} outputs, and the file has {:?}",
            outputs.len(),
            self.model.outputs
        );
        let all: BTreeMap<_, _> = self.model.outputs.iter().zip(outputs).collect();
        let one = |name: &String| {
            let value = all
                .get(name)
                .with_context(|| format!("the model gives no `{name}`"))?;
            let tensor = guarded(|| given(value)).with_context(|| format!("output `{name}`"))?;
            Ok((name.clone(), tensor))
        };
        wanted.iter().map(one).collect()
    }
}

fn input<'t>(inputs: &'t Tensors, name: &str) -> Result<&'t Tensor> {
    inputs
        .get(name)
        .with_context(|| format!("the inputs lack `{name}`"))
}

fn tracts(element: Element) -> Result<DatumType> {
    let row = ELEMENTS.iter().find(|row| row.0 == element);
    row.map(|row| row.1).ok_or_else(|| {
        let why = format!("tract {VERSION} has no tensors of {}", element.word());
        Refusal::because(JobStatus::Unsupported, why)
    })
}

/// The tensor as tract holds it.
fn held(tensor: &Tensor) -> Result<TValue> {
    let kind = tracts(tensor.element())?;
    let bytes = tensor.bytes();
    ensure!(
        tensor.element() != Element::Bool || bytes.iter().all(|byte| *byte <= 1),
        "a bool is neither 0 nor 1"
    );
    // SAFETY: any bytes are values of the numbers among these types, those of bools were looked at, and tract itself compares
    // their number with the shape.
    let tensor = unsafe { Held::from_raw_dt(kind, tensor.shape(), bytes) }?;
    Ok(tensor.into_tvalue())
}

/// What tract gave, as a tensor of ours. It computes with sizes in a type of its own, where the file has int64.
fn given(value: &Held) -> Result<Tensor> {
    let value = match value.datum_type() {
        DatumType::TDim => value.cast_to_dt(DatumType::I64)?,
        _ => std::borrow::Cow::Borrowed(value),
    };
    let kind = value.datum_type();
    let row = ELEMENTS.iter().find(|row| row.1 == kind);
    let (element, _) =
        row.with_context(|| format!("tract gives {kind:?}, which is no tensor here"))?;
    Tensor::new(*element, value.shape().to_vec(), value.as_bytes().to_vec())
}

/// What tract did, with its errors and panics under the status that they stand for.
fn guarded<T>(work: impl FnOnce() -> TractResult<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(match lacks(&format!("{error:#}")) {
            true => Refusal::because(JobStatus::Unsupported, format!("{error:#}")),
            false => error,
        }),
        Err(panic) => {
            let words = panic_message(&*panic);
            let status = match lacks(words) {
                true => JobStatus::Unsupported,
                false => JobStatus::Crash,
            };
            Err(Refusal::because(status, format!("tract panicked: {words}")))
        }
    }
}

fn lacks(words: &str) -> bool {
    let words = words.to_lowercase();
    LACKS.iter().any(|lack| words.contains(lack))
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
