//! Records to pages: pure functions of a [`ReportDoc`]; nothing here reads a clock, a file or the host.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::record::{Numerics, Outcome};

/// All that a report shows. Its JSON form is `orch run --json` and `matrix.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReportDoc {
    pub version: u32,
    pub spec: String,
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
    pub cases: u32,
    pub passed: u32,
    pub failed: u32,
    pub unavailable: u32,
    pub unsupported: u32,
    pub incomplete: u32,
    pub excluded: u32,
    pub seconds: f64,
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
    /// Versions, exporter route, …
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
    pub min_ms: f64,
    pub max_ms: f64,
    /// Only from 29, 59, 299 samples on.
    pub p90_ms: Option<f64>,
    pub p95_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    /// Interquartile range over median above 10 %.
    pub noisy: bool,
    pub samples: u32,
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
