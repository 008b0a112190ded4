//! What steps require: which of it is installed, being installed, or could not be.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::Plan;
use crate::provision::{Provision, title};
use crate::step::{Requirement, Step, StepId};

/// The state of everything that a wanted step requires.
#[derive(Default)]
pub(super) struct Setups {
    /// What each step requires, by its number; filled when steps are about to execute.
    requirements: Vec<Vec<Requirement>>,
    ready: BTreeSet<Requirement>,
    running: BTreeSet<Requirement>,
    failed: BTreeMap<Requirement, String>,
    /// Steps for which something is being installed.
    pub(super) waiting: Vec<StepId>,
}

pub(super) enum Readiness {
    Ready,
    Waiting,
    Failed(String),
}

impl Setups {
    /// Steps are about to execute. What is sent away requires nothing here.
    pub(super) fn begin(&mut self, plan: &Plan, is_sent: impl Fn(&Step) -> bool) {
        let required = |step: &Step| if is_sent(step) { vec![] } else { step.kind.requires(step) };
        self.requirements = plan.steps.iter().map(required).collect();
    }

    pub(super) fn has_begun(&self) -> bool {
        !self.requirements.is_empty()
    }

    /// What a step requires that must be installed now. Each is given once.
    pub(super) fn missing(&mut self, id: StepId, provision: &Provision) -> Vec<Requirement> {
        let mut missing = Vec::new();
        for requirement in &self.requirements[id.0 as usize] {
            let known = self.ready.contains(requirement)
                || self.running.contains(requirement)
                || self.failed.contains_key(requirement);
            if known {
                continue;
            }
            if provision.is_ready(*requirement) {
                self.ready.insert(*requirement);
            } else {
                self.running.insert(*requirement);
                missing.push(*requirement);
            }
        }
        missing
    }

    pub(super) fn finished(&mut self, requirement: Requirement, result: Result<(), String>) {
        self.running.remove(&requirement);
        match result {
            Ok(()) => drop(self.ready.insert(requirement)),
            Err(e) => drop(self.failed.insert(requirement, e)),
        }
    }

    pub(super) fn readiness(&self, id: StepId) -> Readiness {
        let wanted = &self.requirements[id.0 as usize];
        if let Some((requirement, why)) = wanted.iter().find_map(|r| self.failed.get_key_value(r)) {
            return Readiness::Failed(format!("the {} could not be set up: {why}", title(*requirement)));
        }
        if wanted.iter().all(|requirement| self.ready.contains(requirement)) {
            Readiness::Ready
        } else {
            Readiness::Waiting
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        !self.running.is_empty()
    }
}
