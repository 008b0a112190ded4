//! Running a model of several: a session for each component, and the loop that calls them.

use std::collections::BTreeMap;

use ::ort::session::Session;
use anyhow::Result;
use serde_json::{Value, json};

use super::half;
use super::host::CPU;
use super::place::Bench;
use super::run::{again, explained, model_file};
use crate::device::vram;
use crate::runtime::loops::{Component, Loop};
use crate::runtime::manifest::Manifest;
use crate::runtime::tensors::{self, Tensors};
use crate::runtime::{Job, JobOutput, cpu};

/// Measures the whole loop, and writes its outputs.
pub(super) fn run(job: &Job, bench: &Bench<'_>, looped: &Loop) -> Result<JobOutput> {
    let (place, measured) = (&bench.place, bench.params.measure);
    let artefact = job.artefact()?;
    let inputs = tensors::read(&artefact.join(tensors::INPUTS))?;
    let components = looped.components(artefact)?;
    let open = |component: &Component| bench.session(&model_file(&component.tree)?);
    let infer =
        |session: &mut Session, manifest: &Manifest, inputs: &Tensors| again(session, &manifest.outputs, inputs);
    let meter = place.lease.as_ref().map(|lease| vram::Meter::start(lease, measured.is_some()));
    let ran = looped.measure(&components, &inputs, measured.as_ref(), open, infer);
    let (mut sessions, outputs, timings) = ran.map_err(|error| {
        let refused = components.iter().find(|component| open(component).is_err());
        match refused.map(|component| model_file(&component.tree)) {
            Some(Ok(model)) => explained(error, bench, &model),
            Some(Err(error)) => error,
            None => error,
        }
    })?;
    let mut facts = bench.facts()?;
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for (component, session) in sessions.values() {
        let model = model_file(&component.tree)?;
        bench
            .placement(session, &model)?
            .counts()
            .into_iter()
            .for_each(|(place, nodes)| *counts.entry(place).or_default() += nodes);
        let is_half = component.manifest.rest.get("precision").is_some_and(|precision| precision == "fp16");
        if place.provider == CPU
            && is_half
            && let Some(told) = half::cast_to_fp32(bench, &model)?
        {
            facts.insert("cast_to_fp32".to_owned(), json!(format!("{}: {told}", component.name)));
        }
    }
    facts.insert("placement".to_owned(), json!(counts));
    facts.insert("components".to_owned(), json!(sessions.keys().collect::<Vec<_>>()));
    looped.write(job, artefact, outputs, |inputs| looped.run_loaded(&mut sessions, inputs, infer))?;
    let mut raw = timings.into_raw(place.sync(), &place.requested, &place.actual);
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
