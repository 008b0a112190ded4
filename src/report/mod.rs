//! Records to pages: pure functions of a [`ReportDoc`]; nothing here reads a clock, a file or the host.
//!
//! `stats` makes the figures, `view` arranges the cases, `sections/` make of them the shapes of `shape`, and the file of each
//! page (`text`, `markdown`, `html`) shows these shapes. JUnit and JSON have schemas of their own. A result of an emulator
//! or of a software renderer is labelled everywhere and compared with nothing.

mod cause;
mod chart;
mod details;
pub mod format;
mod head;
pub mod html;
pub mod json;
pub mod junit;
pub mod markdown;
mod names;
mod pages;
mod place;
mod sections;
mod shape;
pub mod stats;
pub mod text;
mod verdict;
pub(crate) mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use cause::alike;
pub use pages::{CODE, PAGES, shown, stable_backend};
pub use sections::ids as sections;

use crate::matrix::{Batch, HalfChoice};
use crate::record::{Attempt, Numerics, Outcome, Weights};

/// All that a report shows. Its JSON form is `orch run --json` and `matrix.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReportDoc {
    pub version: u32,
    pub spec: String,
    /// Which part of the spec this is, where it is not the whole: `partition hash:1/4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    pub orch: String,
    pub host: Host,
    pub summary: Summary,
    pub cases: Vec<CaseResult>,
    /// Steps of the user's own that passed only at a later attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flaky_steps: Vec<FlakyStep>,
    pub excluded: Vec<Excluded>,
    /// What the probers said, one per backend.
    pub backends: Vec<crate::device::Backend>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Host {
    pub name: String,
    pub os: String,
    pub cpu: String,
    pub cores: u32,
    pub memory_bytes: u64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Summary {
    pub steps: u32,
    pub executed: u32,
    pub hits: u32,
    /// Those of the hits that this run fetched from a remote store.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fetched: u32,
    /// Steps that failed in an earlier run, in a way that stands, and were not executed again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed_before: u32,
    /// Failed steps that no case reports.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed_steps: u32,
    pub cases: u32,
    pub passed: u32,
    /// Cases that another target ran in place of their own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fallbacks: u32,
    /// Cases that passed at a later attempt.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub flaky: u32,
    /// Cases that agree with the reference, as wrong ones would have; never counted as passed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub indecisive: u32,
    /// Cases that failed as the spec expects.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub xfailed: u32,
    /// Cases that passed although the spec expects otherwise; those of them that are to fail the run count as failed too.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub xpassed: u32,
    pub failed: u32,
    pub unavailable: u32,
    pub unsupported: u32,
    pub incomplete: u32,
    /// Cases of devices that the environment pretends to have.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub mocked: u32,
    pub excluded: u32,
    pub seconds: f64,
    /// How it was found out what is up to date.
    #[serde(default)]
    pub path: RunPath,
}

/// How a run came to know what is up to date; the answer is the same on every path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunPath {
    /// The specs were read, and every step was looked up.
    #[default]
    Full,
    /// Nothing changed since a run that left nothing to do.
    Memo,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Summary {
    /// Counts the outcomes; steps and seconds are the caller's.
    pub fn of(cases: &[CaseResult], excluded: &[Excluded]) -> Self {
        let count = |status: Outcome| cases.iter().filter(|case| case.status == status).count() as u32;
        Self {
            cases: cases.len() as u32,
            passed: count(Outcome::Pass),
            fallbacks: count(Outcome::PassFallback),
            flaky: count(Outcome::Flaky),
            indecisive: count(Outcome::Indecisive),
            xfailed: count(Outcome::Xfail),
            xpassed: count(Outcome::Xpass),
            failed: cases.iter().filter(|case| case.is_failure()).count() as u32,
            unavailable: count(Outcome::SkipUnavailable),
            unsupported: count(Outcome::SkipUnsupported),
            incomplete: count(Outcome::Incomplete),
            mocked: count(Outcome::Mock),
            excluded: excluded.len() as u32,
            ..Self::default()
        }
    }

    /// Whether anything ran, and nothing that ran is known to be wrong.
    pub fn is_well(&self) -> bool {
        self.passed + self.fallbacks + self.flaky + self.indecisive + self.xfailed + self.xpassed > 0
    }
}

impl CaseResult {
    /// A failure of the run.
    pub fn is_failure(&self) -> bool {
        let is_strict = self.expected.as_ref().is_none_or(|expected| expected.strict);
        self.status.is_failure() || (self.status == Outcome::Xpass && is_strict)
    }

    /// Whether what it was held to lets through what orch's own tolerance would not.
    pub fn is_judged_loosely(&self) -> bool {
        self.numerics.as_ref().is_some_and(|numerics| !numerics.looser.is_empty())
    }

    /// Why it computed in fp32, wholly or in part, though its model is in half precision: its runtime's word.
    pub fn cast_to_fp32(&self) -> Option<&str> {
        let runs = self.facts.iter().filter(|(step, _)| step.starts_with("run:"));
        runs.into_iter().find_map(|(_, facts)| facts["cast_to_fp32"].as_str())
    }

    /// How its int8 weights were made, where they keep to a reduced range: its converter's word.
    pub fn reduced_range(&self) -> Option<&str> {
        let mut made = self.facts.iter().filter(|(step, _)| step.starts_with("convert:"));
        made.find_map(|(_, facts)| if facts["range"] == "reduced" { facts["scheme"].as_str() } else { None })
    }

    /// What is to be said of a case that is no failure and no plain success, nor missing.
    pub fn note(&self) -> Option<String> {
        let reason = self.reason.as_deref().unwrap_or("no reason was recorded");
        let stage = self.stage.as_ref().map(|stage| format!(" at {stage}")).unwrap_or_default();
        match self.status {
            Outcome::PassFallback => {
                let tried = |tried: &Tried| {
                    let reason = tried.reason.as_deref().unwrap_or("no reason was recorded");
                    format!("{}: {}: {reason}", tried.name, tried.status.label())
                };
                let fallback = self.fallback.as_ref()?;
                let tried: Vec<_> = fallback.tried.iter().map(tried).collect();
                Some(format!("{}; {}", fallback.told(self.untimed), tried.join("; ")))
            }
            Outcome::Flaky => {
                let date = self.measured.as_deref().filter(|_| self.cached).map(format::day);
                let date = date.map(|day| format!(" (executed {day})")).unwrap_or_default();
                Some(format!("{reason}{stage}{date}"))
            }
            Outcome::Xfail => Some(format!("expected {}; it ended{stage}: {reason}", self.expected.as_ref()?.told())),
            Outcome::Xpass if !self.is_failure() => Some(reason.to_owned()),
            Outcome::Mock | Outcome::Indecisive => Some(reason.to_owned()),
            _ => None,
        }
    }
}

/// One cell of the matrix.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CaseResult {
    /// The case's id: `bert:cpu-fp32`, and `bert:cpu-fp32-b4-s128` where batch and seq are not the model's own.
    pub case: String,
    /// All sizes that the model names, with this case's values.
    pub dims: BTreeMap<String, u64>,
    pub model: String,
    pub family: String,
    pub task: String,
    pub pipeline: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<Weights>,
    /// How many the model has, where its maker tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<u64>,
    pub target: String,
    pub precision: String,
    /// Why orch chose this target, if it was asked to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// What its target's `half` came to on this machine, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half: Option<HalfChoice>,
    /// The target's backend: the prober of [`ReportDoc::backends`] that says whether the hardware is there.
    pub backend: String,
    /// `PASS`, `FAIL`, … ([`Outcome::label`])
    pub status: Outcome,
    /// The step at which it ended when it did not pass: `generate`, `convert`, `run`.
    pub stage: Option<String>,
    pub reason: Option<String>,
    pub requested_device: String,
    pub actual_device: Option<String>,
    /// Executed in this run, or a hit from an earlier one.
    pub cached: bool,
    /// When it ran, RFC 3339 UTC.
    pub measured: Option<String>,
    /// Whether it was checked only: it ran beside other steps, and no times were taken.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untimed: bool,
    /// When it failed, if that was in an earlier run and was not met again, RFC 3339 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_since: Option<String>,
    pub metrics: Option<Metrics>,
    pub numerics: Option<Numerics>,
    pub placement: BTreeMap<String, u64>,
    /// Exporter route and what else the record holds; the versions of `facts.versions` are shown as a table.
    pub facts: IndexMap<String, Arc<Value>>,
    pub repro: Option<String>,
    pub steps: Vec<String>,
    /// Seconds that each of them took when it was executed, in this run or in an earlier one.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub took: IndexMap<String, f64>,
    /// How the spec expects it to end, if it expects it not to pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Expected>,
    /// What ran in its place. The figures are those of that run, and so is the actual device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<FallbackResult>,
    /// Executions of its run that failed before the one whose result this is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
}

