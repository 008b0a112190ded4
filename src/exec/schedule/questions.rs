//! Results that other machines may have: asked for when a step becomes ready, before anything is installed or occupied for it.

use std::collections::BTreeSet;

use crate::key::MissReason;
use crate::step::StepId;

/// The questions of one run that are on their way.
#[derive(Default)]
pub(super) struct Questions {
    /// Results are shared, and steps execute.
    pub(super) may_ask: bool,
    /// Steps whose answer is missing. While there are any, nothing is installed for them.
    pub(super) open: BTreeSet<StepId>,
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
}
