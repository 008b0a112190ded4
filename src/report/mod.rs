//! Records to pages: pure functions of a [`ReportDoc`]; nothing here reads a clock, a file or the host.
//!
//! `stats` makes the figures, `view` arranges the cases as a matrix once, and each page has a file of its own. A result
//! of an emulator or of a software renderer is labelled everywhere and compared with nothing.

mod chart;
pub mod format;
pub mod html;
pub mod json;
pub mod junit;
pub mod markdown;
pub mod stats;
pub mod text;
pub(crate) mod view;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::record::{Numerics, Outcome};

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
    pub cases: u32,
    pub passed: u32,
    pub failed: u32,
    pub unavailable: u32,
    pub unsupported: u32,
    pub incomplete: u32,
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
    Settled,
    /// Only what lies below changed sources was looked up.
    Cone,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Summary {
    /// Counts the outcomes; steps and seconds are the caller's.
    pub fn of(cases: &[CaseResult], excluded: &[Excluded]) -> Self {
        let count = |hit: fn(Outcome) -> bool| cases.iter().filter(|case| hit(case.status)).count() as u32;
        Self {
            cases: cases.len() as u32,
            passed: count(|status| status == Outcome::Pass),
            failed: count(Outcome::is_failure),
            unavailable: count(|status| status == Outcome::SkipUnavailable),
            unsupported: count(|status| status == Outcome::SkipUnsupported),
            incomplete: count(|status| status == Outcome::Incomplete),
            excluded: excluded.len() as u32,
            ..Self::default()
        }
    }
}

/// One cell of the matrix.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CaseResult {
    pub model: String,
    pub family: String,
    pub task: String,
    pub pipeline: String,
    pub target: String,
    pub precision: String,
    /// Why orch chose this target, if it was asked to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
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
    /// When it was measured, RFC 3339 UTC.
    pub measured: Option<String>,
    pub metrics: Option<Metrics>,
    pub numerics: Option<Numerics>,
    pub placement: std::collections::BTreeMap<String, u64>,
    /// Exporter route and what else the record holds; the versions of `facts.versions` are shown as a table.
    pub facts: Value,
    pub repro: Option<String>,
    pub steps: Vec<String>,
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
    pub sync: String,
}

/// A case that the spec takes out, with its reason.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Excluded {
    pub model: String,
    pub target: String,
    pub precision: String,
    pub reason: String,
}
