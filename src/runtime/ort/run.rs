//! Running a model: measured on the device that was requested, or once on the CPU to make a reference.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ::ort::session::Session;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::decoder::Cached;
use super::host::{CPU, QNN};
use super::infer::{Feed, collect, infer};
use super::place::Bench;
use super::refusal::{Verdict, examine};
use super::{Params, casts, declared, gpu};
use crate::device::vram;
use crate::runtime::control::{self, Witness};
use crate::runtime::generation;
use crate::runtime::loops::{Component, Loop};
use crate::runtime::manifest::Manifest;
use crate::runtime::measure;
use crate::runtime::refusal::{Refusal, without_f16};
use crate::runtime::tensors::{self, Infer, Tensors};
use crate::runtime::{Job, JobOutput, JobStatus, cpu};

/// `run`: measures the artefact and writes `outputs.safetensors`.
pub(super) fn run(job: &Job, params: &Params) -> Result<JobOutput> {
    run_at(job, &Bench::open(params)?)
}

/// [`run`] with the libraries already loaded.
pub(super) fn run_at(job: &Job, bench: &Bench<'_>) -> Result<JobOutput> {
    let place = &bench.place;
    let measured = bench.params.measure;
    let artefact = job.artefact()?;
    if let Some(looped) = Loop::read(artefact)? {
        return run_loop(job, bench, &looped);
    }
    let manifest = Manifest::read(artefact)?;
    let inputs = tensors::read(&artefact.join(tensors::INPUTS))?;
    let model = model_file(artefact)?;

    let mut facts = bench.facts()?;
    let meter = place
        .lease
        .as_ref()
        .map(|lease| vram::Meter::start(lease, measured.is_some()));
    let load = || {
        let session = bench.session(&model)?;
        let feed = Feed::new(&session, &inputs)?;
        Ok((session, feed))
    };
    let ((mut session, _), outputs, timings) =
        measure::run(measured.as_ref(), load, |(session, feed)| {
            infer(session, feed)
        })
        .map_err(|error| explained(error, bench, &model))?;

    let device = meter
        .as_ref()
        .filter(|_| measured.is_some())
        .and_then(vram::Meter::state);
    let placement = bench.placement(&session, &model)?;
    facts.insert("placement".to_owned(), json!(placement.counts()));
    tensors::write(
        &job.out.join(tensors::OUTPUTS),
        &collect(outputs, &manifest.outputs)?,
    )?;
    let mut again = |inputs: &Tensors| again(&mut session, &manifest.outputs, inputs);
    tensors::run_control(artefact, &job.out, &mut again)?;
    let held = meter.and_then(|meter| meter.held());
    // After the memory was looked at: the decoder is another model.
    let open = |of| Cached::open(of, bench);
    let decoding = generation::run_with_cache(job, artefact, measured.as_ref(), open, &mut again)?;
    let mut raw = timings
        .and_decoding(decoding)
        .on(place.sync(), &place.requested, &place.actual);
    raw.placement = placement.counts();
    raw.device = device;
    if place.provider == CPU {
        cpu::note(&mut facts);
        if manifest
            .rest
            .get("precision")
            .is_some_and(|precision| precision == "fp16")
        {
            let note = casts::cast_to_fp32(bench, &model)?;
            facts.extend(note.map(|note| ("cast_to_fp32".to_owned(), json!(note))));
        }
    }
    if let Some(held) = held {
        raw.peak_device_bytes = Some(held.bytes);
        facts.insert("device_memory".to_owned(), json!(held));
    }
    Ok(JobOutput::ok(Value::Object(facts), Some(raw)))
}

