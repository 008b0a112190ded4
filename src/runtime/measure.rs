//! The one timing loop of the runtimes that run inside orch: load, first inference, warm-up, samples, peak memory. A run
//! that is not to be timed loads and infers once, and no clock is read.
//!
//! It knows neither models nor devices: both come as closures, and the device's own waiting is the closures' duty.
//! Only raw figures leave this module; statistics are made elsewhere, in one place.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{RawMeasure, Times};
use crate::base::process::{high_water_mark, own_peak};

/// How much is measured; the `measure` of a job's params, which the spec has checked.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MeasureParams {
    pub warmup: u32,
    /// At least 1.
    pub samples: u32,
    /// Warm-up and samples each stop early after this many seconds; one sample is always taken.
    pub max_seconds: f64,
    /// Part of the spec's `measure`; it is the parent process that kills.
    #[serde(default)]
    pub timeout_seconds: Option<u64>,
}

/// Reads the `measure` of a job's params. `none`: the run is not to be timed.
pub fn asked<'de, D: Deserializer<'de>>(given: D) -> Result<Option<MeasureParams>, D::Error> {
    let value = Value::deserialize(given)?;
    if value == "none" { Ok(None) } else { serde_json::from_value(value).map(Some).map_err(D::Error::custom) }
}

/// What the loop took; [`Timings::into_raw`] adds what only the runtime knows.
#[derive(Debug, Clone, PartialEq)]
pub struct Timings {
    pub taken: Option<Taken>,
    pub peak_rss_bytes: Option<u64>,
}

/// Milliseconds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Taken {
    pub load_ms: f64,
    pub first_ms: f64,
    pub warmup_ms: Vec<f64>,
    pub samples_ms: Vec<f64>,
}

impl Taken {
    /// `sync` says how the device was waited for.
    pub fn into_times(self, sync: &str) -> Times {
        let Self { load_ms, first_ms, warmup_ms, samples_ms } = self;
        Times { load_ms, first_ms, warmup_ms, samples_ms, sync: sync.to_owned() }
    }
}

impl Timings {
    /// Placement may be filled in afterwards.
    pub fn into_raw(self, sync: &str, requested_device: &str, actual_device: &str) -> RawMeasure {
        RawMeasure {
            times: self.taken.map(|taken| taken.into_times(sync)),
            peak_rss_bytes: self.peak_rss_bytes,
            peak_device_bytes: None,
            requested_device: requested_device.to_owned(),
            actual_device: actual_device.to_owned(),
            placement: BTreeMap::new(),
        }
    }
}

/// Loads once, then infers: first, warm-up, samples; without `params` once, and nothing is timed. Returns what was loaded and the outputs of the *first* inference,
/// so that a runtime which corrupts its state while warming up is not hidden by its timings.
pub fn run<S, O>(
    params: Option<&MeasureParams>,
    load: impl FnOnce() -> anyhow::Result<S>,
    mut infer: impl FnMut(&mut S) -> anyhow::Result<O>,
) -> anyhow::Result<(S, O, Timings)> {
    let Some(params) = params else {
        let mut loaded = load()?;
        let outputs = infer(&mut loaded)?;
        return Ok((loaded, outputs, Timings { taken: None, peak_rss_bytes: peak_rss_bytes() }));
    };
    let clock = Instant::now();
    let mut loaded = load()?;
    let load_ms = millis(clock.elapsed());

    let clock = Instant::now();
    let outputs = infer(&mut loaded)?;
    let first_ms = millis(clock.elapsed());

    let mut repeat = |count: u32, at_least: u32| -> anyhow::Result<Vec<f64>> {
        let begin = Instant::now();
        let mut taken = Vec::with_capacity(count as usize);
        for index in 0..count {
            if index >= at_least && begin.elapsed().as_secs_f64() >= params.max_seconds {
                break;
            }
            let clock = Instant::now();
            let repeated = infer(&mut loaded)?;
            taken.push(millis(clock.elapsed()));
            // Freeing the outputs is the caller's work in every runtime, so it stays outside the clock.
            drop(repeated);
        }
        Ok(taken)
    };
    let warmup_ms = repeat(params.warmup, 0)?;
    let samples_ms = repeat(params.samples, 1)?;
    let taken = Some(Taken { load_ms, first_ms, warmup_ms, samples_ms });
    Ok((loaded, outputs, Timings { taken, peak_rss_bytes: peak_rss_bytes() }))
}

