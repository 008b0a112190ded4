//! What becomes of steps as more is known of them: dependencies first, each is a hit, ready to execute, or never executed.

use crate::base::text::error_text;
use crate::event::Event;
use crate::exec::schedule::Scheduler;
use crate::exec::schedule::fallback::{Course, course};
use crate::exec::schedule::lookup::Looked;
use crate::exec::schedule::steps::Steps;
use crate::exec::state::{StepResult, StepState};
use crate::key::MissReason;
use crate::plan::Plan;
use crate::record::Outcome;
use crate::step::StepId;

impl Scheduler<'_> {
    /// Looks every step up in the store, dependencies first, and finds out which of the others are wanted.
    pub(in crate::exec) fn consult_all(&mut self) {
        let plan = self.world.plan;
        for level in levels(plan) {
            let open: Vec<_> = level
                .into_iter()
                .filter(|id| !self.steps.is_done(*id))
                .collect();
            let looked = Steps::look_at_all(&open, |id| self.steps.look_at(id));
            open.into_iter()
                .zip(looked)
                .for_each(|(id, looked)| self.decide(id, looked));
        }
        let wanted = plan.upstream(self.steps.requested(), |reader, _| {
            !self.steps.is_done(reader)
        });
        self.steps.wanted.extend(wanted);
        self.want_fallbacks();
    }

    /// Decides a step whose dependencies are done.
    pub(in crate::exec) fn consult(&mut self, id: StepId) {
        let looked = self.steps.look_at(id);
        self.decide(id, looked);
    }

    fn decide(&mut self, id: StepId, looked: Looked) {
        match looked {
            Looked::Waits => {}
            Looked::Done(result) => self.steps.set(id, StepState::Done(result)),
            Looked::Ready(key, reason, peaks) => {
                self.claims.memory.learn(id, peaks);
                self.steps.set(id, StepState::Ready { key, reason });
            }
            Looked::Repeats(run, key) => self.steps.set(
                run,
                StepState::Ready {
                    key,
                    reason: MissReason::Requested,
                },
            ),
            Looked::Damaged(key, what) => {
                self.tell(Event::Warning {
                    text: format!("{what}; the step runs again"),
                });
                self.steps.set(
                    id,
                    StepState::Ready {
                        key,
                        reason: MissReason::OutputLost { what },
                    },
                );
            }
            Looked::Failed(e) => {
                self.steps.has_failed = true;
                // The row of a model that reads it says where to mend it.
                let plan = self.world.plan;
                let row = plan
                    .resting_on(id)
                    .next()
                    .map(|planned| &plan.model_facts[&planned.case.model].row);
                let row = row.map(|row| format!("{row}: ")).unwrap_or_default();
                self.finish_unstarted(id, row + &error_text(&e.into()));
            }
        }
    }

    /// [`Self::consult`], after which a step that is ready also queues.
    pub(super) fn consult_and_queue(&mut self, id: StepId) {
        self.consult(id);
        if self.steps.is_ready(id) {
            self.queue(id);
        }
    }

    /// Decides what waited for this step, and what waited for that, as far as steps are done.
    pub(super) fn consult_dependents(&mut self, id: StepId) {
        let plan = self.world.plan;
        // No recursion: a chain of steps may be longer than the stack is deep.
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            for dependent in plan.dependents(id) {
                if !matches!(self.steps.state(dependent), StepState::Unknown) {
                    continue;
                }
                self.consult(dependent);
                if self.steps.is_ready(dependent) && self.steps.wanted.contains(&dependent) {
                    self.queue(dependent);
                } else if self.steps.is_done(dependent) {
                    open.push(dependent);
                }
            }
        }
    }

    /// Makes a step whose output is gone executable again, with whatever of its own inputs is gone too.
    pub(super) fn reopen(&mut self, id: StepId) {
        let lost = self
            .world
            .plan
            .upstream([id], |_, from| self.steps.is_lost(from));
        for id in &lost {
            self.steps.wanted.insert(*id);
            self.steps.set(*id, StepState::Unknown);
        }
        // Dependencies first: that is the order of their numbers.
        lost.into_iter().for_each(|id| self.consult_and_queue(id));
    }

    /// Ends a step that could not even start. It leaves no record: nothing was executed.
    pub(super) fn finish_unstarted(&mut self, id: StepId, why: String) {
        self.tell(Event::StepFinished {
            step: self.world.plan.step(id).name.clone(),
            outcome: Outcome::Fail,
            reason: Some(why.clone()),
            seconds: 0.0,
            log: None,
            repro: None,
            execution: None,
            load: self.load(),
        });
        self.steps
            .set(id, StepState::Done(StepResult::skipped(Outcome::Fail, why)));
    }

    /// Wants the next run of each case whose runs so far did not do it.
    pub(super) fn want_fallbacks(&mut self) {
        if !std::mem::take(&mut self.steps.calls_for_fallback) {
            return;
        }
        for planned in self
            .world
            .plan
            .cases
            .iter()
            .filter(|planned| !planned.fallbacks.is_empty())
        {
            // One that is wanted may be done already, and call for the one after it.
            while self.steps.wanted.contains(&planned.judge)
                && let Course::Next(next) = course(planned, |id| {
                    self.steps.result(id).map(|result| result.outcome)
                })
                && !self.steps.wanted.contains(&next.judge)
            {
                self.want(next.judge);
            }
        }
    }

    /// Adds a step to what is wanted, with what it needs.
    fn want(&mut self, id: StepId) {
        let is_new = |id| !self.steps.wanted.contains(&id) && !self.steps.is_done(id);
        for id in self.world.plan.upstream([id], |reader, _| is_new(reader)) {
            if !self.steps.wanted.insert(id) {
                continue;
            }
            if matches!(self.steps.state(id), StepState::Unknown) {
                self.consult(id);
            }
            // Before anything executes, what is ready is queued all at once.
            if self.steps.is_ready(id) && self.setups.has_begun() {
                self.queue(id);
            }
        }
    }

    /// Reads the records of hits that pages show, or of `all`. True if one is damaged: then it is no hit, and steps were
    /// looked up once more.
    pub(in crate::exec) fn read_records(&mut self, all: bool) -> bool {
        let is_damaged = self.steps.read_records(all);
        if is_damaged {
            self.consult_all();
        }
        is_damaged
    }
}

/// The steps by how many stand in a row above them, so that those of one level can be looked up at a time.
fn levels(plan: &Plan) -> Vec<Vec<StepId>> {
    let mut depths: Vec<u32> = Vec::with_capacity(plan.steps.len());
    let mut levels: Vec<Vec<StepId>> = Vec::new();
    for id in plan.ids() {
        let depth = plan
            .dependencies(id)
            .map(|from| depths[from.0 as usize] + 1)
            .max()
            .unwrap_or(0);
        depths.push(depth);
        if levels.len() <= depth as usize {
            levels.resize_with(depth as usize + 1, Vec::new);
        }
        levels[depth as usize].push(id);
    }
    levels
}