/// An expectation of the spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    pub status: Outcome,
    /// None: at any.
    pub stage: Option<String>,
    pub reason: String,
    /// `YYYY-MM-DD`
    pub since: Option<String>,
    /// Whether a success fails the run.
    pub strict: bool,
}

impl Expected {
    /// `FAIL@convert: no such operator (since 2026-01-31)`
    pub fn told(&self) -> String {
        let stage = self.stage.as_ref().map(|stage| format!("@{stage}")).unwrap_or_default();
        let since = self.since.as_ref().map(|since| format!(" (since {since})")).unwrap_or_default();
        format!("{}{stage}: {}{since}", self.status.label(), self.reason)
    }
}

/// Another target's run that answers for a case.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FallbackResult {
    /// `cpu-fp32`
    pub name: String,
    /// It is the case itself at a smaller batch size, because memory did not suffice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
    pub step: String,
    /// What was tried before it, the requested target first.
    pub tried: Vec<Tried>,
    /// Its median over that of the requested target; None where this machine knows no real figure of that target.
    pub slowdown: Option<f64>,
    /// When that figure was measured, RFC 3339 UTC.
    pub against: Option<String>,
}

/// A run that did not do it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Tried {
    /// `cuda-fp32`
    pub name: String,
    pub status: Outcome,
    pub reason: Option<String>,
}