/// The same of a model of several: a session for each component, and the loop that calls them.
fn run_loop(job: &Job, bench: &Bench<'_>, looped: &Loop) -> Result<JobOutput> {
    let place = &bench.place;
    let measured = bench.params.measure;
    let artefact = job.artefact()?;
    let inputs = tensors::read(&artefact.join(tensors::INPUTS))?;
    let components = looped.components(artefact)?;
    let open = |component: &Component| bench.session(&model_file(&component.tree)?);
    let infer = |session: &mut Session, manifest: &Manifest, inputs: &Tensors| {
        again(session, &manifest.outputs, inputs)
    };
    let meter = place
        .lease
        .as_ref()
        .map(|lease| vram::Meter::start(lease, measured.is_some()));
    let ran = looped.measure(&components, &inputs, measured.as_ref(), open, infer);
    let (mut sessions, outputs, timings) = ran.map_err(|error| {
        let refused = components.iter().find(|component| open(component).is_err());
        match refused.map(|component| model_file(&component.tree)) {
            Some(Ok(model)) => explained(error, bench, &model),
            Some(Err(missing)) => missing,
            None => error,
        }
    })?;
    let mut facts = bench.facts()?;
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for (component, session) in sessions.values() {
        let model = model_file(&component.tree)?;
        for (place, nodes) in bench.placement(session, &model)?.counts() {
            *counts.entry(place).or_default() += nodes;
        }
        let is_half = component
            .manifest
            .rest
            .get("precision")
            .is_some_and(|precision| precision == "fp16");
        if place.provider == CPU
            && is_half
            && let Some(note) = casts::cast_to_fp32(bench, &model)?
        {
            facts.insert(
                "cast_to_fp32".to_owned(),
                json!(format!("{}: {note}", component.name)),
            );
        }
    }
    facts.insert("placement".to_owned(), json!(counts));
    facts.insert(
        "components".to_owned(),
        json!(sessions.keys().collect::<Vec<_>>()),
    );
    looped.write(job, artefact, outputs, |inputs| {
        looped.run_loaded(&mut sessions, inputs, infer)
    })?;
    let mut raw = timings.on(place.sync(), &place.requested, &place.actual);
    raw.placement = counts;
    if place.provider == CPU {
        cpu::note(&mut facts);
    }
    if let Some(held) = meter.and_then(|meter| meter.held()) {
        raw.peak_device_bytes = Some(held.bytes);
        facts.insert("device_memory".to_owned(), json!(held));
    }
    Ok(JobOutput::ok(Value::Object(facts), Some(raw)))
}

/// An inference on inputs besides those that are measured.
fn again(session: &mut Session, outputs: &[String], inputs: &Tensors) -> Result<Tensors> {
    let feed = Feed::new(session, inputs)?;
    collect(infer(session, &feed)?, outputs)
}

const BY: Witness = Witness {
    name: "onnxruntime cpu",
    is_tested: false,
};

/// `reference`: what the model gives on its inputs and on the control's, once each, on the CPU.
pub(super) fn reference(job: &Job, params: &Params) -> Result<JobOutput> {
    if let Some(ep) = params.ep.as_deref().filter(|ep| *ep != "cpu") {
        bail!("a reference is computed on the CPU, not on `{ep}`");
    }
    let artefact = job.artefact()?;
    let bench = Bench::open(params)?;
    let start = |manifest: &Manifest| {
        let mut session = bench.as_written(&model_file(artefact)?)?;
        let outputs = manifest.outputs.clone();
        Ok(
            Box::new(move |inputs: &Tensors| again(&mut session, &outputs, inputs))
                as Box<Infer<'_>>,
        )
    };
    let declared = declared::declared(&model_file(artefact)?)?;
    let found = control::reference(artefact, &job.out, &BY, &declared, start)?;
    let mut facts = bench.facts()?;
    facts.insert("graph_optimisation".to_owned(), json!("none"));
    facts.extend(found);
    Ok(JobOutput::ok(Value::Object(facts), None))
}

/// The model of an artefact tree: a compiled one before the ONNX that it may lie beside.
pub(super) fn model_file(artefact: &Path) -> Result<PathBuf> {
    let manifest = Manifest::read(artefact).ok();
    let named = manifest
        .as_ref()
        .and_then(|manifest| manifest.rest.get("model"))
        .and_then(Value::as_str);
    let candidates = named.into_iter().chain(["model_ctx.onnx", "model.onnx"]);
    let found = candidates
        .map(|name| artefact.join(name))
        .find(|path| path.is_file());
    found.with_context(|| {
        format!(
            "neither model_ctx.onnx nor model.onnx is in `{}`",
            artefact.display()
        )
    })
}

/// An error of a strict session, with the nodes that it is about where the provider left some.
fn explained(error: anyhow::Error, bench: &Bench<'_>, model: &Path) -> anyhow::Error {
    let provider = bench.place.provider;
    if provider == CPU {
        return error;
    }
    let status = Refusal::status_of(&error);
    let message = format!("{error:#}");
    if let Some(reason) = without_f16(&message) {
        return Refusal::because(JobStatus::Unsupported, reason);
    }
    if gpu::is_absence(&message) {
        // ONNX Runtime puts a source location before its message.
        let message = message
            .rsplit(" : FAIL : ")
            .next()
            .unwrap_or_default()
            .trim();
        return Refusal::unavailable(format!("{provider} does not start: {message}"));
    }
    let examined = || examine(bench.lenient()?, provider, &std::fs::read(model)?);
    match examined() {
        // A context binary was accepted as a whole when it was compiled; other models meet the provider here first.
        Ok(Verdict::Refused(why)) if provider != QNN => {
            Refusal::because(JobStatus::Unsupported, why)
        }
        Ok(Verdict::Refused(why)) => Refusal::because(status, format!("{why} ({message})")),
        Ok(Verdict::Broken(why)) if !message.contains(&why) => {
            Refusal::because(status, format!("{message}: {why}"))
        }
        _ => error,
    }
}
