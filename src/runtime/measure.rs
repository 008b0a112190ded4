//! The one timing loop of the runtimes that run inside orch: load, first inference, warm-up, samples, peak memory. A run
//! that is not to be timed loads and infers once, and no clock is read.
//!
//! It knows neither models nor devices: both come as closures, and the device's own waiting is the closures' duty.
//! Only raw figures leave this module; statistics are made elsewhere, in one place.

use std::time::{Duration, Instant};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{Decoding, RawMeasure, Times, UseOfCpu};
use crate::base::process::{self, Switches, high_water_mark, own_peak, own_threads, thread_cpu};

/// How much is measured; the `measure` of a job's params, which the spec has checked.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MeasureParams {
    pub warmup: u32,
    /// The number of samples, at least 1.
    pub samples: u32,
    /// Warm-up and samples each stop early after this many seconds; one sample is always taken.
    pub max_seconds: f64,
    /// Part of the spec's `measure`; it is the parent process that kills.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
}

/// The `measure` of a job's parameters as serde writes and reads it: `none` if the run is not to be timed.
pub mod wanted {
    pub use super::deserialize_measure as deserialize;
    use super::{MeasureParams, Serialize};

    pub fn serialize<S: serde::Serializer>(
        measure: &Option<MeasureParams>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match measure {
            Some(measure) => measure.serialize(to),
            None => "none".serialize(to),
        }
    }
}

/// Reads the `measure` of a job's params. `none`: the run is not to be timed.
pub fn deserialize_measure<'de, D: Deserializer<'de>>(
    given: D,
) -> Result<Option<MeasureParams>, D::Error> {
    let value = Value::deserialize(given)?;
    if value == "none" {
        Ok(None)
    } else {
        serde_json::from_value(value)
            .map(Some)
            .map_err(D::Error::custom)
    }
}

/// Warming up goes on for so long even if fewer inferences were requested: a CPU needs some time to reach its frequency.
const WARM: Duration = Duration::from_millis(50);
/// It ends with so many inferences of which none was faster by more than [`FASTER`] than all before.
const STABLE: u32 = 3;
const FASTER: f64 = 0.02;
/// A round samples for so long, or until it has so many samples, even if fewer were requested: in less, one slice of another
/// process may hold them all.
const SAMPLED: Duration = Duration::from_millis(40);
const ENOUGH: u32 = 250;
/// The moments at which is measured: what is slow at one may be fast at another, and one alone does not show it.
const MOMENTS: u32 = 3;
/// The rest between two of them, so that the process's threads are placed anew.
const REST: Duration = Duration::from_millis(40);
/// and then infers for so long, at least once, before the next sample is taken.
const REWARM: Duration = Duration::from_millis(5);
/// Moments as long as this are far enough from each other.
const LONG: Duration = Duration::from_millis(300);

/// What only the runtime knows of what the loop took.
impl RawMeasure {
    /// Adds the times of a text that was decoded afterwards.
    pub fn and_decoding(mut self, decoding: Option<Decoding>) -> Self {
        if let Some(times) = &mut self.times {
            times.decoding = decoding;
        }
        self
    }

    /// `sync` says how the device was waited for. Placement may be filled in afterwards.
    pub fn on(mut self, sync: &str, requested_device: &str, actual_device: &str) -> Self {
        if let Some(times) = &mut self.times {
            times.sync = sync.to_owned();
        }
        Self {
            requested_device: requested_device.to_owned(),
            actual_device: actual_device.to_owned(),
            ..self
        }
    }
}

