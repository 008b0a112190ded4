//! What of that which steps require is installed, is being installed, or could not be.

use std::collections::{BTreeMap, BTreeSet};

use crate::exec::schedule::{Effect, Scheduler};
use crate::provision::{Provision, title};
use crate::step::{Requirement, StepId};

/// The state of everything that a wanted step requires.
#[derive(Default)]
pub(super) struct Setups {
    ready: BTreeSet<Requirement>,
    running: BTreeSet<Requirement>,
    failed: BTreeMap<Requirement, String>,
}

pub(super) enum Readiness {
    Ready,
    Waiting,
    Failed(String),
}

impl Setups {
    /// Requirements of `wanted` that must be installed now. Each is given once.
    pub(super) fn missing(&mut self, wanted: &[Requirement], provision: &Provision) -> Vec<Requirement> {
        let mut missing = Vec::new();
        for requirement in wanted {
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

    pub(super) fn readiness(&self, wanted: &[Requirement]) -> Readiness {
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

impl Scheduler<'_> {
    pub(super) fn requirements(&self, id: StepId) -> Vec<Requirement> {
        let step = self.world.plan.step(id);
        step.kind.requires(step)
    }

    pub(super) fn install_missing(&mut self, id: StepId) {
        let wanted = &self.requirements[id.0 as usize];
        let missing = self.setups.missing(wanted, self.world.provision);
        self.effects.extend(missing.into_iter().map(Effect::Install));
    }

    pub(super) fn install_wanted(&mut self) {
        for id in self.wanted.iter().collect::<Vec<_>>() {
            if !self.is_done(id) {
                self.install_missing(id);
            }
        }
    }
}
