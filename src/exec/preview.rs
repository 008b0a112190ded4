//! What a run would do, and the results that the store holds; both execute nothing.

use std::time::Instant;

use crate::exec::context::Context;
use crate::exec::driver::report_all;
use crate::exec::schedule::Scheduler;
use crate::exec::state::{How, StepResult, StepState};
use crate::key::{KeyDoc, MissReason};
use crate::record::{Outcome, Record};
use crate::step::StepId;
use crate::store::StoreError;

/// What would happen to a step.
pub enum Preview {
    Hit {
        record: Box<Record>,
    },
    WouldRun {
        key: Option<KeyDoc>,
        reason: MissReason,
    },
    Skipped {
        outcome: Outcome,
        reason: String,
        /// The step at which things went wrong, when that is another one.
        blamed: Option<StepId>,
    },
    /// Nothing that is wanted needs it.
    NotNeeded,
}

impl Context<'_> {
    /// What a run would do, by step.
    pub fn previews(&self) -> Result<Vec<Preview>, StoreError> {
        let mut scheduler = Scheduler::new(self.world(), Instant::now());
        scheduler.consult_all();
        // A record that turns out to be damaged makes its step run, and those above it may have to be looked up again.
        while scheduler.read_records(true) {}
        report_all(&mut scheduler, self.listener);
        let wanted = std::mem::take(&mut scheduler.steps.wanted);
        let states = scheduler.steps.into_states();
        let mut previews = Vec::new();
        for (id, state) in self.plan.ids().zip(states) {
            previews.push(match state {
                StepState::Done(StepResult {
                    how: How::Hit,
                    record: Some(record),
                    ..
                }) => Preview::Hit { record },
                StepState::Done(StepResult {
                    outcome,
                    reason,
                    blamed,
                    ..
                }) => Preview::Skipped {
                    outcome,
                    reason: reason.unwrap_or_default(),
                    blamed,
                },
                _ if !wanted.contains(&id) => Preview::NotNeeded,
                StepState::Ready { key, reason } => Preview::WouldRun {
                    key: Some(key),
                    reason,
                },
                StepState::Unknown | StepState::Running => {
                    let is_hit = |dep: StepId| {
                        matches!(previews.get(dep.0 as usize), Some(Preview::Hit { .. }))
                    };
                    let above = self.plan.dependencies(id).find(|dep| !is_hit(*dep));
                    let step = above
                        .map(|dep| self.plan.step(dep).name.clone())
                        .unwrap_or_default();
                    Preview::WouldRun {
                        key: None,
                        reason: MissReason::After { step },
                    }
                }
            });
        }
        Ok(previews)
    }
}

/// The results that the store already holds: successes, and failures of exactly this key. The rest is incomplete.
pub fn held(context: &Context<'_>) -> Result<Vec<StepResult>, StoreError> {
    let mut scheduler = Scheduler::new(context.world(), Instant::now());
    look_up_held(&mut scheduler, context);
    // A damaged record is no hit, and then all others are looked up once more.
    while scheduler.read_records(false) {
        look_up_held(&mut scheduler, context);
    }
    scheduler.steps.wanted.extend(context.plan.ids());
    scheduler.steps.close();
    report_all(&mut scheduler, context.listener);
    let (results, _) = scheduler.steps.into_results();
    Ok(results)
}

/// Finds the results that the store holds, and the failures of exactly these keys.
fn look_up_held(scheduler: &mut Scheduler<'_>, context: &Context<'_>) {
    for id in context.plan.ids() {
        scheduler.consult(id);
        let StepState::Ready { key, .. } = scheduler.steps.state(id) else {
            continue;
        };
        let last = context
            .store
            .latest(&context.plan.step(id).name)
            .ok()
            .flatten();
        if let Some(last) = last.filter(|last| last.key == *key && !last.outcome.is_made()) {
            scheduler
                .steps
                .set(id, StepState::Done(StepResult::hit(last)));
        }
    }
}
