//! What happened to a step: the closed list of outcomes, and the record that the store keeps.

use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::Digest;
use crate::base::words::words;
pub use crate::judge::{Numerics, TensorNumerics};
use crate::key::{KeyDoc, MissReason};
use crate::runtime::RawMeasure;

/// The state of a step or of a case. The names are stable: they stand in JSON, JUnit and people's scripts.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Outcome {
    /// It ran on the requested device, and its outputs are right.
    Pass,
    /// It passed at a later attempt, after failures that were taken for transient.
    Flaky,
    /// The device that was requested did not do it, and another one did. Of cases only.
    PassFallback,
    /// It failed, as the spec expects. Of cases only.
    Xfail,
    /// It passed, although the spec expects it to fail. Of cases only.
    Xpass,
    /// It ran, and its outputs agree with the reference; so would wrong ones have.
    Indecisive,
    /// The device, driver or library is not there.
    SkipUnavailable,
    /// The vendor's tool itself refuses this model, or an input or output is of a kind that orch has no tensors for.
    SkipUnsupported,
    /// An error of this or an earlier step.
    Fail,
    /// It ran, and its outputs are wrong.
    Numerics,
    Oom,
    Timeout,
    /// The process died by a signal or without a result.
    Crash,
    /// The environment pretends that the device is there: all was made for it, and nothing ran.
    Mock,
    /// Interrupted, or not reached.
    #[default]
    Incomplete,
}

// Every state, in the order in which reports count them.
words!(pub Outcome {
    "PASS" => Pass,
    "INDECISIVE" => Indecisive,
    "PASS_FALLBACK" => PassFallback,
    "FLAKY" => Flaky,
    "XFAIL" => Xfail,
    "XPASS" => Xpass,
    "FAIL" => Fail,
    "NUMERICS" => Numerics,
    "OOM" => Oom,
    "TIMEOUT" => Timeout,
    "CRASH" => Crash,
    "INCOMPLETE" => Incomplete,
    "MOCK" => Mock,
    "SKIP_UNAVAILABLE" => SkipUnavailable,
    "SKIP_UNSUPPORTED" => SkipUnsupported,
});

impl Outcome {
    /// Something is wrong that the exit code reports. An unexpected success is a failure only where its expectation is
    /// strict, which is for the report to know.
    pub fn is_failure(self) -> bool {
        matches!(
            self,
            Self::Fail | Self::Numerics | Self::Oom | Self::Timeout | Self::Crash
        )
    }

    /// A failure that lies in the work itself, not in the moment or in what the machine had left for it.
    pub fn may_stand(self) -> bool {
        matches!(self, Self::Fail | Self::Numerics)
    }

    /// The step made what it is there for, so what reads it may go on.
    pub fn is_made(self) -> bool {
        matches!(self, Self::Pass | Self::Flaky)
    }

    /// It would come out the same on every machine with this key, so it may stand for an execution there.
    pub fn may_be_shared(self) -> bool {
        matches!(self, Self::Pass | Self::SkipUnsupported)
    }

    /// Something ran, and came out as it should.
    pub fn is_well(self) -> bool {
        matches!(
            self,
            Self::Pass | Self::Flaky | Self::PassFallback | Self::Xfail
        )
    }

    pub fn label(self) -> &'static str {
        self.word()
    }
}

/// What a model computes with: figures of random weights are those of a small model that nobody uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Weights {
    Random,
    Hub,
    Folder,
    /// Part of the ready file itself.
    File,
}

words!(pub Weights {
    "random" => Random, "from the Hub" => Hub, "from a folder" => Folder, "in the file" => File,
});

/// The CPU of the machine that executed a step, as far as figures depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Cpu {
    pub name: String,
    /// What tells it from other CPUs of that name: the maker's numbers, caches, a digest of its flags.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// Hardware threads that the process could use.
    pub cores: u32,
}

/// What the store keeps of one execution of a step.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
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
    /// Name of the machine that executed it.
    pub host: String,
    /// Its CPU, where something was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    pub facts: Arc<Value>,
    pub measure: Option<RawMeasure>,
    pub numerics: Option<Numerics>,
    /// One shell line that does this step's work again by itself.
    pub repro: Option<String>,
    /// Why it was executed. Records of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<MissReason>,
    /// The executions before this one that failed and were tried again, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// A digest of all besides the key that a failure may depend on, where another execution with this key would fail
    /// again (`exec/perform/standing.rs`). Where that is the same, it is reported and not executed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands: Option<Digest>,
}

impl Record {
    /// The fact that holds the peak resident set of all processes of the execution, bytes.
    pub const PEAK_RSS_BYTES: &'static str = "peak_rss_bytes";

    /// The peak resident set of the execution, bytes: of the process that measured, else of all its processes; None
    /// where neither was watched.
    pub fn peak_rss_bytes(&self) -> Option<u64> {
        let measured = self
            .measure
            .as_ref()
            .and_then(|measure| measure.peak_rss_bytes);
        measured.or_else(|| self.facts.get(Self::PEAK_RSS_BYTES)?.as_u64())
    }

    /// The time from the step's beginning, which is kept in whole seconds, to `moment`.
    pub fn seconds_until(&self, moment: SystemTime) -> Option<f64> {
        let began = self.started.parse::<Timestamp>().ok()?;
        let moment = Timestamp::try_from(moment).ok()?;
        Some(moment.duration_since(began).as_secs_f64())
    }
}

/// An execution whose failure was taken for transient.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Attempt {
    pub outcome: Outcome,
    pub reason: Option<String>,
    /// RFC 3339, UTC.
    pub started: String,
    pub seconds: f64,
    /// File name of its log, in the store's `logs`; None if it printed nothing.
    pub log: Option<String>,
    /// Pause before the next attempt.
    pub waited_seconds: f64,
}
