//! Raw samples to figures: the one place where statistics are made.
//!
//! A figure is made of rounds, each a process of its own: what varies is the process, the minute and the machine, and an
//! interval over the samples of one process says nothing of that. So there is none. What a user may expect is the median of
//! the rounds' medians, with the lowest and the highest of them; what is compared is [`statistic`].
//!
//! Quantiles interpolate between order statistics as numpy does by default. A tail quantile is given only from the
//! number of samples on at which a sample lies beyond it with 95 % probability (0.9²⁹, 0.95⁵⁹, 0.99²⁹⁹ ≈ 0.05): below that
//! it would be the maximum under another name.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::decoding::DecodingFigures;
use super::{CaseResult, Metrics, Round};
use crate::base::words::words;
use crate::device::Conditions;
use crate::device::conditions::DeviceState;
use crate::runtime::{RawMeasure, Times, UseOfCpu};

/// An interquartile range above this share of the median makes samples noisy.
pub(super) const NOISY: f64 = 0.1;
/// The longest sample that escapes pre-emption often enough for the least wall time to be what the model takes, ms.
pub const SHORT_MS: f64 = 2.0;

words! {
    /// What of a round is compared.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Basis {
        /// The least wall time of its samples.
        "least wall time" => LeastWall,
        /// The 10th percentile of the inferring thread's CPU time.
        "10th percentile of CPU time" => CpuP10,
    }
}

impl Basis {
    fn of(self, round: &Round) -> Option<f64> {
        match self {
            Self::LeastWall => Some(round.min_ms),
            Self::CpuP10 => round.cpu_p10_ms,
        }
    }
}

/// What is compared with other runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Statistic {
    pub ms: f64,
    pub basis: Basis,
}

/// The figure of these rounds that is compared with that of others: the lowest over the rounds, on the [`basis`] that fits
/// them. None without rounds.
///
/// It hides tails, so it does not predict a user's latency. Two sides are compared on one basis: see [`statistic_on`].
pub fn statistic(rounds: &[Round]) -> Option<Statistic> {
    statistic_on(rounds, basis(rounds))
}

/// [`statistic`] on the basis of the rounds that these are compared with. None if a round does not have it.
pub fn statistic_on(rounds: &[Round], basis: Basis) -> Option<Statistic> {
    let of_rounds: Option<Vec<f64>> = rounds.iter().map(|round| basis.of(round)).collect();
    let ms = of_rounds?.into_iter().min_by(f64::total_cmp)?;
    Some(Statistic { ms, basis })
}

/// Wall time for samples below [`SHORT_MS`], CPU time for longer ones, which no quiet moment is long enough for. The CPU
/// time of one thread says nothing where others compute too, or a device: there it is wall time again.
pub fn basis(rounds: &[Round]) -> Basis {
    let is_short = rounds.iter().any(|round| round.min_ms < SHORT_MS);
    if is_short || !rounds.iter().all(is_alone) {
        Basis::LeastWall
    } else {
        Basis::CpuP10
    }
}

/// Whether the inferring thread did all of the work: the others of its process took no more than 5 % of its CPU time, and it
/// waited less than once in two samples. Libraries have threads that only stand by, so their number does not tell.
fn is_alone(round: &Round) -> bool {
    let is_alone = |used: UseOfCpu| {
        used.others_ms <= 0.05 * used.own_ms
            && used.voluntary_switches <= u64::from(round.samples) / 2
    };
    round.cpu_p10_ms.is_some() && round.use_of_cpu.is_some_and(is_alone)
}

/// What a round's process reported.
#[derive(Clone, Copy)]
pub struct MeasuredRound<'a> {
    /// Counted from 1.
    pub round: u32,
    /// RFC 3339, UTC.
    pub started: &'a str,
    pub raw: &'a RawMeasure,
}

