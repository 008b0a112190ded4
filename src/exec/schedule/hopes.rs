//! Which steps still serve something that can pass: what `--keep-going dependencies` goes on with.
//!
//! A step is gone when it did not pass, or when nothing that it serves can pass any more and nobody asked for it by
//! itself. Each edge of the graph is looked at once.

use crate::exec::schedule::Scheduler;
use crate::plan::Plan;
use crate::record::Outcome;
use crate::step::{StepId, StepSet};

/// Empty, and without effect, unless it was asked for.
#[derive(Default)]
pub(super) struct Hopes {
    /// By step: how many that read its output can still pass, and one more if it was asked for.
    served: Vec<u32>,
    gone: StepSet,
}

impl Hopes {
    pub(super) fn is_gone(&self, id: StepId) -> bool {
        self.gone.contains(&id)
    }

    /// A step will not pass, so what only it needs is needed by nobody.
    pub(super) fn gone(&mut self, plan: &Plan, id: StepId) {
        if self.served.is_empty() {
            return;
        }
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            if !self.gone.insert(id) {
                continue;
            }
            for from in plan.dependencies(id) {
                let served = &mut self.served[from.0 as usize];
                *served = served.saturating_sub(1);
                if *served == 0 {
                    open.push(from);
                }
            }
        }
    }
}

impl Scheduler<'_> {
    /// Counts, before anything executes, what every step serves.
    pub(super) fn hope(&mut self) {
        let plan = self.world.plan;
        let asked = self.asked();
        let served = &mut self.hopes.served;
        served.resize(plan.steps.len(), 0);
        asked.iter().for_each(|id| served[id.0 as usize] += 1);
        for id in self.wanted.iter() {
            plan.dependencies(id).for_each(|from| served[from.0 as usize] += 1);
        }
        for id in self.wanted.iter().collect::<Vec<_>>() {
            if self.result(id).is_some_and(|result| result.outcome != Outcome::Pass) {
                self.hopes.gone(plan, id);
            }
        }
    }
}
