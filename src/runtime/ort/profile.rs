//! `profile`: the time of each node by ONNX Runtime's own profiler.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::json;

use super::Params;
use super::host::plain;
use super::infer::{Feed, infer};
use super::place::Bench;
use super::run::model_file;
use crate::runtime::profile::{self, Counted, Profile, WARMUP};
use crate::runtime::{Job, JobOutput, tensors};

/// An event of the profiler's trace, in Chrome's format.
#[derive(Deserialize)]
struct Event {
    cat: String,
    name: String,
    /// Microseconds since the profiler began, and how long it took.
    ts: u64,
    dur: u64,
    #[serde(default)]
    args: Args,
}

#[derive(Default, Deserialize)]
struct Args {
    #[serde(default)]
    op_name: String,
    #[serde(default)]
    provider: String,
}

/// The profiler's name of one call, and the end of the name of a node's own work.
const CALL: &str = "model_run";
const WORK: &str = "_kernel_time";

pub(super) fn profile(job: &Job, params: &Params) -> Result<JobOutput> {
    let bench = Bench::open(params)?;
    let artefact = job.artefact()?;
    profile::refuse_loop(artefact)?;
    let inputs = tensors::read(&artefact.join(tensors::INPUTS))?;
    let model = model_file(artefact)?;
    let builder = bench.place.builder(&bench.host, params.threads)?;
    let mut builder = builder
        .with_profiling(job.out.join("trace"))
        .map_err(plain)?;
    let mut session = builder.commit_from_file(&model).map_err(plain)?;
    let placement = bench.placement(&session, &model)?;
    let feed = Feed::new(&session, &inputs)?;
    for _ in 0..WARMUP {
        infer(&mut session, &feed)?;
    }
    let count = params.measure.map_or(1, |measure| measure.samples);
    let clock = Instant::now();
    for _ in 0..count {
        infer(&mut session, &feed)?;
    }
    let wall_ms = clock.elapsed().as_secs_f64() * 1e3;
    let trace = session.end_profiling().map_err(plain)?;
    let trace = std::fs::read(&trace)
        .with_context(|| format!("failed to read the profiler's `{trace}`"))?;
    let events: Vec<Event> =
        serde_json::from_slice(&trace).context("the profiler's trace cannot be read")?;
    of_events(
        &events,
        count,
        wall_ms,
        format!("ONNX Runtime {}'s profiler", bench.host.version),
    )?
    .write(&job.out)?;
    Ok(JobOutput::ok(
        json!({"placement": placement.counts()}),
        None,
    ))
}

/// The profile of the last `count` calls.
fn of_events(events: &[Event], count: u32, wall_ms: f64, by: String) -> Result<Profile> {
    let mut calls: Vec<u64> = events
        .iter()
        .filter(|event| event.name == CALL)
        .map(|event| event.ts)
        .collect();
    calls.sort_unstable();
    let begin = *calls
        .iter()
        .rev()
        .nth(count as usize - 1)
        .context("the profiler saw fewer calls than were made")?;
    let mut taken: BTreeMap<_, Vec<f64>> = BTreeMap::new();
    for event in events
        .iter()
        .filter(|event| event.cat == "Node" && event.ts >= begin)
    {
        if let Some(name) = event.name.strip_suffix(WORK) {
            let key = (name, &*event.args.op_name, &*event.args.provider);
            taken.entry(key).or_default().push(event.dur as f64 / 1e3);
        }
    }
    let mut counted = Counted::default();
    for ((name, kind, provider), mut each) in taken {
        each.sort_by(f64::total_cmp);
        // The median: a call during which another process had the core says nothing of the operator.
        let calls = each.len() as f64;
        counted.add(name, kind, provider, (each[each.len() / 2] * calls, calls));
    }
    Ok(counted.over(count, wall_ms, by))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_and_fences_are_not_counted() {
        let node = |name: &str, ts: u64, dur: u64| json!({"cat": "Node", "name": name, "ts": ts, "dur": dur, "args": {"op_name": "MatMul", "provider": "CPUExecutionProvider"}});
        let call = |ts: u64| json!({"cat": "Session", "name": "model_run", "ts": ts, "dur": 10});
        let all = json!([
            call(0),
            node("a_kernel_time", 1, 900),
            call(20),
            node("a_fence_before", 21, 5),
            node("a_kernel_time", 22, 4),
            call(40),
            node("a_kernel_time", 41, 6)
        ]);
        let events: Vec<Event> = serde_json::from_value(all).unwrap();
        let profile = of_events(&events, 2, 0.1, "test".into()).unwrap();
        assert_eq!(profile.operators.len(), 1);
        assert_eq!(
            (&*profile.operators[0].name, profile.operators[0].ms),
            ("a", 0.006)
        );
        assert!(of_events(&events, 4, 0.1, "test".into()).is_err());
    }
}
