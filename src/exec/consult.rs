//! What the store already holds, what must run, and why: decided step by step, dependencies first.

use crate::base::Digest;
use crate::event::Event;
use crate::exec::perform::error_text;
use crate::exec::schedule::Scheduler;
use crate::exec::state::{How, StepResult, StepState};
use crate::key::{KeyDoc, MissReason};
use crate::record::{Outcome, Record};
use crate::step::{RunParams, Stage, StepId};

impl Scheduler<'_> {
    /// Looks every step up in the store, dependencies first, and finds out which of the others are wanted.
    pub(super) fn consult_all(&mut self) {
        for id in self.context.plan.ids() {
            self.consult(id);
        }
        let plan = self.context.plan;
        let mut open: Vec<StepId> = match &self.context.options.wanted {
            Some(chosen) => chosen.iter().copied().collect(),
            None => plan
                .ids()
                .filter(|id| {
                    matches!(plan.step(*id).stage, Stage::Run | Stage::Command | Stage::Report)
                        || plan.step(*id).kind.name() == "render"
                })
                .collect(),
        };
        while let Some(id) = open.pop() {
            if !self.wanted.insert(id) || self.is_done(id) || plan.step(id).stage == Stage::Report {
                continue;
            }
            open.extend(plan.dependencies(id));
        }
    }

    /// Decides a step whose dependencies are done: a hit, ready to execute, or not to be executed at all.
    pub(super) fn consult(&mut self, id: StepId) {
        let step = self.context.plan.step(id);
        if step.stage == Stage::Report {
            return; // made by `reporting`, of everything else
        }
        if let Some(why) = self.unavailable(id) {
            return self.set(id, StepState::Done(StepResult::skipped(Outcome::SkipUnavailable, why)));
        }
        for dependency in self.context.plan.dependencies(id) {
            match self.result(dependency) {
                None => return,
                Some(result) if result.outcome != Outcome::Pass => {
                    let blamed = Some(result.blamed.unwrap_or(dependency));
                    let result = StepResult { how: How::Skipped, record: None, blamed, ..result.clone() };
                    return self.set(id, StepState::Done(result));
                }
                Some(_) => {}
            }
        }
        let key = match self.keys.of(id, |from| self.result(from).and_then(StepResult::output)) {
            Ok(key) => key,
            Err(e) => {
                let result = StepResult::skipped(Outcome::Fail, error_text(&e.into()));
                self.failed = true;
                return self.set(id, StepState::Done(result));
            }
        };
        let state = match self.look_up(id, &key) {
            Ok(record) => StepState::Done(StepResult::hit(record)),
            Err(reason) => StepState::Ready { key, reason },
        };
        self.set(id, state);
    }

    /// The record of a success with this key whose output is there, or why there is none.
    pub(super) fn look_up(&self, id: StepId, key: &KeyDoc) -> Result<Record, MissReason> {
        let store = self.context.store;
        if self.context.options.rerun.contains(&id) {
            return Err(MissReason::Asked);
        }
        match store.lookup(&key.digest()) {
            Ok(Some(record)) => match record.output.map(|digest| self.is_held(id, &digest)) {
                None | Some(Ok(())) => Ok(record),
                Some(Err(what)) => Err(MissReason::OutputLost { what }),
            },
            Ok(None) => Err(self.why_missed(id, key)),
            Err(e) => {
                let text = error_text(&e.into());
                self.context.listener.tell(Event::Warning { text: format!("{text}; the step runs again") });
                Err(MissReason::OutputLost { what: text })
            }
        }
    }

    /// Whether a tree is there. Most are read, and verified, only by a step that executes; generated tests are copied out
    /// for people, so nothing further down would notice that one is damaged.
    fn is_held(&self, id: StepId, digest: &Digest) -> Result<(), String> {
        if !self.context.store.has_tree(digest) {
            return Err(format!("tree {} is gone", digest.short()));
        }
        if self.context.plan.step(id).kind.name() == "render"
            && let Err(e) = self.context.store.verified_tree(digest)
        {
            let what = error_text(&e.into());
            self.context.listener.tell(Event::Warning { text: format!("{what}; the step runs again") });
            return Err(what);
        }
        Ok(())
    }

    fn why_missed(&self, id: StepId, key: &KeyDoc) -> MissReason {
        match self.context.store.latest(&self.context.plan.step(id).name) {
            Ok(Some(last)) => {
                let changes = key.changes_since(&last.key);
                if changes.is_empty() {
                    MissReason::DidNotPass { outcome: last.outcome.label().into() }
                } else {
                    MissReason::Changed { changes }
                }
            }
            _ => MissReason::NeverRan,
        }
    }

    /// Why a run's device is not there, as its prober says.
    fn unavailable(&self, id: StepId) -> Option<String> {
        let step = self.context.plan.step(id);
        if step.stage != Stage::Run {
            return None;
        }
        let backend = RunParams::of(step).backend;
        let found = self.context.inventory.iter().find(|known| known.name == backend);
        match found {
            None => Some(format!("orch has no prober for `{backend}`")),
            Some(found) if !found.available => {
                Some(found.reason.clone().unwrap_or_else(|| "its prober gave no reason".into()))
            }
            Some(_) => None,
        }
    }

    /// Makes a step whose output is gone executable again, with whatever of its own inputs is gone too.
    pub(super) fn reopen(&mut self, id: StepId) {
        self.wanted.insert(id);
        self.set(id, StepState::Unknown);
        let dependencies: Vec<_> = self.context.plan.dependencies(id).collect();
        for dependency in dependencies {
            let lost = self
                .result(dependency)
                .and_then(StepResult::output)
                .is_some_and(|digest| !self.context.store.has_tree(&digest));
            if lost {
                self.reopen(dependency);
            }
        }
        self.consult(id);
        if self.is_ready(id) {
            self.queue(id);
        }
    }

    pub(super) fn consult_dependents(&mut self, id: StepId) {
        let plan = self.context.plan;
        // No recursion: a chain of steps may be longer than the stack is deep.
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            for dependent in plan.dependents(id) {
                if !matches!(self.states[dependent.0 as usize], StepState::Unknown) {
                    continue;
                }
                self.consult(*dependent);
                if self.is_ready(*dependent) && self.wanted.contains(dependent) {
                    self.queue(*dependent);
                } else if self.is_done(*dependent) {
                    open.push(*dependent);
                }
            }
        }
    }

    /// Whatever is wanted and was not reached is incomplete.
    pub(super) fn close(&mut self) {
        for id in self.context.plan.ids() {
            if self.is_done(id) || self.context.plan.step(id).stage == Stage::Report {
                continue;
            }
            let result = if self.wanted.contains(&id) {
                StepResult::skipped(Outcome::Incomplete, "not reached")
            } else {
                StepResult::not_needed()
            };
            self.set(id, StepState::Done(result));
        }
    }
}
