//! Records to pages: pure functions of a [`ReportDoc`]; nothing here reads a clock, a file or the host.
//!
//! `stats` makes the figures, `view` arranges the cases, `sections/` make of them the shapes of `shape`, and the file of each
//! page (`text`, `markdown`, `html`) shows these shapes. JUnit and JSON have schemas of their own. A result of an emulator
//! or of a software renderer is labelled everywhere and compared with nothing.

mod answer;
pub mod badge;
mod cause;
mod trend;
mod decoding;
pub mod compare;
pub mod contribution;
mod details;
mod expected;
mod fallback;
pub mod format;
mod head;
mod machine;
pub mod github;
pub mod html;
pub mod json;
pub mod junit;
pub mod markdown;
pub mod merge;
mod names;
mod packed;
mod pages;
mod place;
mod quiet;
mod sections;
mod shape;
pub mod site;
pub mod stats;
mod summary;
pub mod text;
mod verdict;
pub(crate) mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use answer::{ChangedCases, Since};
pub(crate) use cause::alike;
pub use decoding::DecodingFigures;
pub use expected::Expected;
pub use fallback::{FallbackResult, Tried};
pub use head::{Model, model as model_description, weights_remarks};
pub use machine::Machine;
pub use pages::{CODE, PAGES, shown, stable_backend};
pub use quiet::Doubt;
pub use sections::ids as sections;
pub use stats::{Basis, Statistic};
pub use summary::{Git, RunOrigin, RunPath, Summary};
pub use trend::{Executed, Trends};
pub(crate) use view::Kinds;

use crate::device::Conditions;
use crate::device::conditions::DeviceState;
use crate::matrix::HalfChoice;
use crate::record::{Attempt, Cpu, Numerics, Outcome, Weights};
use crate::runtime::{Order, UseOfCpu};

/// All that a report shows. Its JSON form is `orch run --json` and `matrix.json`.
#[derive(Debug, Clone, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ReportDoc {
    pub version: u32,
    pub spec: String,
    /// The part of the spec that this is, where it is not the whole: `partition hash:1/4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    pub orch: String,
    pub host: Host,
    /// All of them, where the report was merged of those of several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<Host>,
    pub summary: Summary,
    /// The run that it is of; None of what a store holds, whoever made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunOrigin>,
    /// What changed since earlier runs: the last one of the same, and the newest of those that are a week old.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub since: Vec<Since>,
    pub cases: Vec<CaseResult>,
    /// Steps of the user's own that passed only at a later attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flaky_steps: Vec<FlakyStep>,
    pub excluded: Vec<Excluded>,
    /// The probers' answers, one per backend.
    pub backends: Vec<crate::device::Backend>,
}

#[derive(Debug, Clone, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Host {
    pub name: String,
    pub os: String,
    pub cpu: String,
    /// What tells the CPU from others of that name: the maker's numbers, caches, a digest of its flags.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cpu_identity: String,
    pub cores: u32,
    pub memory_bytes: u64,
}

impl ReportDoc {
    /// The machines that it covers.
    pub fn hosts(&self) -> &[Host] {
        if self.machines.is_empty() {
            std::slice::from_ref(&self.host)
        } else {
            &self.machines
        }
    }
}

impl CaseResult {
    /// A failure of the run.
    pub fn is_failure(&self) -> bool {
        let is_strict = self
            .expected
            .as_ref()
            .is_none_or(|expected| expected.strict);
        self.status.is_failure() || (self.status == Outcome::Xpass && is_strict)
    }

    /// Whether what it was held to lets through what orch's own tolerance would not.
    pub fn is_judged_loosely(&self) -> bool {
        self.numerics
            .as_ref()
            .is_some_and(|numerics| !numerics.looser.is_empty())
    }

    /// What its steps of a kind reported about themselves.
    fn facts_of(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.facts
            .iter()
            .filter(move |(step, _)| step.starts_with(kind))
            .map(|(_, facts)| &**facts)
    }

    /// The peak of the process that ran it, bytes.
    fn peak_rss(&self) -> Option<u64> {
        self.metrics.as_ref()?.peak_rss_bytes
    }

    /// Why it computed in fp32, wholly or in part, though its model is in half precision: its runtime's word.
    pub fn cast_to_fp32(&self) -> Option<&str> {
        self.facts_of("run:")
            .find_map(|facts| facts["cast_to_fp32"].as_str())
    }

    /// Whether inputs, or rows of them, change none of its outputs.
    pub fn has_idle_inputs(&self) -> bool {
        let control = self
            .numerics
            .as_ref()
            .and_then(|numerics| numerics.control.as_ref());
        control.is_some_and(|control| !control.idle.is_empty() || !control.idle_rows.is_empty())
    }