/// Loads once, then infers: first, warm-up until times are stable, samples; without `params` once, and nothing is timed. Returns what was loaded and the outputs of the *first* inference,
/// so that a runtime which corrupts its state while warming up is not hidden by its timings.
pub fn run<S, O>(
    params: Option<&MeasureParams>,
    load: impl FnOnce() -> anyhow::Result<S>,
    mut infer: impl FnMut(&mut S) -> anyhow::Result<O>,
) -> anyhow::Result<(S, O, RawMeasure)> {
    let Some(params) = params else {
        let mut loaded = load()?;
        let outputs = infer(&mut loaded)?;
        return Ok((
            loaded,
            outputs,
            RawMeasure {
                peak_rss_bytes: peak_rss_bytes(),
                ..RawMeasure::default()
            },
        ));
    };
    let threads = own_threads();
    let clock = Instant::now();
    let mut loaded = load()?;
    let load_ms = millis(clock.elapsed());

    let clock = Instant::now();
    let outputs = infer(&mut loaded)?;
    let first_ms = millis(clock.elapsed());

    let mut once = || infer(&mut loaded);
    let warmup_ms = warm_up(params, &mut || Ok(timed(&mut once)?.0))?;
    let before = Meter::now();
    let Sampled {
        wall: samples_ms,
        cpu: cpu_ms,
        moments,
    } = sample(params, &mut once)?;
    let use_of_cpu = before
        .zip(Meter::now())
        .map(|(before, after)| after.since(&before));
    // The calling one, and those that loading and inferring started.
    let threads = threads
        .zip(own_threads())
        .map(|(before, after)| 1 + after.saturating_sub(before));
    let taken = Times {
        load_ms,
        first_ms,
        warmup_ms,
        samples_ms,
        moments,
        cpu_ms,
        use_of_cpu,
        ..Times::default()
    };
    let raw = RawMeasure {
        times: Some(taken),
        peak_rss_bytes: peak_rss_bytes(),
        threads,
        ..RawMeasure::default()
    };
    Ok((loaded, outputs, raw))
}

/// Infers until times are stable. Who asks for no warm-up gets none.
fn warm_up(
    params: &MeasureParams,
    sample: &mut impl FnMut() -> anyhow::Result<f64>,
) -> anyhow::Result<Vec<f64>> {
    let begin = Instant::now();
    let mut spent_ms = 0.0;
    let mut taken = Vec::new();
    let mut least = f64::INFINITY;
    let mut stable = 0;
    let is_warm = |count: usize, stable: u32, spent_ms: f64| {
        count >= params.warmup as usize
            && (params.warmup == 0 || (stable >= STABLE && spent_ms >= millis(WARM)))
    };
    while !is_warm(taken.len(), stable, spent_ms)
        && begin.elapsed().as_secs_f64() < params.max_seconds
    {
        let ms = sample()?;
        spent_ms += ms;
        stable = if ms < least * (1.0 - FASTER) {
            0
        } else {
            stable + 1
        };
        least = least.min(ms);
        taken.push(ms);
    }
    Ok(taken)
}

/// Wall time and CPU time of each sample, ms.
#[derive(Default)]
struct Sampled {
    wall: Vec<f64>,
    cpu: Vec<f64>,
    /// How many were taken at each moment.
    moments: Vec<u32>,
}

/// Takes a share of the samples at each moment.
fn sample<O>(
    params: &MeasureParams,
    infer: &mut impl FnMut() -> anyhow::Result<O>,
) -> anyhow::Result<Sampled> {
    let most = Duration::try_from_secs_f64(params.max_seconds).unwrap_or(Duration::MAX);
    let mut taken = Sampled::default();
    let mut spent = Duration::ZERO;
    for moment in 1..=MOMENTS {
        let before = taken.wall.len();
        let share =
            |all: u32| (u64::from(all) * u64::from(moment)).div_ceil(MOMENTS.into()) as usize;
        let begin = Instant::now();
        let is_wanted = |count: usize| {
            count < share(params.samples)
                || (count < share(ENOUGH) && begin.elapsed() < SAMPLED / MOMENTS)
        };
        let is_in_time = || spent + begin.elapsed() < most / MOMENTS * moment;
        while taken.wall.is_empty() || (is_wanted(taken.wall.len()) && is_in_time()) {
            let (ms, cpu_ms) = timed(infer)?;
            taken.wall.push(ms);
            taken.cpu.extend(cpu_ms);
        }
        taken
            .moments
            .extend(Some((taken.wall.len() - before) as u32).filter(|count| *count > 0));
        spent += begin.elapsed();
        if moment < MOMENTS && begin.elapsed() < LONG && spent < most {
            rest(infer)?;
        }
    }
    // Of some samples only it would not say of which.
    let is_whole = taken.cpu.len() == taken.wall.len();
    taken
        .cpu
        .truncate(if is_whole { taken.wall.len() } else { 0 });
    Ok(taken)
}

