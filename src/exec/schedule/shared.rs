//! Results that other machines have: asked for when a step becomes ready, before anything is installed or occupied for it.

use std::collections::BTreeSet;

use crate::key::MissReason;
use crate::step::StepId;

/// The questions of one run that are on their way.
#[derive(Default)]
pub(super) struct Questions {
    /// Results are shared, and steps execute.
    pub(super) may_ask: bool,
    open: BTreeSet<StepId>,
}

impl Questions {
    /// Whether a ready step is asked for elsewhere before it waits for its turn.
    pub(super) fn are_worth_it(&self, reason: &MissReason) -> bool {
        self.may_ask
            && match reason {
                // What was asked for is done here. What failed here is not explained away by a success elsewhere.
                MissReason::Asked | MissReason::TooOld { .. } | MissReason::DidNotPass { .. } => false,
                MissReason::NeverRan | MissReason::Changed { .. } | MissReason::OutputLost { .. } => true,
                MissReason::After { .. } => true,
            }
    }

    /// False for a step that was made ready again while the answer is on its way: that is waited for.
    pub(super) fn ask(&mut self, id: StepId) -> bool {
        self.open.insert(id)
    }

    pub(super) fn answered(&mut self, id: StepId) {
        self.open.remove(&id);
    }

    /// While answers are missing, what they may bring is not installed for.
    pub(super) fn are_open(&self) -> bool {
        !self.open.is_empty()
    }
}