    /// The functions of orch's that stood in for a library's own while its model was exported, each with how often.
    pub fn export_stand_ins(&self) -> Option<String> {
        let helped = self
            .facts_of("convert:")
            .find_map(|facts| facts["stand_ins"].as_object())?;
        let counted: Vec<_> = helped
            .iter()
            .map(|(name, times)| format!("{name} {times}×"))
            .collect();
        (!counted.is_empty()).then(|| counted.join(", "))
    }

    /// The exporter that exported its model, with the opset, where the first one that was tried failed.
    pub fn other_export_route(&self) -> Option<String> {
        let facts = self
            .facts_of("convert:")
            .find(|facts| facts["route"].is_string() && facts["attempts"].is_array())?;
        let route = facts["route"].as_str()?;
        let first = &facts["attempts"][0];
        let tried = first["route"].as_str().filter(|tried| *tried != route)?;
        let why = first["error"].as_str()?;
        let opset = facts["opset"]
            .as_u64()
            .map(|opset| format!(" at opset {opset}"))
            .unwrap_or_default();
        Some(format!("{route}{opset}, since {tried} failed: {why}"))
    }

    /// How orch rewrote its model's graph, or why it left the graph as the exporter wrote it; None where neither is known.
    pub fn graph_rewrites(&self) -> Option<String> {
        let mut found = Vec::new();
        for facts in self.facts_of("convert:") {
            if let [Some(before), Some(after)] = [0, 1].map(|at| facts["folded"][at].as_u64()) {
                found.push(format!("constants folded ({before} → {after} nodes)"));
            }
            if let Some(why) = facts["not_rewritten"].as_str() {
                found.push(format!("left as exported: {why}"));
            }
            let rules = facts["lowering"].as_object().into_iter().flatten();
            found.extend(rules.map(|(name, times)| format!("{name} {times}×")));
        }
        (!found.is_empty()).then(|| found.join(", "))
    }

    /// How its int8 weights were made, where they keep to a reduced range: its converter's word.
    pub fn reduced_range(&self) -> Option<&str> {
        self.facts_of("convert:")
            .find(|facts| facts["range"] == "reduced" && facts["scheme"].is_string())?["scheme"]
            .as_str()
    }

    /// How its model was quantised, where its converter counted how much of it was: that, and the converter's word.
    pub fn quantised(&self) -> Option<String> {
        self.facts_of("convert:").find_map(|facts| {
            let weights = facts["weights"].as_object();
            let products = facts["products"].as_u64();
            let counted = match (weights?.get("int4"), products) {
                (Some(int4), _) => {
                    let whole: u64 = weights?.values().filter_map(Value::as_u64).sum();
                    format!("{int4} of {whole} weights")
                }
                (None, Some(products)) => {
                    format!("{} of {products} products", facts["quantised_products"])
                }
                (None, None) => return None,
            };
            Some(format!("{counted}: {}", facts["scheme"].as_str()?))
        })
    }

    /// The remark on a case that neither failed, nor plainly passed, nor is missing.
    pub fn note(&self) -> Option<String> {
        let reason = self.reason.as_deref().unwrap_or("no reason was recorded");
        let stage = self
            .stage
            .as_ref()
            .map(|stage| format!(" at {stage}"))
            .unwrap_or_default();
        match self.status {
            Outcome::PassFallback => {
                let tried = |tried: &Tried| {
                    let reason = tried.reason.as_deref().unwrap_or("no reason was recorded");
                    format!("{}: {}: {reason}", tried.name, tried.status.label())
                };
                let fallback = self.fallback.as_ref()?;
                let tried: Vec<_> = fallback.tried.iter().map(tried).collect();
                Some(format!(
                    "{}; {}",
                    fallback.summary(self.untimed),
                    tried.join("; ")
                ))
            }
            Outcome::Flaky => {
                let date = self
                    .measured
                    .as_deref()
                    .filter(|_| self.cached)
                    .map(format::day);
                let date = date
                    .map(|day| format!(" (executed {day})"))
                    .unwrap_or_default();
                Some(format!("{reason}{stage}{date}"))
            }
            Outcome::Xfail => Some(format!(
                "expected {}; it ended{stage}: {reason}",
                self.expected.as_ref()?.summary()
            )),
            Outcome::Xpass if !self.is_failure() => Some(reason.to_owned()),
            Outcome::Mock | Outcome::Indecisive => Some(reason.to_owned()),
            _ => None,
        }
    }
}

