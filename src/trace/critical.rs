//! The critical path: the chain of executed steps, each reading what the one before made, that took longest. No number of
//! slots makes a run shorter than it.

use crate::plan::Plan;
use crate::step::StepId;

/// The chain's steps in order of execution. `seconds` is None for steps that were not executed: they took no time, but
/// what they link is linked.
pub fn critical_path(plan: &Plan, seconds: &dyn Fn(StepId) -> Option<f64>) -> Vec<StepId> {
    let mut until = vec![0.0_f64; plan.steps.len()];
    let mut before: Vec<Option<StepId>> = vec![None; plan.steps.len()];
    let mut last: Option<StepId> = None;
    // Every step stands behind those that it depends on.
    for id in plan.ids() {
        let at = id.0 as usize;
        for dependency in plan.dependencies(id) {
            let dependency_at = dependency.0 as usize;
            if until[dependency_at] > until[at] {
                until[at] = until[dependency_at];
                before[at] = Some(dependency);
            }
        }
        until[at] += seconds(id).unwrap_or(0.0);
        if last.is_none_or(|last| until[at] > until[last.0 as usize]) {
            last = Some(id);
        }
    }
    let mut path = Vec::new();
    while let Some(id) = last {
        if seconds(id).is_some() {
            path.push(id);
        }
        last = before[id.0 as usize];
    }
    path.reverse();
    path
}