impl FallbackResult {
    /// `on cpu-fp32, 3.1 times slower than cuda-fp32 on 2026-01-31`
    pub fn told(&self, untimed: bool) -> String {
        if let Some(Batch { asked, ran }) = self.batch {
            return format!("ran at batch size {ran}: for {asked} there was not enough memory");
        }
        let requested = self.tried.first().map(|tried| tried.name.as_str()).unwrap_or_default();
        let cost = match (self.slowdown, &self.against) {
            (Some(times), Some(date)) if times >= 1.0 => {
                format!("{times:.2} times slower than {requested} on {}", format::day(date))
            }
            (Some(times), Some(date)) => {
                format!("{:.2} times faster than {requested} on {}", 1.0 / times, format::day(date))
            }
            _ if untimed => "its cost is unknown: it was not timed".to_owned(),
            _ => format!("its cost is unknown: {requested} was never measured here"),
        };
        format!("ran on {}; {cost}", self.name)
    }
}

/// A step that passed after failures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FlakyStep {
    pub step: String,
    pub reason: Option<String>,
    /// RFC 3339, UTC.
    pub executed: Option<String>,
    pub cached: bool,
    pub attempts: Vec<Attempt>,
}

/// Statistics of one run's samples; milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    pub load_ms: f64,
    pub first_ms: f64,
    pub median_ms: f64,
    /// Confidence interval of the median at 95 %; None below 6 samples, where no such interval exists.
    #[serde(default)]
    pub ci_low_ms: Option<f64>,
    #[serde(default)]
    pub ci_high_ms: Option<f64>,
    pub min_ms: f64,
    pub max_ms: f64,
    /// Only from 29, 59, 299 samples on.
    pub p90_ms: Option<f64>,
    pub p95_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    /// Interquartile range over median above 10 %.
    pub noisy: bool,
    pub samples: u32,
    /// The samples themselves, in the order in which they were taken.
    #[serde(default)]
    pub samples_ms: Vec<f64>,
    pub warmup: u32,
    pub peak_rss_bytes: Option<u64>,
    /// Of a GPU's own memory, where its driver tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_device_bytes: Option<u64>,
    pub sync: String,
}

/// A case that the spec takes out, with its reason.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Excluded {
    /// The id that the case would have.
    pub case: String,
    pub dims: BTreeMap<String, u64>,
    pub model: String,
    pub target: String,
    pub precision: String,
    pub reason: String,
}
