//! A plan of some of another plan's steps.

use std::collections::BTreeMap;

use crate::plan::Plan;
use crate::step::{Step, StepId};

impl Plan {
    /// A plan without cases. `steps` stand after those that they depend on, and the report comes last.
    pub fn part(steps: Vec<Step>) -> Self {
        let by_name = steps.iter().enumerate().map(|(at, step)| (step.name.clone(), StepId(at as u32))).collect();
        let report = StepId(steps.len().checked_sub(1).expect("BUG: a part of a plan has a report") as u32);
        let dependents = vec![Vec::new(); steps.len()];
        let mut plan =
            Self { steps, cases: vec![], excluded: vec![], report, model_facts: BTreeMap::new(), by_name, dependents };
        for id in plan.ids() {
            let dependencies: Vec<_> = plan.dependencies(id).collect();
            for dependency in dependencies {
                let readers = &mut plan.dependents[dependency.0 as usize];
                if readers.last() != Some(&id) {
                    readers.push(id);
                }
            }
        }
        plan
    }
}