/// Lets another moment come, and gets warm again.
fn rest<O>(infer: &mut impl FnMut() -> anyhow::Result<O>) -> anyhow::Result<()> {
    std::thread::sleep(REST);
    let begin = Instant::now();
    loop {
        infer()?;
        if begin.elapsed() >= REWARM {
            return Ok(());
        }
    }
}

/// Wall time, and CPU time of this thread, ms. The CPU's clock is read outside of the wall's, because it is the slower one.
fn timed<O>(infer: &mut impl FnMut() -> anyhow::Result<O>) -> anyhow::Result<(f64, Option<f64>)> {
    let cpu = thread_cpu();
    let clock = Instant::now();
    let outputs = infer()?;
    let wall = clock.elapsed();
    let cpu = cpu
        .zip(thread_cpu())
        .map(|(before, after)| millis(after.saturating_sub(before)));
    // Freeing the outputs is the caller's work in every runtime, so it stays outside the clock.
    drop(outputs);
    Ok((millis(wall), cpu))
}

/// What this thread and this process have used so far.
struct Meter {
    switches: Switches,
    thread: Duration,
    process: Duration,
}

impl Meter {
    fn now() -> Option<Self> {
        Some(Self {
            switches: process::switches()?,
            thread: thread_cpu()?,
            process: process::process_cpu()?,
        })
    }

    fn since(&self, before: &Self) -> UseOfCpu {
        let own = self.thread.saturating_sub(before.thread);
        UseOfCpu {
            involuntary_switches: self.switches.involuntary - before.switches.involuntary,
            voluntary_switches: self.switches.voluntary - before.switches.voluntary,
            own_ms: millis(own),
            others_ms: millis(
                self.process
                    .saturating_sub(before.process)
                    .saturating_sub(own),
            ),
        }
    }
}

