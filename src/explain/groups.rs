//! Steps by what is the matter with them: those that would run for one reason, and those that cannot begin.

use indexmap::IndexMap;

use crate::exec::Preview;
use crate::plan::Plan;
use crate::step::StepId;

/// The steps that a run would fail at, because a file that they read cannot be read, with the row of the spec and the reason.
pub fn cannot_begin(plan: &Plan, previews: &[Preview]) -> Vec<String> {
    let mut broken = Vec::new();
    for (id, preview) in plan.ids().zip(previews) {
        let may_begin = match preview {
            Preview::WouldRun { .. } => true,
            Preview::Skipped {
                outcome,
                blamed: None,
                ..
            } => outcome.is_failure(),
            Preview::Skipped { .. } | Preview::Hit { .. } | Preview::NotNeeded => false,
        };
        let step = plan.step(id);
        let row = plan
            .resting_on(id)
            .next()
            .map(|planned| &plan.model_facts[&planned.case.model].row);
        let row = row.map(|row| format!("{row}: ")).unwrap_or_default();
        for path in step.files().filter(|_| may_begin) {
            if let Err(error) = path.metadata() {
                broken.push(format!(
                    "`{}` cannot begin: {row}failed to read {}: {error}",
                    step.name,
                    path.display()
                ));
            }
        }
    }
    broken
}

/// Steps that would run for one reason, and those that wait for any of them.
#[derive(Default)]
pub struct Group {
    pub begin: Vec<StepId>,
    pub wait: Vec<StepId>,
}

/// Steps grouped by the reason why they would run, in the order of the plan.
pub fn groups(previews: &[Preview], origins: &[StepId]) -> IndexMap<String, Group> {
    let mut groups: IndexMap<String, Group> = IndexMap::new();
    for (id, &origin) in (0..).map(StepId).zip(origins) {
        if !matches!(previews[id.0 as usize], Preview::WouldRun { .. }) {
            continue;
        }
        let Preview::WouldRun { reason, .. } = &previews[origin.0 as usize] else {
            continue;
        };
        let group = groups.entry(reason.to_string()).or_default();
        if origin == id {
            &mut group.begin
        } else {
            &mut group.wait
        }
        .push(id);
    }
    groups
}
