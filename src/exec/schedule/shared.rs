//! Results that other machines have: asked for when a step becomes ready, before anything is installed or occupied for it.

use std::collections::BTreeSet;

use crate::event::Event;
use crate::exec::schedule::{Effect, Scheduler};
use crate::exec::state::{StepResult, StepState};
use crate::key::MissReason;
use crate::record::Record;
use crate::step::StepId;

/// The questions of one run that are on their way.
#[derive(Default)]
pub(super) struct Questions {
    /// Results are shared, and steps execute.
    pub(super) may_ask: bool,
    open: BTreeSet<StepId>,
}

impl Scheduler<'_> {
    /// Whether a ready step is asked for elsewhere before it waits for its turn.
    pub(super) fn may_be_elsewhere(&self, id: StepId) -> bool {
        let StepState::Ready { reason, .. } = &self.states[id.0 as usize] else { return false };
        self.questions.may_ask
            && match reason {
                // What was asked for is done here. What failed here is not explained away by a success elsewhere.
                MissReason::Asked | MissReason::TooOld { .. } | MissReason::DidNotPass { .. } => false,
                MissReason::NeverRan | MissReason::Changed { .. } | MissReason::OutputLost { .. } => true,
                MissReason::After { .. } => true,
            }
    }

    pub(super) fn ask(&mut self, id: StepId) {
        // Made ready again while the answer is on its way: that is waited for.
        if !self.questions.open.insert(id) {
            return;
        }
        let StepState::Ready { key, .. } = &self.states[id.0 as usize] else { return };
        self.effects.push_back(Effect::Ask(id, key.digest()));
    }

    /// Takes in an answer; the step, if it is done by that.
    pub(super) fn answered(&mut self, id: StepId, record: Option<Box<Record>>) -> Option<StepId> {
        self.questions.open.remove(&id);
        let StepState::Ready { key, .. } = &self.states[id.0 as usize] else {
            return None; // something that it reads is made again; it asks anew when it is ready again
        };
        let Some(record) = record.filter(|record| record.key == *key) else {
            self.wait_for_turn(id);
            return None;
        };
        let (made, host) = (record.started.clone(), record.host.clone());
        self.tell(Event::Fetched { step: record.step.clone(), made, host });
        self.set(id, StepState::Done(StepResult { fetched: true, ..StepResult::hit(*record) }));
        Some(id)
    }

    /// While answers are missing, what they may bring is not installed for.
    pub(super) fn has_questions(&self) -> bool {
        !self.questions.open.is_empty()
    }
}
