//! Running a model of several: a session for each component, and the loop that calls them.

use std::collections::BTreeMap;

use ::ort::session::Session;
use anyhow::Context;
use serde_json::{Value, json};

use super::host::{CPU, Host, plain};
use super::infer::{Feed, collect, infer};
use super::place::Place;
use super::placement::Placement;
use super::run::{explained, model_file};
use super::{Failure, Params, half, optimised};
use crate::device::vram;
use crate::runtime::loops::{self, Component, Loop};
use crate::runtime::tensors::{self, Tensors};
use crate::runtime::{Job, JobOutput, cpu, measure};

/// Measures the whole loop, and writes its outputs.
pub(super) fn run(job: &Job, params: &Params, host: &Host, place: &Place, looped: &Loop) -> Result<JobOutput, Failure> {
    let artefact = job.artefact()?;
    let inputs = tensors::read(&artefact.join(tensors::INPUTS))?;
    let components = looped.components(artefact)?;
    let open = |component: &Component| -> anyhow::Result<Session> {
        let mut builder = place.builder(host, params.threads)?;
        let session = builder.commit_from_file(model_file(&component.tree)?).map_err(plain);
        session.with_context(|| format!("component `{}`", component.name))
    };
    let meter = place.lease.as_ref().map(|lease| vram::Meter::start(lease, params.measure.is_some()));
    let load =
        || components.iter().map(|component| Ok((component.name.as_str(), (component, open(component)?)))).collect();
    let ran = measure::run(params.measure.as_ref(), load, |sessions| once(looped, sessions, &inputs));
    let (mut sessions, outputs, timings) = match ran {
        Ok(ran) => ran,
        Err(error) => {
            let refused = components.iter().find(|component| open(component).is_err());
            let model = refused.map(|component| model_file(&component.tree)).transpose()?;
            let failure = Failure::from(error);
            return Err(match model {
                Some(model) => explained(failure, host, place, &model),
                None => failure,
            });
        }
    };
    let mut facts = place.facts(host, params)?;
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for (component, session) in sessions.values() {
        let model = model_file(&component.tree)?;
        let placement = Placement::of(session)?;
        place.assert(&placement, || optimised::nodes(host, params, |builder| builder.commit_from_file(&model)))?;
        placement.counts().into_iter().for_each(|(place, nodes)| *counts.entry(place).or_default() += nodes);
        let is_half = component.manifest.rest.get("precision").is_some_and(|precision| precision == "fp16");
        if place.provider == CPU
            && is_half
            && let Some(told) = half::cast_to_fp32(host, params, &model)?
        {
            facts.insert("cast_to_fp32".to_owned(), json!(format!("{}: {told}", component.name)));
        }
    }
    facts.insert("placement".to_owned(), json!(counts));
    facts.insert("components".to_owned(), json!(sessions.keys().collect::<Vec<_>>()));
    looped.write(job, artefact, outputs, |inputs| once(looped, &mut sessions, inputs))?;
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

type Sessions<'c> = BTreeMap<&'c str, (&'c Component, Session)>;

fn once(looped: &Loop, sessions: &mut Sessions<'_>, inputs: &Tensors) -> anyhow::Result<Tensors> {
    looped.run(inputs, |name, given| {
        let (component, session) = sessions.get_mut(name).context("BUG: every component was loaded")?;
        let feed = Feed::new(session, &loops::taken(component, given)?)?;
        collect(infer(session, &feed)?, &component.manifest.outputs)
    })
}
