//! The state of a step during a run.

use crate::base::Digest;
use crate::key::{KeyDoc, MissReason};
use crate::record::{Outcome, Record};
use crate::step::StepId;

/// Every step goes from `Unknown` downwards; `Done` is left only when its output turns out to be lost.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The store held it.
    Hit,
    /// It was executed in this run.
    Executed,
    /// It was not executed: its device is absent, something above it failed, or the run was interrupted.
    Skipped,
    /// Nothing that was wanted needs it.
    NotNeeded,
}

#[derive(Debug, Clone)]
pub struct StepResult {
    pub how: How,
    pub outcome: Outcome,
    pub reason: Option<String>,
    /// The step at which things went wrong, when that is another one.
    pub blamed: Option<StepId>,
    pub record: Option<Box<Record>>,
    /// The tree of a step that is not looked up at all, because it is known to be done (`exec/part.rs`).
    pub known: Option<Digest>,
}

impl StepResult {
    pub(super) fn hit(record: Record) -> Self {
        Self {
            how: How::Hit,
            outcome: record.outcome,
            reason: record.reason.clone(),
            blamed: None,
            record: Some(Box::new(record)),
            known: None,
        }
    }

    pub(super) fn known(output: Digest) -> Self {
        let (how, outcome) = (How::Hit, Outcome::Pass);
        Self { how, outcome, reason: None, blamed: None, record: None, known: Some(output) }
    }

    pub(super) fn executed(record: Record) -> Self {
        Self { how: How::Executed, ..Self::hit(record) }
    }

    pub(super) fn skipped(outcome: Outcome, reason: impl Into<String>) -> Self {
        Self { how: How::Skipped, outcome, reason: Some(reason.into()), blamed: None, record: None, known: None }
    }

    pub(super) fn not_needed() -> Self {
        let (how, outcome) = (How::NotNeeded, Outcome::Incomplete);
        Self { how, outcome, reason: None, blamed: None, record: None, known: None }
    }

    /// The tree that it made.
    pub fn output(&self) -> Option<Digest> {
        if self.known.is_some() {
            return self.known;
        }
        self.record.as_ref().filter(|_| self.outcome == Outcome::Pass)?.output
    }
}