/// A duration as the milliseconds that records hold.
pub fn millis(elapsed: Duration) -> f64 {
    elapsed.as_secs_f64() * 1e3
}

/// Peak resident set of this process, bytes.
///
/// Linux's `ru_maxrss` starts at the parent's size when the process was forked and executed, so the kernel's own
/// high-water mark of this address space is preferred where it exists.
pub fn peak_rss_bytes() -> Option<u64> {
    high_water_mark(std::process::id() as i32).or_else(own_peak)
}

#[cfg(test)]
mod tests {
    use anyhow::ensure;

    use super::*;

    const NAP: Duration = Duration::from_millis(5);

    #[test]
    fn it_loads_once_and_infers_first_warmup_and_samples() {
        let params = MeasureParams { warmup: 2, samples: 3, max_seconds: 60.0, timeout_seconds: None };
        let load = || {
            std::thread::sleep(NAP);
            Ok(0u32)
        };
        let infer = |count: &mut u32| {
            *count += 1;
            std::thread::sleep(NAP);
            Ok(*count)
        };
        let (count, first, timings) = run(Some(&params), load, infer).unwrap();
        assert_eq!((count, first), (6, 1));
        let timings = timings.taken.unwrap();
        assert_eq!((timings.warmup_ms.len(), timings.samples_ms.len()), (2, 3));
        assert!(timings.load_ms >= 5.0 && timings.first_ms >= 5.0);
        assert!(timings.samples_ms.iter().all(|sample| *sample >= 5.0));
    }

    #[test]
    fn time_runs_out_after_one_sample_and_no_warmup_beyond_the_first() {
        let params = MeasureParams { warmup: 50, samples: 50, max_seconds: 1e-9, timeout_seconds: None };
        let infer = |(): &mut ()| {
            std::thread::sleep(NAP);
            Ok(())
        };
        let (_, (), timings) = run(Some(&params), || Ok(()), infer).unwrap();
        let timings = timings.taken.unwrap();
        assert_eq!((timings.warmup_ms.len(), timings.samples_ms.len()), (0, 1));
    }

    #[test]
    fn a_failure_while_sampling_is_the_run_s_failure() {
        let params = MeasureParams { warmup: 0, samples: 3, max_seconds: 1.0, timeout_seconds: None };
        let infer = |count: &mut u32| {
            *count += 1;
            ensure!(*count < 3, "device lost");
            Ok(())
        };
        assert_eq!(run(Some(&params), || Ok(0), infer).unwrap_err().to_string(), "device lost");
    }

    #[test]
    fn without_a_clock_it_infers_once() {
        let infer = |count: &mut u32| {
            *count += 1;
            Ok(*count)
        };
        let (count, first, timings) = run(None, || Ok(0), infer).unwrap();
        assert_eq!((count, first, &timings.taken), (1, 1, &None));
        let raw = serde_json::to_value(timings.into_raw("call", "cpu", "cpu")).unwrap();
        let told: Vec<_> = raw.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(told, ["peak_rss_bytes", "requested_device", "actual_device", "placement"]);
        assert!(serde_json::from_value::<RawMeasure>(raw).unwrap().times.is_none());
    }

    #[test]
    fn params_are_strict() {
        let read = |text: &str| asked(&mut serde_json::Deserializer::from_str(text));
        assert_eq!(read(r#"{"warmup": 1, "samples": 2, "max_seconds": 3.0}"#).unwrap().unwrap().samples, 2);
        assert_eq!(read(r#""none""#).unwrap(), None);
        assert!(read(r#""never""#).is_err() && read("{}").is_err() && read("null").is_err());
    }

    #[test]
    fn the_peak_follows_what_the_process_holds() {
        assert_eq!(high_water_mark(std::process::id() as i32).is_some(), cfg!(target_os = "linux"));
        assert!(peak_rss_bytes().is_some_and(|peak| peak > 100_000));
        assert!(own_peak().is_some_and(|peak| peak > 100_000));
    }
}
