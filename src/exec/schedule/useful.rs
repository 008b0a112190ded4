//! Steps that still serve something that can pass: what `--keep-going dependencies` goes on with.
//!
//! A step is useless when it did not pass, or when everything that reads its output is useless and nothing requested the
//! step itself. Each edge of the graph is looked at once.

use std::collections::BTreeSet;

use crate::plan::Plan;
use crate::step::StepId;

/// Empty, and without effect, unless it was requested.
#[derive(Default)]
pub(super) struct Useful {
    /// The number of useful steps that read a step's output, and one more if the step was requested.
    readers: Vec<u32>,
    useless: BTreeSet<StepId>,
}

impl Useful {
    /// Counts readers before anything executes. `has_failed`: of a step that ended, and did not pass.
    pub(super) fn of(
        plan: &Plan,
        requested: &[StepId],
        wanted: &BTreeSet<StepId>,
        has_failed: impl Fn(StepId) -> bool,
    ) -> Self {
        let mut useful = Self {
            readers: vec![0; plan.steps.len()],
            ..Self::default()
        };
        let read = requested
            .iter()
            .copied()
            .chain(wanted.iter().flat_map(|id| plan.dependencies(*id)));
        read.for_each(|id| useful.readers[id.0 as usize] += 1);
        wanted
            .iter()
            .copied()
            .filter(|id| has_failed(*id))
            .for_each(|id| useful.drop(plan, id));
        useful
    }

    pub(super) fn is_useless(&self, id: StepId) -> bool {
        self.useless.contains(&id)
    }

    /// A step will not pass, so nobody needs what only it reads.
    pub(super) fn drop(&mut self, plan: &Plan, id: StepId) {
        if self.readers.is_empty() {
            return;
        }
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            if !self.useless.insert(id) {
                continue;
            }
            for from in plan.dependencies(id) {
                let readers = &mut self.readers[from.0 as usize];
                *readers = readers.saturating_sub(1);
                if *readers == 0 {
                    open.push(from);
                }
            }
        }
    }
}
