//! What steps require: which of it is installed, being installed, or could not be.

use std::collections::BTreeMap;

use crate::plan::Plan;
use crate::provision::{Provision, titled};
use crate::step::{Required, Step, StepId};

/// The state of everything that a wanted step requires.
#[derive(Default)]
pub(super) struct Setups {
    /// What each step requires, by its number; filled when steps are about to execute.
    requirements: Vec<Vec<Required>>,
    known: BTreeMap<Required, Readiness>,
    /// Steps for which something is being installed.
    pub(super) waiting: Vec<StepId>,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Readiness {
    Ready,
    Waiting,
    Failed(String),
}

impl Setups {
    /// Steps are about to execute. What is sent away requires nothing here.
    pub(super) fn begin(&mut self, plan: &Plan, is_sent: impl Fn(&Step) -> bool) {
        let required = |step: &Step| {
            if is_sent(step) {
                vec![]
            } else {
                step.required()
            }
        };
        self.requirements = plan.steps.iter().map(required).collect();
    }

    pub(super) fn has_begun(&self) -> bool {
        !self.requirements.is_empty()
    }

    /// What a step requires that must be installed now. Each is given once.
    pub(super) fn missing(&mut self, id: StepId, provision: &Provision) -> Vec<Required> {
        let mut missing = Vec::new();
        for required in &self.requirements[id.0 as usize] {
            self.known.entry(required.clone()).or_insert_with(|| {
                let provision = provision.with(required.toolchain.as_ref());
                provision.note_use(required.requirement);
                if provision.is_ready(required.requirement) {
                    return Readiness::Ready;
                }
                missing.push(required.clone());
                Readiness::Waiting
            });
        }
        missing
    }

    pub(super) fn finished(&mut self, required: Required, result: Result<(), String>) {
        let readiness = match result {
            Ok(()) => Readiness::Ready,
            Err(why) => Readiness::Failed(format!(
                "the {} could not be set up: {why}",
                titled(&required)
            )),
        };
        self.known.insert(required, readiness);
    }

    pub(super) fn readiness(&self, id: StepId) -> Readiness {
        let wanted = self.requirements[id.0 as usize]
            .iter()
            .filter_map(|requirement| self.known.get(requirement));
        let failed = wanted
            .clone()
            .find(|known| matches!(known, Readiness::Failed(_)));
        let decides = failed.or_else(|| wanted.clone().find(|known| **known == Readiness::Waiting));
        decides.cloned().unwrap_or(Readiness::Ready)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.known
            .values()
            .any(|readiness| *readiness == Readiness::Waiting)
    }
}
