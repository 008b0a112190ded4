//! Which steps still serve something that can pass: what `--keep-going dependencies` goes on with.
//!
//! A step is gone when it did not pass, or when nothing that it serves can pass any more and nobody asked for it by
//! itself. Each edge of the graph is looked at once.

use std::collections::BTreeSet;

use crate::plan::Plan;
use crate::step::StepId;

/// Empty, and without effect, unless it was asked for.
#[derive(Default)]
pub(super) struct Hopes {
    /// By step: how many that read its output can still pass, and one more if it was asked for.
    served: Vec<u32>,
    gone: BTreeSet<StepId>,
}

impl Hopes {
    /// Counts, before anything executes, what every step serves. `is_lost`: of one that ended, and not well.
    pub(super) fn of(
        plan: &Plan,
        asked: &[StepId],
        wanted: &BTreeSet<StepId>,
        is_lost: impl Fn(StepId) -> bool,
    ) -> Self {
        let mut hopes = Self { served: vec![0; plan.steps.len()], ..Self::default() };
        let served = asked.iter().copied().chain(wanted.iter().flat_map(|id| plan.dependencies(*id)));
        served.for_each(|id| hopes.served[id.0 as usize] += 1);
        wanted.iter().copied().filter(|id| is_lost(*id)).for_each(|id| hopes.gone(plan, id));
        hopes
    }

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
