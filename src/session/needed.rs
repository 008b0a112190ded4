//! What the steps of a spec need to be installed on this host.

use std::collections::BTreeSet;

use crate::session::{Project, Session};
use crate::step::{Requirement, Stage};

impl Session {
    /// Of the cases whose hardware is here.
    pub fn requirements(&self, project: &Project) -> BTreeSet<Requirement> {
        let plan = &project.plan;
        let is_here = |backend: &str| self.inventory().iter().any(|known| known.name == backend && known.available);
        let runs = plan.cases.iter().filter(|planned| {
            let step = plan.step(planned.run);
            step.stage == Stage::Run && !step.run().is_elsewhere() && is_here(step.run().backend.name)
        });
        let steps = runs.flat_map(|planned| &planned.chain).map(|id| plan.step(*id));
        steps.flat_map(|step| step.kind.requires(step)).collect()
    }
}
