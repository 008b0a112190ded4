//! How many cases ended in which state, what the run did, and at which commit.

use serde::{Deserialize, Serialize};

use super::{CaseResult, Excluded};
use crate::base::is_default;
use crate::record::Outcome;

#[derive(Debug, Clone, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Summary {
    pub steps: u32,
    pub executed: u32,
    pub hits: u32,
    /// Those of the hits that this run fetched from a remote store.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fetched: u32,
    /// Steps that failed in an earlier run, in a way that stands, and were not executed again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failed_before: u32,
    /// Failed steps that no case reports.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failed_steps: u32,
    pub cases: u32,
    pub passed: u32,
    /// Cases that another target ran instead of their own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fallbacks: u32,
    /// Cases that passed at a later attempt.
    #[serde(default, skip_serializing_if = "is_default")]
    pub flaky: u32,
    /// Cases that agree with the reference, as wrong ones would have; never counted as passed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub indecisive: u32,
    /// Cases that failed as the spec expects.
    #[serde(default, skip_serializing_if = "is_default")]
    pub xfailed: u32,
    /// Cases that passed although the spec expects otherwise; those of them that are to fail the run count as failed too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub xpassed: u32,
    pub failed: u32,
    pub unavailable: u32,
    pub unsupported: u32,
    pub incomplete: u32,
    /// Cases of devices that the environment pretends to have.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mocked: u32,
    pub excluded: u32,
    pub seconds: f64,
    /// What the executed steps that cases rest on took, one after the other.
    #[serde(default)]
    pub executed_seconds: f64,
    /// What those of them took that were up to date, when they were executed.
    #[serde(default)]
    pub saved_seconds: f64,
    /// How it was found out what is up to date.
    #[serde(default)]
    pub path: RunPath,
}

/// How a run came to know what is up to date; the answer is the same on every path.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum RunPath {
    /// The specs were read, and every step was looked up.
    #[default]
    Full,
    /// Nothing changed since a run that left nothing to do.
    Memo,
}

/// A run: when it began, RFC 3339 UTC, and at which commit. How long it took is in the [`Summary`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RunOrigin {
    pub started: String,
    /// None outside of git.
    pub git: Option<Git>,
}

/// The commit that was checked out around the spec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Git {
    pub revision: String,
    /// The moment when it was committed, RFC 3339.
    pub committed: String,
    /// None where no branch was checked out.
    pub branch: Option<String>,
    /// Whether tracked files differed from it.
    pub dirty: bool,
}

impl Summary {
    /// Counts the outcomes; steps and seconds are the caller's.
    pub fn of(cases: &[CaseResult], excluded: &[Excluded]) -> Self {
        let count =
            |status: Outcome| cases.iter().filter(|case| case.status == status).count() as u32;
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
        self.passed + self.fallbacks + self.flaky + self.indecisive + self.xfailed + self.xpassed
            > 0
    }
}
