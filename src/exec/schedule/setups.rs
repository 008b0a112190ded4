//! What steps require: which of it is installed, being installed, or could not be.

use std::collections::BTreeMap;

use crate::plan::Plan;
use crate::provision::{Provision, title};
use crate::step::{Requirement, Step, StepId};

/// The state of everything that a wanted step requires.
#[derive(Default)]
pub(super) struct Setups {
    /// What each step requires, by its number; filled when steps are about to execute.
    requirements: Vec<Vec<Requirement>>,
    known: BTreeMap<Requirement, Readiness>,
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
                step.kind.requires(step)
            }
        };
        self.requirements = plan.steps.iter().map(required).collect();
    }

    pub(super) fn has_begun(&self) -> bool {
        !self.requirements.is_empty()
    }

    /// What a step requires that must be installed now. Each is given once.
    pub(super) fn missing(&mut self, id: StepId, provision: &Provision) -> Vec<Requirement> {
        let mut missing = Vec::new();
        for requirement in &self.requirements[id.0 as usize] {
            self.known.entry(*requirement).or_insert_with(|| {
                provision.note_use(*requirement);
                if provision.is_ready(*requirement) {
                    return Readiness::Ready;
                }
                missing.push(*requirement);
                Readiness::Waiting
            });
        }
        missing
    }

    pub(super) fn finished(&mut self, requirement: Requirement, result: Result<(), String>) {
        let readiness = match result {
            Ok(()) => Readiness::Ready,
            Err(why) => Readiness::Failed(format!(
                "the {} could not be set up: {why}",
                title(requirement)
            )),
        };
        self.known.insert(requirement, readiness);
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
