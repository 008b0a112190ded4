//! Running a model: measured on the device that was asked for, or once on the CPU to make a reference.

use std::path::{Path, PathBuf};

use ::ort::session::Session;
use anyhow::Context;
use serde_json::{Value, json};

use super::decoder::Cached;
use super::host::{CPU, Host, QNN, plain};
use super::infer::{Feed, collect, infer};
use super::place::Place;
use super::placement::Placement;
use super::refusal::{Verdict, examine};
use super::{Failure, Params, gpu, half, looped, optimised};
use crate::device::vram;
use crate::runtime::control::{self, Witness};
use crate::runtime::generation;
use crate::runtime::loops::Loop;
use crate::runtime::manifest::Manifest;
use crate::runtime::measure;
use crate::runtime::refusal::without_f16;
use crate::runtime::tensors::{self, Infer, Tensors};
use crate::runtime::{Job, JobOutput, JobStatus, cpu};

/// `run`: measures the artefact and writes `outputs.safetensors`.
pub(super) fn run(job: &Job, params: &Params) -> Result<JobOutput, Failure> {
    let (host, place) = Place::open(params)?;
    run_at(job, params, &host, &place)
}

/// As [`run`], with the libraries already loaded: a process can load them only once.
pub(super) fn run_at(job: &Job, params: &Params, host: &Host, place: &Place) -> Result<JobOutput, Failure> {
    let measured = params.measure;
    let artefact = job.artefact()?;
    if let Some(looped) = Loop::read(artefact)? {
        return looped::run(job, params, host, place, &looped);
    }
    let manifest = Manifest::read(artefact)?;
    let inputs = tensors::read(&artefact.join("inputs.safetensors"))?;
    let model = model_file(artefact)?;

    let mut facts = place.facts(host, params)?;
    let meter = place.lease.as_ref().map(|lease| vram::Meter::start(lease, measured.is_some()));
    let load = || {
        let mut builder = place.builder(host, params.threads)?;
        let session = builder.commit_from_file(&model).map_err(plain)?;
        let feed = Feed::new(&session, &inputs)?;
        Ok(Loaded { session, feed })
    };
    let ran = measure::run(measured.as_ref(), load, |loaded| infer(&mut loaded.session, &loaded.feed));
    let (mut loaded, outputs, timings) = match ran {
        Ok(ran) => ran,
        Err(error) => return Err(explained(error.into(), host, place, &model)),
    };

    let device = meter.as_ref().filter(|_| measured.is_some()).and_then(vram::Meter::state);
    let placement = Placement::of(&loaded.session)?;
    place.assert(&placement, || optimised::nodes(host, params, |builder| builder.commit_from_file(&model)))?;
    facts.insert("placement".to_owned(), json!(placement.counts()));
    tensors::write(&job.out.join("outputs.safetensors"), &collect(outputs, &manifest.outputs)?)?;
    let mut again = |inputs: &Tensors| {
        let feed = Feed::new(&loaded.session, inputs)?;
        collect(infer(&mut loaded.session, &feed)?, &manifest.outputs)
    };
    tensors::run_control(artefact, &job.out, &mut again)?;
    let held = meter.and_then(|meter| meter.held());
    // After the memory was looked at: the decoder is another model.
    let open = |of| Cached::open(of, host, place, params);
    let decoding = generation::run_with_cache(job, artefact, measured.as_ref(), open, &mut again)?;
    let mut raw = timings.and_decoding(decoding).into_raw(place.sync(), &place.requested, &place.actual);
    raw.placement = placement.counts();
    raw.device = device;
    if place.provider == CPU {
        cpu::note(&mut facts);
        if manifest.rest.get("precision").is_some_and(|precision| precision == "fp16") {
            let told = half::cast_to_fp32(host, params, &model)?;
            facts.extend(told.map(|told| ("cast_to_fp32".to_owned(), json!(told))));
        }
    }
    if let Some(held) = held {
        raw.peak_device_bytes = Some(held.bytes);
        facts.insert("device_memory".to_owned(), json!(held));
    }
    Ok(JobOutput::ok(Value::Object(facts), Some(raw)))
}

struct Loaded {
    session: Session,
    feed: Feed,
}

const BY: Witness = Witness { name: "onnxruntime cpu", is_tested: false };

/// `reference`: what the model gives on its inputs and on the control's, once each, on the CPU.
pub(super) fn reference(job: &Job, params: &Params) -> Result<JobOutput, Failure> {
    if let Some(ep) = params.ep.as_deref().filter(|ep| *ep != "cpu") {
        return Err(Failure::error(format!("a reference is computed on the CPU, not on `{ep}`")));
    }
    let artefact = job.artefact()?;
    let (host, place) = Place::open(params)?;
    let start = |manifest: &Manifest| {
        let mut builder = place.builder(&host, params.threads)?;
        let mut session = builder.commit_from_file(model_file(artefact)?).map_err(plain)?;
        let outputs = manifest.outputs.clone();
        let again = move |inputs: &Tensors| {
            let feed = Feed::new(&session, inputs)?;
            collect(infer(&mut session, &feed)?, &outputs)
        };
        Ok(Box::new(again) as Box<Infer<'_>>)
    };
    let found = control::reference(artefact, &job.out, &BY, start)?;
    let mut facts = place.facts(&host, params)?;
    facts.extend(found);
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
pub(super) fn explained(failure: Failure, host: &Host, place: &Place, model: &Path) -> Failure {
    if place.provider == CPU {
        return failure;
    }
    if let Some(reason) = without_f16(&failure.reason) {
        return Failure::new(JobStatus::Unsupported, reason);
    }
    if gpu::is_absence(&failure.reason) {
        // ONNX Runtime puts a source location before its message.
        let said = failure.reason.rsplit(" : FAIL : ").next().unwrap_or_default().trim();
        return Failure::unavailable(format!("{} does not start: {said}", place.provider));
    }
    let examined = || examine(place.lenient(host)?, place.provider, &std::fs::read(model)?);
    match examined() {
        // A context binary was accepted as a whole when it was compiled; other models meet the provider here first.
        Ok(Verdict::Refused(reason)) if place.provider != QNN => Failure::new(JobStatus::Unsupported, reason),
        Ok(Verdict::Refused(reason)) => Failure::new(failure.status, format!("{reason} ({})", failure.reason)),
        Ok(Verdict::Broken(reason)) if !failure.reason.contains(&reason) => {
            Failure::new(failure.status, format!("{}: {reason}", failure.reason))
        }
        _ => failure,
    }
}
