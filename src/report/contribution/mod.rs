//! What somebody else measured: results with all that they rest on, in one file that a site takes in.
//!
//! A contribution is believed as far as it proves itself. Each step's key is the digest of a document that stands beside
//! it, the documents name each other's outputs, a verdict has the figures that it was judged by, and a latency the samples
//! that it is made of ([`check()`] holds all of that against each other). Whoever computes all of it anew can still lie, so
//! what one machine found stays theirs until another one found the same (`agree`).
//!
//! It knows no files and no clock: who reads contributions says when.

mod agree;
mod check;
mod make;
mod read;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Metrics;
use crate::base::{Digest, schema};
use crate::device::DeviceKind;
use crate::key::KeyDoc;
use crate::record::{Numerics, Outcome, Weights};

pub use agree::{Agreement, Claim, Standing, claims};
pub use check::{Known, Planned, PlannedStep, check, may_be_called};
pub use make::{Made, Maker};
pub use read::read;

/// The version of the file's shape.
pub const VERSION: u32 = 1;
/// A file of more bytes is not read.
pub const LARGEST: u64 = 32 << 20;

/// Results of one machine, with their evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Contribution {
    pub version: u32,
    /// The name that the contributor goes by.
    pub by: String,
    /// The moment when the file was written, RFC 3339 UTC.
    pub made: String,
    /// The version of orch that measured.
    pub orch: String,
    /// The file name of the spec.
    pub spec: String,
    pub machine: ContributedMachine,
    /// The devices of each backend that a case ran on.
    pub devices: BTreeMap<String, Vec<ContributedDevice>>,
    pub cases: Vec<Contributed>,
    /// The BLAKE3 digest of the document with an empty text in this place, as JSON without white space and with fields in the order
    /// of this schema.
    pub digest: String,
}

/// The kind of machine. It has no name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContributedMachine {
    /// The digest that stands in the keys of timed runs.
    pub fingerprint: String,
    /// The digest that stands in the keys of runs that are not timed.
    pub computing: String,
    pub os: String,
    pub cpu: String,
    pub cpu_identity: String,
    pub cores: u32,
    pub memory_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContributedDevice {
    pub id: String,
    pub name: String,
    pub kind: DeviceKind,
}

/// A case and all that its result rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Contributed {
    /// The case's id.
    pub case: String,
    pub model: String,
    #[serde(rename = "type")]
    pub model_type: Option<String>,
    pub family: String,
    pub task: String,
    pub pipeline: String,
    pub weights: Option<Weights>,
    pub parameters: Option<u64>,
    pub dims: BTreeMap<String, u64>,
    pub target: String,
    pub precision: String,
    pub runtime: String,
    pub backend: String,
    /// The outcome itself: a failure that a spec expects is that failure here.
    pub status: Outcome,
    /// The step at which it ended when it did not pass.
    pub stage: Option<String>,
    pub reason: Option<String>,
    pub requested_device: String,
    pub actual_device: Option<String>,
    /// The moment when it ran, RFC 3339 UTC.
    pub measured: Option<String>,
    pub untimed: bool,
    /// The figures, with the samples that they are made of.
    pub metrics: Option<Metrics>,
    pub numerics: Option<Numerics>,
    pub placement: BTreeMap<String, u64>,
    /// All packages that computed, each with its version and the digest of its wheels.
    pub packages: BTreeMap<String, String>,
    /// The steps, in the order in which they were executed.
    pub steps: Vec<StepEvidence>,
}

/// A step that was executed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepEvidence {
    pub step: String,
    /// The digest of `document`.
    pub key: String,
    /// All that can change the step's output: its parameters, the digests of its inputs, packages, the kind of machine.
    pub document: BTreeMap<String, String>,
    pub outcome: Outcome,
    /// The digest of what it made; None where it failed.
    pub output: Option<String>,
    /// RFC 3339 UTC.
    pub started: String,
    pub seconds: f64,
}

/// Why a contribution is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("`{field}` is {value}: {why}")]
pub struct Refusal {
    /// The place in the file: `cases[0].numerics.passed`.
    pub field: String,
    pub value: String,
    pub why: String,
}

impl Refusal {
    fn new(field: impl Into<String>, value: impl std::fmt::Debug, why: impl Into<String>) -> Self {
        let value = format!("{value:?}");
        Self {
            field: field.into(),
            value: crate::base::text::shortened(&value, 200).into_owned(),
            why: why.into(),
        }
    }
}

impl Refusal {
    /// Of a file that cannot be read.
    pub fn unreadable(error: &std::io::Error) -> Self {
        Self::new("the file", error.to_string(), "it cannot be read")
    }

    /// Of a file that holds the same as another one.
    pub fn twice(contribution: &Contribution) -> Self {
        let why = "another file holds the same contribution";
        Self::new("digest", &contribution.digest, why)
    }
}

impl Contribution {
    /// What `digest` is to be.
    pub fn own_digest(&self) -> String {
        let bare = Self {
            digest: String::new(),
            ..self.clone()
        };
        let text = serde_json::to_vec(&bare).expect("BUG: strings and numbers serialise");
        Digest::of(&text).to_string()
    }

    /// The document with its digest.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.digest = self.own_digest();
        self
    }

    /// Pretty JSON, ending in a newline.
    pub fn text(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.expect("BUG: strings and numbers serialise") + "\n"
    }
}

impl StepEvidence {
    fn key_doc(&self) -> KeyDoc {
        let mut doc = KeyDoc::default();
        for (name, value) in &self.document {
            doc.set(name, value);
        }
        doc
    }

    /// The stage that its name begins with: `run`.
    fn stage(&self) -> &str {
        self.step.split(':').next().unwrap_or_default()
    }

    /// The line of the document with this name.
    fn line(&self, name: &str) -> Option<&str> {
        self.document.get(name).map(String::as_str)
    }

    /// Lines whose names begin so, without that beginning.
    fn lines<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.document
            .iter()
            .filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }
}

/// The beginnings of the names of lines of a key's document.
const TOOL: &str = "tool.";
const INPUT: &str = "input.";
const DEVICE: &str = "device.";
const PARAM: &str = "param";

/// The JSON Schema of a contribution, with a final newline.
pub fn contribution_schema() -> String {
    schema::text::<Contribution>("orch submit")
}

/// The parameters of a key's document, as JSON.
fn params(step: &StepEvidence) -> Option<serde_json::Value> {
    let mut root = serde_json::Value::Object(Default::default());
    for (name, value) in step.lines(PARAM) {
        let value = serde_json::from_str(value).ok()?;
        let mut at = &mut root;
        for part in parts(name)? {
            at = at
                .as_object_mut()?
                .entry(part)
                .or_insert_with(|| serde_json::Value::Object(Default::default()));
        }
        *at = value;
    }
    Some(root)
}

/// `.options."a.b"` is `options` and `a.b`.
fn parts(name: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some(begun) = rest.strip_prefix('.') {
        if begun.starts_with('"') {
            let mut read = serde_json::Deserializer::from_str(begun).into_iter::<String>();
            parts.push(read.next()?.ok()?);
            rest = &begun[read.byte_offset()..];
        } else {
            let end = begun.find('.').unwrap_or(begun.len());
            parts.push(begun[..end].to_owned());
            rest = &begun[end..];
        }
    }
    rest.is_empty().then_some(parts)
}
