//! Running a model: measured on the device that was asked for, or once on the CPU to make a reference.

use std::path::{Path, PathBuf};

use ::ort::session::Session;
use ::ort::session::builder::SessionBuilder;
use anyhow::{Context, ensure};
use serde_json::{Map, Value, json};

use super::host::{CPU, Host, OPTIMISATION, QNN, plain, strict};
use super::infer::{Feed, collect, infer};
use super::placement::Placement;
use super::refusal::{Verdict, examine};
use super::{Failure, Params, qnn, tree};
use crate::base::{Digest, fs as bfs};
use crate::runtime::manifest::Manifest;
use crate::runtime::measure::{self, MeasureParams};
use crate::runtime::{Job, JobOutput, tensors};

/// How a run here knows that the device is done.
const SYNC: &str = "synchronous call";

/// Where a job's session runs.
pub(super) struct Place {
    pub(super) provider: &'static str,
    pub(super) requested: &'static str,
    pub(super) actual: &'static str,
    pub(super) options: Vec<(String, String)>,
}

impl Place {
    /// Loads the libraries that the params name.
    pub(super) fn open(params: &Params) -> Result<(Host, Self), Failure> {
        match params.ep.as_deref().unwrap_or("cpu") {
            "cpu" => {
                if let Some(name) = params.options.keys().next() {
                    return Err(Failure::error(format!("the CPU provider takes no option `{name}`")));
                }
                let place = Self { provider: CPU, requested: "cpu", actual: "cpu", options: Vec::new() };
                Ok((Host::load(&params.library)?, place))
            }
            "qnn" => Self::qnn(params),
            other => {
                let hint = crate::base::suggest::hint(other, ["cpu", "qnn"]);
                Err(Failure::error(format!("ort has no execution provider `{other}`; {hint}")))
            }
        }
    }

    /// QNN, whatever `ep` says.
    pub(super) fn qnn(params: &Params) -> Result<(Host, Self), Failure> {
        let options = qnn::options(&params.options).map_err(Failure::error)?;
        let library = params.ep_library()?;
        let host = Host::load(&params.library)?;
        host.add_qnn(library)?;
        Ok((host, Self { provider: QNN, requested: "qnn-htp", actual: qnn::actual_device(), options }))
    }

    /// A builder whose session runs here or not at all.
    pub(super) fn builder(&self, host: &Host, threads: Option<usize>) -> anyhow::Result<SessionBuilder> {
        let mut builder = host.builder(self.provider, &self.options)?;
        if let Some(threads) = threads {
            ensure!(threads > 0, "`threads` is 0: give a positive number, or leave it out");
            builder = builder.with_intra_threads(threads).map_err(plain)?;
        }
        if self.provider == CPU { Ok(builder) } else { strict(builder) }
    }

    /// What belongs into the record about libraries and settings.
    pub(super) fn facts(&self, host: &Host, params: &Params) -> Result<Map<String, Value>, Failure> {
        let mut facts = Map::new();
        facts.insert("onnxruntime".to_owned(), json!(host.version));
        facts.insert("provider".to_owned(), json!(self.provider));
        if let (QNN, Some(library)) = (self.provider, &params.ep_library) {
            // The provider calls itself 0.1.0 in every release, so its content is what tells one from another.
            let digest = Digest::of_file(library).with_context(|| format!("failed to read `{}`", library.display()))?;
            facts.insert("provider_library".to_owned(), json!(digest));
        }
        let options: Map<_, _> = self.options.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        facts.insert("options".to_owned(), Value::Object(options));
        facts.insert("graph_optimisation".to_owned(), json!(OPTIMISATION));
        facts.insert("threads".to_owned(), json!(params.threads));
        facts
            .insert("cpu_fallback".to_owned(), json!(if self.provider == CPU { "not applicable" } else { "disabled" }));
        Ok(facts)
    }
}

/// `run`: measures the artefact and writes `outputs.safetensors`.
pub(super) fn run(job: &Job, params: &Params) -> Result<JobOutput, Failure> {
    let measured = MeasureParams::of(&job.params)?;
    let artefact = tree(job, "artefact")?;
    let manifest = Manifest::read(artefact)?;
    let inputs = tensors::read(&artefact.join("inputs.safetensors"))?;
    let model = model_file(artefact)?;
    let (host, place) = Place::open(params)?;

    let mut facts = place.facts(&host, params)?;
    let load = || {
        let mut builder = place.builder(&host, params.threads)?;
        let session = builder.commit_from_file(&model).map_err(plain)?;
        let feed = Feed::new(&session, &inputs)?;
        Ok(Loaded { session, feed })
    };
    let ran = measure::run(&measured, load, |loaded| infer(&mut loaded.session, &loaded.feed));
    let (loaded, outputs, timings) = match ran {
        Ok(ran) => ran,
        Err(error) => return Err(explained(error.into(), &host, &place, &model)),
    };

    let placement = Placement::of(&loaded.session)?;
    assert_place(&placement, &place)?;
    facts.insert("placement".to_owned(), json!(placement.counts()));
    tensors::write(&job.out.join("outputs.safetensors"), &collect(outputs, &manifest.outputs)?)?;
    let mut raw = timings.into_raw(SYNC, place.requested, place.actual);
    raw.placement = placement.counts();
    Ok(JobOutput::ok(Value::Object(facts), Some(raw)))
}