/// One cell of the matrix.
#[derive(Debug, Clone, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CaseResult {
    /// The case's id: `bert:cpu-fp32`, and `bert:cpu-fp32-b4-s128` where batch and seq are not the model's own.
    pub case: String,
    /// All sizes that the model names, with this case's values.
    pub dims: BTreeMap<String, u64>,
    pub model: String,
    /// The model's row in a spec: `specs/all.yaml:12`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<String>,
    /// Its type in transformers; None of ready files and of models that are made of others.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub model_type: Option<String>,
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
    /// Why orch chose this target, if that was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// What its target's `half` came to on this machine, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half: Option<HalfChoice>,
    /// The library that runs its artefact: `ort`, `openvino`, `torch`. Reports of older versions name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
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
    /// The moment when it ran, RFC 3339 UTC.
    pub measured: Option<String>,
    /// The moment when the step at which it ended was executed, RFC 3339 UTC; only where its run was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Whether it was checked only: it ran beside other steps, and no times were taken.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untimed: bool,
    /// The moment when it failed, if that was in an earlier run and was not met again, RFC 3339 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_since: Option<String>,
    /// Name of the machine that executed its run, now or earlier. Reports of older versions name it only where they cover several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// That machine's CPU, where something was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// The part of a partition that it was in, where reports of several parts were merged: `partition model-1a2b3c4d:2/4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    pub metrics: Option<Metrics>,
    pub numerics: Option<Numerics>,
    pub placement: BTreeMap<String, u64>,
    /// Exporter route and what else the record holds; the versions of `facts.versions` are shown as a table.
    pub facts: IndexMap<String, Arc<Value>>,
    pub repro: Option<String>,
    /// What the step at which it failed printed last, without what its log leaves out: passwords, and what only a terminal obeys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    pub steps: Vec<String>,
    /// Seconds that each of them took when it was executed, in this run or in an earlier one.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub took: IndexMap<String, f64>,
    /// What its conversions made.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub converted: IndexMap<String, Converted>,
    /// Bytes of the folder that it loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded_bytes: Option<u64>,
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

/// What a conversion made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Converted {
    pub bytes: u64,
    /// The bytes of the folder that it read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_bytes: Option<u64>,
}

/// A step that passed after failures.
#[derive(Debug, Clone, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FlakyStep {
    pub step: String,
    pub reason: Option<String>,
    /// RFC 3339, UTC.
    pub executed: Option<String>,
    pub cached: bool,
    pub attempts: Vec<Attempt>,
}

/// Statistics of a case's rounds; milliseconds. Of one round nothing is known of how much processes differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Metrics {
    /// Median over the rounds, each of which loads once, in a process of its own.
    pub load_ms: f64,
    /// The first inference, in the manner of `load_ms`.
    pub first_ms: f64,
    /// Median of the rounds' medians: what a user may expect.
    pub median_ms: f64,
    /// The lowest and the highest of the rounds' medians; None of one round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_low_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_high_ms: Option<f64>,
    /// What is compared with other runs ([`stats::statistic`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistic: Option<Statistic>,
    /// Items of the batch in a second, by the median; inferences where the model has no batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    pub min_ms: f64,
    pub max_ms: f64,
    /// The percentile of all samples together, and only from 29, 59, 299 of them on.
    pub p90_ms: Option<f64>,
    pub p95_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    /// Interquartile range over median above 10 %.
    pub noisy: bool,
    /// Why the median may not be read as it stands, where it may not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_quiet: Vec<Doubt>,
    /// The number of samples of all rounds.
    pub samples: u32,
    /// The samples themselves, in the order in which they were taken, those of one round after those of the one before.
    #[serde(default)]
    pub samples_ms: Vec<f64>,
    /// The warm-up inferences of the first round.
    pub warmup: u32,
    /// The highest of all rounds, by the kernel's own mark, which is read when the last sample was taken.
    pub peak_rss_bytes: Option<u64>,
    /// The peak of a GPU's own memory, where its driver gives it; read after the last sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_device_bytes: Option<u64>,
    pub sync: String,
    /// The figures of text that is generated with a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoding: Option<DecodingFigures>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<Round>,
    /// What may have disturbed them, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// One process that measured a case; milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Round {
    /// Counted from 1.
    pub round: u32,
    /// The moment when it began, RFC 3339 UTC.
    pub measured: String,
    pub load_ms: f64,
    pub first_ms: f64,
    pub warmup: u32,
    pub samples: u32,
    pub min_ms: f64,
    pub median_ms: f64,
    /// The median of each of the moments at which it took samples, where there were several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moments_ms: Vec<f64>,
    /// 10th percentile of the inferring thread's CPU time; None where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_p10_ms: Option<f64>,
    /// The inferring thread and those that it and its libraries started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_of_cpu: Option<UseOfCpu>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Conditions>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceState>,
}

/// The report that tests begin with.
#[cfg(test)]
pub(crate) fn fixture() -> ReportDoc {
    serde_json::from_str(include_str!("../../tests/fixtures/report/doc.json")).unwrap()
}

/// A case that the spec takes out, with its reason.
#[derive(Debug, Clone, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Excluded {
    /// The id that the case would have.
    pub case: String,
    pub dims: BTreeMap<String, u64>,
    pub model: String,
    pub target: String,
    pub precision: String,
    pub reason: String,
}
