//! What happened to a step: the closed list of outcomes, and the record that the store keeps.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::Digest;
use crate::key::{KeyDoc, MissReason};
use crate::runtime::RawMeasure;
pub use crate::runtime::compare::{Numerics, TensorNumerics};

/// The state of a step or of a case. The names are stable: they stand in JSON, JUnit and people's scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Outcome {
    /// It ran where it was asked to, and its outputs are right.
    Pass,
    /// The device, driver or library is not there.
    SkipUnavailable,
    /// The vendor's tool refuses this model, by its own word.
    SkipUnsupported,
    /// An error of this or an earlier step.
    Fail,
    /// It ran, and its outputs are wrong.
    Numerics,
    Oom,
    Timeout,
    /// The process died by a signal or without a result.
    Crash,
    /// Interrupted, or not reached.
    Incomplete,
}

impl Outcome {
    /// A failure in the sense of the exit code.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Fail | Self::Numerics | Self::Oom | Self::Timeout | Self::Crash)
    }

    pub fn label(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::SkipUnavailable => "SKIP_UNAVAILABLE",
            Self::SkipUnsupported => "SKIP_UNSUPPORTED",
            Self::Fail => "FAIL",
            Self::Numerics => "NUMERICS",
            Self::Oom => "OOM",
            Self::Timeout => "TIMEOUT",
            Self::Crash => "CRASH",
            Self::Incomplete => "INCOMPLETE",
        }
    }
}

/// What the store keeps of one execution of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// `run:bert:cpu-fp32`
    pub step: String,
    pub key: KeyDoc,
    pub outcome: Outcome,
    pub reason: Option<String>,
    /// The tree it made; None unless it passed.
    pub output: Option<Digest>,
    /// RFC 3339, UTC.
    pub started: String,
    pub seconds: f64,
    /// Name and fingerprint of the machine that executed it.
    pub host: String,
    pub facts: Value,
    pub measure: Option<RawMeasure>,
    pub numerics: Option<Numerics>,
    /// One shell line that does this step's work again by itself.
    pub repro: Option<String>,
    /// Why it was executed. Records of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<MissReason>,
}
