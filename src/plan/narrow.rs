//! A part of a plan as a plan of its own: chosen steps, what they need, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::Plan;
use crate::step::{Source, Step, StepId};

impl Plan {
    /// The plan of these steps: they, all that they depend on, and the cases among them.
    ///
    /// A case is kept if its run or its verdict is chosen, and then both are; one that only something chosen depends on is no case of this part. `excluded`
    /// says which exclusions are reported.
    pub fn narrowed(&self, chosen: &BTreeSet<StepId>, excluded: &dyn Fn(&str) -> bool) -> Plan {
        let cases: Vec<_> = self
            .cases
            .iter()
            .filter(|planned| {
                [planned.run, planned.judge]
                    .iter()
                    .any(|id| chosen.contains(id))
            })
            .collect();
        let mut kept: BTreeSet<StepId> = chosen.clone();
        kept.extend(
            cases
                .iter()
                .flat_map(|planned| [planned.test, planned.judge]),
        );
        let spare = cases.iter().flat_map(|planned| &planned.fallbacks);
        kept.extend(spare.flat_map(|fallback| [fallback.test, fallback.judge]));
        let kept = self.upstream(kept, |_, _| true);
        let new_ids: BTreeMap<StepId, StepId> =
            kept.iter().copied().zip((0..).map(StepId)).collect();
        let moved = |step: &Step| {
            let inputs = step.inputs.iter().map(|(name, source)| {
                let source = match source {
                    Source::Step(from) => Source::Step(new_ids[from]),
                    Source::File(path) => Source::File(path.clone()),
                };
                (name.clone(), source)
            });
            Step {
                inputs: inputs.collect(),
                ..step.clone()
            }
        };
        let steps: Vec<Step> = kept.iter().map(|id| moved(self.step(*id))).collect();
        let excluded = self
            .excluded
            .iter()
            .filter(|e| excluded(&e.case.id()))
            .cloned()
            .collect();
        let cases = cases
            .into_iter()
            .map(|planned| planned.clone().renumbered(&|id| new_ids.get(&id).copied()));
        Plan::new(steps, cases.collect(), excluded, self.model_facts.clone())
    }

    /// This plan with further steps, which no case needs, and their numbers.
    pub fn extended(&self, more: Vec<Step>) -> (Plan, Vec<StepId>) {
        let first = self.steps.len() as u32;
        let added = (first..).map(StepId).take(more.len()).collect();
        let steps = self.steps.iter().cloned().chain(more).collect();
        let plan = Plan::new(
            steps,
            self.cases.clone(),
            self.excluded.clone(),
            self.model_facts.clone(),
        );
        (plan, added)
    }
}