/// A duration as the milliseconds that records hold: whole nanoseconds, so that no digit is written that no clock gave.
pub fn millis(elapsed: Duration) -> f64 {
    elapsed.as_nanos() as f64 / 1e6
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
        let params = MeasureParams {
            warmup: 2,
            samples: 3,
            max_seconds: 60.0,
            timeout_seconds: None,
        };
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
        let threads = timings.threads;
        let timings = timings.times.unwrap();
        let warmup = timings.warmup_ms.len();
        let samples = timings.samples_ms.len();
        assert_eq!(first, 1);
        assert!(
            count as usize > 1 + warmup + samples,
            "it gets warm again between moments"
        );
        assert_eq!(timings.moments.len(), MOMENTS as usize);
        assert_eq!(timings.moments.iter().sum::<u32>() as usize, samples);
        assert!(
            warmup > 2 && millis(WARM) <= timings.warmup_ms.iter().sum::<f64>() + 1.0,
            "it warms up for some time"
        );
        assert!(samples >= 3, "{samples}");
        assert_eq!(timings.cpu_ms.len(), samples);
        assert!(
            timings
                .cpu_ms
                .iter()
                .zip(&timings.samples_ms)
                .all(|(cpu, wall)| cpu < wall),
            "it slept"
        );
        assert_eq!(
            (threads.is_some(), timings.use_of_cpu.is_some()),
            (cfg!(target_os = "linux"), cfg!(target_os = "linux"))
        );
        assert!(
            timings
                .use_of_cpu
                .is_none_or(|used| used.voluntary_switches >= samples as u64),
            "it slept"
        );
        assert!(timings.load_ms >= 5.0 && timings.first_ms >= 5.0);
        assert!(timings.samples_ms.iter().all(|sample| *sample >= 5.0));
    }

    #[test]
    fn time_runs_out_after_one_sample_and_no_warmup_beyond_the_first() {
        let params = MeasureParams {
            warmup: 50,
            samples: 50,
            max_seconds: 1e-9,
            timeout_seconds: None,
        };
        let infer = |(): &mut ()| {
            std::thread::sleep(NAP);
            Ok(())
        };
        let (_, (), timings) = run(Some(&params), || Ok(()), infer).unwrap();
        let timings = timings.times.unwrap();
        assert_eq!((timings.warmup_ms.len(), timings.samples_ms.len()), (0, 1));
    }

    #[test]
    fn without_a_warm_up_none_is_made_and_short_samples_are_many() {
        let params = MeasureParams {
            warmup: 0,
            samples: 3,
            max_seconds: 60.0,
            timeout_seconds: None,
        };
        let taken = || {
            let (_, (), timings) = run(Some(&params), || Ok(()), |(): &mut ()| Ok(())).unwrap();
            let timings = timings.times.unwrap();
            assert_eq!(timings.warmup_ms.len(), 0);
            timings.samples_ms.len()
        };
        // On a busy machine another process may hold the processor for a whole moment.
        let most = (0..20)
            .map(|_| taken())
            .find(|count| *count >= ENOUGH as usize);
        assert_eq!(most, Some(ENOUGH as usize));
    }

    #[test]
    fn warming_up_ends_when_times_are_stable() {
        let params = MeasureParams {
            warmup: 1,
            samples: 1,
            max_seconds: 60.0,
            timeout_seconds: None,
        };
        // Ever faster, and then no more.
        let times_ms = [200.0, 120.0, 80.0, 50.0, 30.0, 30.0, 30.0, 30.0, 30.0, 30.0];
        let mut left_ms = times_ms.into_iter();
        let mut sample = || Ok(left_ms.next().expect("it goes on for ever"));
        let taken = warm_up(&params, &mut sample).unwrap();
        assert_eq!(taken, times_ms[..5 + STABLE as usize]);
    }

    #[test]
    fn a_failure_while_sampling_is_the_run_s_failure() {
        let params = MeasureParams {
            warmup: 0,
            samples: 3,
            max_seconds: 1.0,
            timeout_seconds: None,
        };
        let infer = |count: &mut u32| {
            *count += 1;
            ensure!(*count < 3, "device lost");
            Ok(())
        };
        assert_eq!(
            run(Some(&params), || Ok(0), infer).unwrap_err().to_string(),
            "device lost"
        );
    }

    #[test]
    fn without_a_clock_it_infers_once() {
        let infer = |count: &mut u32| {
            *count += 1;
            Ok(*count)
        };
        let (count, first, timings) = run(None, || Ok(0), infer).unwrap();
        assert_eq!((count, first, &timings.times), (1, 1, &None));
        let raw = serde_json::to_value(timings.on("call", "cpu", "cpu")).unwrap();
        let fields: Vec<_> = raw
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(
            fields,
            [
                "peak_rss_bytes",
                "requested_device",
                "actual_device",
                "placement"
            ]
        );
        assert!(
            serde_json::from_value::<RawMeasure>(raw)
                .unwrap()
                .times
                .is_none()
        );
    }

    #[test]
    fn params_are_strict() {
        let read = |text: &str| deserialize_measure(&mut serde_json::Deserializer::from_str(text));
        assert_eq!(
            read(r#"{"warmup": 1, "samples": 2, "max_seconds": 3.0}"#)
                .unwrap()
                .unwrap()
                .samples,
            2
        );
        assert_eq!(read(r#""none""#).unwrap(), None);
        assert!(read(r#""never""#).is_err() && read("{}").is_err() && read("null").is_err());
    }

    #[test]
    fn the_peak_follows_what_the_process_holds() {
        assert_eq!(
            high_water_mark(std::process::id() as i32).is_some(),
            cfg!(target_os = "linux")
        );
        assert!(peak_rss_bytes().is_some_and(|peak| peak > 100_000));
        assert!(own_peak().is_some_and(|peak| peak > 100_000));
    }
}
