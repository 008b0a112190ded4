//! Timed runs whose latency is not quiet, which are measured again when the others of their round are done: at another moment
//! of the run, by a process of their own.
//!
//! What the user allows of it is time: a run is measured again only while what this took and what it is about to take fit
//! into it. The last measurement stands, quiet or not.

use std::collections::{BTreeMap, HashMap};

use crate::event::Span;
use crate::exec::schedule::Scheduler;
use crate::exec::state::StepState;
use crate::key::MissReason;
use crate::record::{Outcome, Record};
use crate::report::stats;
use crate::step::StepId;

/// So often one run is measured again at most: where a machine stays busy, further times find the same.
const MOST: u32 = 2;

/// What is measured again.
#[derive(Default)]
pub(super) struct Again {
    /// Seconds that it took, and will have taken when those that wait are done.
    spent: f64,
    times: HashMap<StepId, u32>,
    /// The measurement before, of runs that wait for another one.
    before: BTreeMap<StepId, Before>,
}

/// An execution that counts if there is no other.
struct Before {
    record: Box<Record>,
    log: Option<String>,
    span: Span,
}

impl Scheduler<'_> {
    /// Why a run that just ended is to be measured again; None if its result stands.
    pub(super) fn why_again(&self, id: StepId, record: &Record) -> Option<String> {
        let step = self.world.plan.step(id);
        let allowed = self
            .world
            .options
            .settings
            .remeasure_seconds
            .unwrap_or(step.remeasure_seconds) as f64;
        let is_allowed = record.outcome == Outcome::Pass
            && self.again.times.get(&id).is_none_or(|times| *times < MOST)
            && self.again.spent + record.seconds <= allowed
            && !self.is_stopping()
            && !self.world.sends(step);
        record
            .measure
            .as_ref()
            .filter(|_| is_allowed)
            .and_then(stats::why_not_quiet)
    }

    /// Puts a run aside until the others of its round are done, and has it executed again then.
    pub(super) fn measure_again(
        &mut self,
        id: StepId,
        (record, log, span): (Box<Record>, Option<String>, Span),
        why: String,
    ) {
        self.again.spent += record.seconds;
        *self.again.times.entry(id).or_default() += 1;
        self.returned(
            id,
            format!("its latency is not quiet ({why}); it is measured again after the others"),
            span,
        );
        self.steps.set(
            id,
            StepState::Ready {
                key: record.key.clone(),
                reason: MissReason::NotQuiet { doubts: why },
            },
        );
        self.again.before.insert(id, Before { record, log, span });
        self.slots.ready(id, self.now);
        self.rounds.take_in_again(id);
    }

    /// A run has another measurement, so the one before does not count any more; that is, unless the other was interrupted.
    pub(super) fn settled(
        &mut self,
        id: StepId,
        outcome: Outcome,
    ) -> Option<(Box<Record>, Option<String>, Span)> {
        let Before { record, log, span } = self.again.before.remove(&id)?;
        (outcome == Outcome::Incomplete).then_some((record, log, span))
    }

    /// Nothing new begins: what waits to be measured again stands as it was measured.
    pub(super) fn end_measuring_again(&mut self) {
        let waiting: Vec<StepId> = self
            .again
            .before
            .keys()
            .copied()
            .filter(|id| self.steps.is_ready(*id))
            .collect();
        for id in waiting {
            let Some(Before { record, log, span }) = self.again.before.remove(&id) else {
                continue;
            };
            self.slots.not_ready(id);
            self.finish(id, *record, log, span);
            self.consult_dependents(id);
        }
    }
}
