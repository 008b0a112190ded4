//! `profile`: the time of each operator by OpenVINO's own counters.

use std::time::Instant;

use anyhow::{Context as _, Result};
use serde_json::json;

use super::{Core, Params, Session, Target, load_library, options};
use crate::runtime::manifest::Manifest;
use crate::runtime::profile::{self, Counted, WARMUP};
use crate::runtime::{Job, JobOutput, tensors};

/// The device whose counters are means over all inferences since it compiled the model, in whole microseconds. Others count the last one.
const AVERAGED: &str = "CPU";
const COUNTERS: (&str, &str) = ("PERF_COUNT", "YES");

pub(super) fn profile(job: &Job, _: &dyn Fn(&str)) -> Result<JobOutput> {
    let params: Params = job.params()?;
    let tree = job.artefact()?;
    profile::refuse_loop(tree)?;
    let version = load_library(&params.library)?;
    let core = Core::new().context("OpenVINO does not start")?;
    let mut properties = options::properties(
        &params.options,
        params.inference_precision.names().0,
        params.threads,
    )?;
    properties.push((COUNTERS.0.to_owned(), COUNTERS.1.to_owned()));
    let manifest = Manifest::read(tree)?;
    let inputs = tensors::read(&tree.join(tensors::INPUTS))?;
    let target = Target {
        core: &core,
        params: &params,
        properties: &properties,
    };
    let mut session = target.load(tree, &manifest, &inputs)?;
    let count = params.measure.map_or(1, |measure| measure.samples);
    let is_averaged = session.devices == [AVERAGED];
    let mut counted = Counted::default();
    for _ in 0..WARMUP {
        session.runner.request.infer()?;
    }
    if is_averaged {
        add(&mut counted, &session, -f64::from(WARMUP))?;
    }
    let mut wall_ms = 0.0;
    for done in 1..=count {
        let clock = Instant::now();
        session.runner.request.infer()?;
        wall_ms += clock.elapsed().as_secs_f64() * 1e3;
        match is_averaged {
            true if done == count => add(&mut counted, &session, f64::from(WARMUP + count))?,
            true => {}
            false => add(&mut counted, &session, 1.0)?,
        }
    }
    counted
        .over(count, wall_ms, format!("OpenVINO {version}'s counters"))
        .write(&job.out)?;
    Ok(JobOutput::ok(json!({"devices": session.devices}), None))
}

/// Adds what is counted now, so many times.
fn add(counted: &mut Counted, session: &Session, times: f64) -> Result<()> {
    let device = session.devices.join(" ");
    for operator in session.runner.request.counters()? {
        let place = format!("{device} {}", operator.kernel);
        counted.add(
            &operator.name,
            &operator.kind,
            place.trim_end(),
            (operator.ms * times, times),
        );
    }
    Ok(())
}