/// Statistics of a case's rounds, of which `batch` items go into an inference. A round that was not timed, has no samples or
/// one that is not a finite number is no measurement; None where no round is one.
pub fn metrics(rounds: &[MeasuredRound<'_>], batch: Option<u64>) -> Option<Metrics> {
    let timed: Vec<(MeasuredRound<'_>, &Times)> = rounds
        .iter()
        .filter_map(|ran| Some((*ran, usable(ran.raw)?)))
        .collect();
    let (_, first) = timed.first()?;
    let of_rounds: Vec<Round> = timed
        .iter()
        .map(|(ran, times)| round(*ran, times))
        .collect();
    let samples_ms: Vec<f64> = timed
        .iter()
        .flat_map(|(_, times)| times.samples_ms.iter().copied())
        .collect();
    Some(Metrics {
        peak_rss_bytes: timed
            .iter()
            .filter_map(|(ran, _)| ran.raw.peak_rss_bytes)
            .max(),
        peak_device_bytes: timed
            .iter()
            .filter_map(|(ran, _)| ran.raw.peak_device_bytes)
            .max(),
        sync: first.sync.clone(),
        decoding: DecodingFigures::of(timed.iter().map(|(_, times)| *times)),
        ..figures(of_rounds, samples_ms, batch)
    })
}

/// All figures that rounds, at least one, and their samples determine.
pub(super) fn figures(rounds: Vec<Round>, samples_ms: Vec<f64>, batch: Option<u64>) -> Metrics {
    let all = sorted(samples_ms.iter().copied());
    let over_rounds = |of: fn(&Round) -> f64| sorted(rounds.iter().map(of));
    let medians = over_rounds(|round| round.median_ms);
    let median_ms = quantile(&medians, 0.5);
    let spread = quantile(&all, 0.75) - quantile(&all, 0.25);
    let tail = |least: usize, q: f64| (all.len() >= least).then(|| quantile(&all, q));
    let several = medians.len() > 1;
    let mut metrics = Metrics {
        load_ms: quantile(&over_rounds(|round| round.load_ms), 0.5),
        first_ms: quantile(&over_rounds(|round| round.first_ms), 0.5),
        median_ms,
        median_low_ms: several.then(|| medians[0]),
        median_high_ms: several.then(|| medians[medians.len() - 1]),
        statistic: statistic(&rounds),
        per_second: (median_ms > 0.0).then(|| batch.unwrap_or(1) as f64 * 1e3 / median_ms),
        min_ms: all[0],
        max_ms: all[all.len() - 1],
        p90_ms: tail(29, 0.9),
        p95_ms: tail(59, 0.95),
        p99_ms: tail(299, 0.99),
        noisy: spread > NOISY * median_ms,
        not_quiet: Vec::new(),
        samples: all.len() as u32,
        samples_ms,
        warmup: rounds[0].warmup,
        peak_rss_bytes: None,
        peak_device_bytes: None,
        sync: String::new(),
        decoding: None,
        remarks: remarks(&rounds),
        rounds,
    };
    metrics.not_quiet = metrics.doubts();
    metrics
}

/// The median of one run alone.
pub fn median(raw: &RawMeasure) -> Option<f64> {
    usable(raw).and_then(|times| median_of(times.samples_ms.iter().copied()))
}

/// Holds the yardsticks of all cases of one machine beside each other: a round whose yardstick was slow from its beginning to its end
/// is known by the rounds of other cases only.
pub fn beside_each_other(cases: &mut [CaseResult]) {
    let conditions = cases
        .iter()
        .filter_map(|case| case.metrics.as_ref())
        .flat_map(|metrics| &metrics.rounds);
    let mut least: BTreeMap<u32, f64> = BTreeMap::new();
    for conditions in conditions.filter_map(|round| round.conditions.as_ref()) {
        let Some(threads) = conditions.yardstick_threads else {
            continue;
        };
        let own = conditions
            .yardstick_ms
            .into_iter()
            .chain(conditions.yardstick_least_ms);
        let known = least.entry(threads).or_insert(f64::INFINITY);
        *known = own.fold(*known, f64::min);
    }
    for metrics in cases.iter_mut().filter_map(|case| case.metrics.as_mut()) {
        for conditions in metrics
            .rounds
            .iter_mut()
            .filter_map(|round| round.conditions.as_mut())
        {
            let of_threads = conditions
                .yardstick_threads
                .and_then(|threads| least.get(&threads));
            conditions.yardstick_least_ms = of_threads.copied().or(conditions.yardstick_least_ms);
        }
        metrics.remarks = remarks(&metrics.rounds);
        metrics.not_quiet = metrics.doubts();
    }
}

/// Why the median of one run alone may not be read as it stands; None of a quiet one, and of a run without times.
pub fn why_not_quiet(raw: &RawMeasure) -> Option<String> {
    metrics(
        &[MeasuredRound {
            round: 1,
            started: "",
            raw,
        }],
        None,
    )?
    .why_not_quiet()
}

/// None of nothing.
pub fn median_of(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let sorted = sorted(values);
    (!sorted.is_empty()).then(|| quantile(&sorted, 0.5))
}

fn usable(raw: &RawMeasure) -> Option<&Times> {
    let times = raw.times.as_ref()?;
    let finite = |values: &[f64]| values.iter().all(|value| value.is_finite());
    let is_usable = !times.samples_ms.is_empty()
        && finite(&times.samples_ms)
        && finite(&[times.load_ms, times.first_ms]);
    is_usable.then_some(times)
}

fn round(
    MeasuredRound {
        round,
        started,
        raw,
    }: MeasuredRound<'_>,
    times: &Times,
) -> Round {
    let [wall, cpu] =
        [&times.samples_ms, &times.cpu_ms].map(|samples| sorted(samples.iter().copied()));
    Round {
        round,
        measured: started.to_owned(),
        load_ms: times.load_ms,
        first_ms: times.first_ms,
        warmup: times.warmup_ms.len() as u32,
        samples: wall.len() as u32,
        min_ms: wall[0],
        median_ms: quantile(&wall, 0.5),
        moments_ms: moments(times),
        cpu_p10_ms: (!cpu.is_empty()).then(|| quantile(&cpu, 0.1)),
        threads: raw.threads,
        use_of_cpu: times.use_of_cpu,
        order: raw.order,
        conditions: raw.conditions.clone(),
        device: raw.device.clone(),
    }
}

/// The median of the samples of each moment; empty where there was one.
fn moments(times: &Times) -> Vec<f64> {
    let is_whole = times.moments.iter().sum::<u32>() as usize == times.samples_ms.len();
    if times.moments.len() < 2 || !is_whole {
        return Vec::new();
    }
    let mut rest = times.samples_ms.as_slice();
    let mut medians = Vec::new();
    for count in &times.moments {
        let (own, others) = rest.split_at(*count as usize);
        medians.extend(median_of(own.iter().copied()));
        rest = others;
    }
    medians
}

/// What disturbed the rounds: the worst that each condition came to, and how many of several it was that were disturbed.
fn remarks(rounds: &[Round]) -> Vec<String> {
    let known: Vec<&Conditions> = rounds
        .iter()
        .filter_map(|round| round.conditions.as_ref())
        .collect();
    let of_host = |round: &Round| {
        round
            .conditions
            .as_ref()
            .map(Conditions::remarks)
            .unwrap_or_default()
    };
    let of_device = |round: &Round| {
        round
            .device
            .as_ref()
            .map(DeviceState::remarks)
            .unwrap_or_default()
    };
    let is_disturbed = |round: &&Round| !of_host(round).is_empty() || !of_device(round).is_empty();
    let disturbed = rounds.iter().filter(is_disturbed).count();
    let mut remarks = Conditions::worst(&known)
        .map(|worst| worst.remarks())
        .unwrap_or_default();
    remarks.extend(rounds.iter().flat_map(of_device).collect::<BTreeSet<_>>());
    if rounds.len() > 1 && disturbed > 0 {
        remarks.push(format!(
            "{disturbed} of {} rounds were disturbed",
            rounds.len()
        ));
    }
    remarks
}

pub(super) fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// The geometric mean of positive figures, at least one.
pub(super) fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// Quantile `q` of a sorted, non-empty slice, by linear interpolation (Hyndman and Fan's type 7).
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = q * (sorted.len() - 1) as f64;
    let below = sorted[at.floor() as usize];
    let above = sorted[at.ceil() as usize];
    below + (above - below) * at.fract()
}

/// More samples than a picture has pixels are drawn as the extremes of groups.
const POINTS: usize = 160;

/// The least and the greatest of each group, at most `POINTS` values, so that no outlier is lost.
pub(super) fn thinned(samples: &[f64]) -> Vec<f64> {
    if samples.len() <= POINTS {
        return samples.to_vec();
    }
    let group = samples.len().div_ceil(POINTS / 2);
    let least = |group: &[f64]| group.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |group: &[f64]| group.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    samples
        .chunks(group)
        .flat_map(|group| [least(group), most(group)])
        .collect()
}

#[cfg(test)]
#[path = "stats_tests.rs"]
mod tests;
