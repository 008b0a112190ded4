//! The state of a step during a run.

use crate::base::Digest;
use crate::key::{KeyDoc, MissReason};
use crate::record::{Outcome, Record};
use crate::step::StepId;
use crate::store::Hit;

/// Every step goes through these from the first to the last; it leaves `Done` only if its output turns out to be lost.
#[derive(Debug)]
pub(super) enum StepState {
    /// Something that it reads is not done, so its key is not known.
    Unknown,
    /// Its key is known and the store does not hold its result. It waits for its requirements and a slot.
    Ready {
        key: KeyDoc,
        reason: MissReason,
    },
    /// A job thread has it.
    Running,
    Done(StepResult),
}

/// How a step came to its result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum How {
    /// The store held it.
    Hit,
    /// It was executed in this run.
    Executed,
    /// It was not executed: its device is absent, something above it failed, or the run was interrupted.
    Skipped,
    /// Nothing that was wanted needs it.
    #[default]
    NotNeeded,
}

/// The result of a step; by default that of one which nobody needed.
#[derive(Debug, Clone, Default)]
pub struct StepResult {
    pub how: How,
    pub outcome: Outcome,
    pub reason: Option<String>,
    /// The step at which things went wrong, when that is another one.
    pub blamed: Option<StepId>,
    /// The tree that it made.
    pub(super) output: Option<Digest>,
    /// Another machine made it, and this run fetched it.
    pub fetched: bool,
    /// It failed, in an earlier run, and was not executed again.
    pub failed_before: bool,
    /// Hits have theirs only once a report needs it.
    pub record: Option<Box<Record>>,
    /// The place of a hit's record that is not read yet.
    pub(super) held: Option<Hit>,
}

impl StepResult {
    pub(super) fn hit(record: Record) -> Self {
        let outcome = record.outcome;
        let reason = record.reason.clone();
        let output = record.output;
        Self {
            how: How::Hit,
            outcome,
            reason,
            output,
            record: Some(Box::new(record)),
            ..Self::default()
        }
    }

    /// A hit whose record is not read.
    pub(super) fn held(hit: Hit) -> Self {
        Self {
            how: How::Hit,
            outcome: hit.outcome,
            output: hit.output,
            held: Some(hit),
            ..Self::default()
        }
    }

    pub(super) fn executed(record: Record) -> Self {
        Self {
            how: How::Executed,
            ..Self::hit(record)
        }
    }

    pub(super) fn skipped(outcome: Outcome, reason: impl Into<String>) -> Self {
        Self {
            how: How::Skipped,
            outcome,
            reason: Some(reason.into()),
            ..Self::default()
        }
    }

    /// The tree that it made.
    pub fn output(&self) -> Option<Digest> {
        self.output.filter(|_| self.outcome.is_made())
    }
}