struct Loaded {
    session: Session,
    feed: Feed,
}

/// `reference`: all outputs of one inference on the CPU, as `reference.safetensors`.
pub(super) fn reference(job: &Job, params: &Params) -> Result<JobOutput, Failure> {
    if let Some(ep) = params.ep.as_deref().filter(|ep| *ep != "cpu") {
        return Err(Failure::error(format!("a reference is computed on the CPU, not on `{ep}`")));
    }
    let artefact = tree(job, "artefact")?;
    let inputs = tensors::read(&artefact.join("inputs.safetensors"))?;
    let (host, place) = Place::open(params)?;
    let mut session = place.builder(&host, params.threads)?.commit_from_file(model_file(artefact)?).map_err(plain)?;
    let feed = Feed::new(&session, &inputs)?;
    let outputs = infer(&mut session, &feed)?;
    let names: Vec<String> = session.outputs().iter().map(|output| output.name().to_owned()).collect();
    tensors::write(&job.out.join("reference.safetensors"), &collect(outputs, &names)?)?;
    // With these the tree is all that a run or a generated test asks of a model besides its weights.
    for name in ["inputs.safetensors", "manifest.json"] {
        bfs::copy_file(&artefact.join(name), &job.out.join(name))
            .map_err(|e| Failure::error(format!("failed to copy {name} of the model: {e}")))?;
    }

    let mut facts = place.facts(&host, params)?;
    facts.insert("reference".to_owned(), json!(format!("onnxruntime {} cpu", host.version)));
    facts.insert("inputs".to_owned(), json!(session.inputs().iter().map(|i| i.name()).collect::<Vec<_>>()));
    facts.insert("outputs".to_owned(), json!(names));
    Ok(JobOutput::ok(Value::Object(facts), None))
}

/// The model of an artefact tree: a compiled one before the ONNX that it may lie beside.
pub(super) fn model_file(artefact: &Path) -> anyhow::Result<PathBuf> {
    let manifest = Manifest::read(artefact).ok();
    let named = manifest.as_ref().and_then(|manifest| manifest.rest.get("model")).and_then(Value::as_str);
    let candidates = named.into_iter().chain(["model_ctx.onnx", "model.onnx"]);
    let found = candidates.map(|name| artefact.join(name)).find(|path| path.is_file());
    found.with_context(|| format!("neither model_ctx.onnx nor model.onnx is in `{}`", artefact.display()))
}

/// An error of a strict session, with the nodes that it is about where the provider left some.
fn explained(failure: Failure, host: &Host, place: &Place, model: &Path) -> Failure {
    if place.provider == CPU {
        return failure;
    }
    let examined = (|| {
        let bytes = std::fs::read(model)?;
        examine(host.builder(place.provider, &place.options)?, place.provider, &bytes)
    })();
    match examined {
        Ok(Verdict::Refused(reason)) => Failure::new(failure.status, format!("{reason} ({})", failure.reason)),
        Ok(Verdict::Broken(reason)) if !failure.reason.contains(&reason) => {
            Failure::new(failure.status, format!("{}: {reason}", failure.reason))
        }
        _ => failure,
    }
}

/// Every node ran where it was asked to, and there was one.
pub(super) fn assert_place(placement: &Placement, place: &Place) -> Result<(), Failure> {
    let elsewhere = placement.elsewhere(place.provider);
    let mut output = if let Some(node) = elsewhere.first() {
        Failure::error(format!(
            "{} of the model's nodes ran elsewhere than on {}: {} `{}` and others; placement {:?}",
            elsewhere.len(),
            place.provider,
            node.operator,
            node.name,
            placement.counts()
        ))
    } else if placement.counts().is_empty() && place.provider != CPU {
        Failure::error(format!("no node of the model ran on {}", place.provider))
    } else {
        return Ok(());
    };
    output.facts = json!({ "placement": placement.counts() });
    Err(output)
}
