//! Steps that failed for a transient reason, and are tried again after a pause. They occupy no slot meanwhile.
//!
//! `outcome` says what is transient; the command line and the spec say how often a step is tried.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::base::Digest;
use crate::event::Span;
use crate::record::{Attempt, Record};
use crate::step::StepId;

/// The attempts of this run, and who waits for another one.
#[derive(Default)]
pub(super) struct Retries {
    before: HashMap<StepId, Vec<Attempt>>,
    waiting: Vec<Waiting>,
    /// How often a tree was damaged when a step read it.
    losses: HashMap<(StepId, Digest), u32>,
}

/// So often an input may be damaged while a step reads it. Once is a disk's or somebody's mistake; what happens each time
/// is the step's own doing.
const MOST_LOSSES: u32 = 3;

struct Waiting {
    id: StepId,
    until: Instant,
    last: Last,
}

/// The last attempt, which counts if there is no other.
pub(super) enum Last {
    Executed(Box<Record>, Span),
    Unstarted(String),
}

impl Retries {
    pub(super) fn before(&self, id: StepId) -> Vec<Attempt> {
        self.before.get(&id).cloned().unwrap_or_default()
    }

    /// How many attempts of a step failed.
    pub(super) fn failed(&self, id: StepId) -> u32 {
        self.before
            .get(&id)
            .map_or(0, |attempts| attempts.len() as u32)
    }

    /// Counts a damaged input of the step. Whether the same input was damaged again and again: of many inputs, several may
    /// be damaged once.
    pub(super) fn keeps_losing(&mut self, id: StepId, input: Digest) -> bool {
        let losses = self.losses.entry((id, input)).or_default();
        *losses += 1;
        *losses >= MOST_LOSSES
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Puts a step aside for a pause.
    pub(super) fn wait(
        &mut self,
        id: StepId,
        attempt: Attempt,
        last: Last,
        now: Instant,
        pause: Duration,
    ) {
        let attempt = Attempt {
            waited_seconds: pause.as_secs_f64(),
            ..attempt
        };
        self.before.entry(id).or_default().push(attempt);
        self.waiting.push(Waiting {
            id,
            until: now + pause,
            last,
        });
    }

    /// Takes out those whose pause is over, or all.
    pub(super) fn due(&mut self, now: Instant, all: bool) -> Vec<(StepId, Last)> {
        let due = self
            .waiting
            .extract_if(.., |waiting| all || waiting.until <= now);
        due.map(|Waiting { id, last, .. }| (id, last)).collect()
    }
}
