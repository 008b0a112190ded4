//! What the store already holds, what must run, and why: decided step by step, dependencies first.

use rayon::prelude::*;

use crate::event::Event;
use crate::exec::Options;
use crate::exec::perform::error_text;
use crate::exec::schedule::Scheduler;
use crate::exec::state::{How, StepResult, StepState};
use crate::key::{KeyDoc, MissReason};
use crate::plan::Plan;
use crate::record::{Outcome, Record};
use crate::step::{Source, Stage, StepId};
use crate::store::{StoreError, stat::Stamp};

/// What is asked for where nothing is named: results, and what people look at. The rest only serves them.
pub fn usually_wanted(plan: &Plan) -> impl Iterator<Item = StepId> {
    plan.ids().filter(|id| {
        let step = plan.step(*id);
        let is_shown = matches!(step.stage, Stage::Run | Stage::Judge | Stage::Command) || step.kind.name() == "render";
        is_shown && !plan.standby.contains(id)
    })
}

/// So many steps are looked up by one thread.
pub(super) const FEW: usize = 256;

/// What was found out about a step that is not decided.
enum Looked {
    /// Something that it reads is not done.
    Waits,
    Is(StepState),
    /// As [`Looked::Is`], and what it is about is to be measured anew (`--rerun failed`).
    IsAsked(KeyDoc),
    /// With what is to be said of it.
    Damaged(KeyDoc, String),
    /// Its key cannot be made.
    Failed(StoreError),
}

/// Why a step is no hit.
enum Missed {
    For(MissReason),
    /// There is something, and it is not what was written.
    Damaged(String),
}

impl Scheduler<'_> {
    /// Looks every step up in the store, dependencies first, and finds out which of the others are wanted.
    pub(in crate::exec) fn consult_all(&mut self) {
        for level in levels(self.world.plan) {
            let this = &*self;
            let look = |id: &StepId| if this.is_done(*id) { Looked::Waits } else { this.look_at(*id) };
            let looked: Vec<_> = if level.len() < 2 * FEW {
                level.iter().map(look).collect()
            } else {
                level.par_iter().with_min_len(FEW).map(look).collect()
            };
            level.into_iter().zip(looked).for_each(|(id, looked)| self.take_in(id, looked));
        }
        let wanted = self.world.plan.upstream(self.asked(), |reader, _| !self.is_done(reader));
        self.wanted.extend(wanted);
        self.want_fallbacks();
    }

    /// Whether something is to be executed.
    pub(in crate::exec) fn is_open(&self) -> bool {
        self.wanted.iter().any(|id| !self.is_done(*id))
    }

    /// The steps of which the run is: those that are wanted, and hits besides.
    pub(in crate::exec) fn counted(&self) -> u32 {
        let hits = self.world.plan.ids().filter(|id| !self.wanted.contains(id) && self.is_done(*id)).count();
        (self.wanted.len() + hits) as u32
    }

    /// The steps that are wanted for their own sake.
    pub(super) fn asked(&self) -> Vec<StepId> {
        match &self.world.options.wanted {
            Some(chosen) => chosen.iter().copied().collect(),
            None => usually_wanted(self.world.plan).collect(),
        }
    }

    /// Decides a step whose dependencies are done: a hit, ready to execute, or not to be executed at all.
    pub(in crate::exec) fn consult(&mut self, id: StepId) {
        let looked = self.look_at(id);
        self.take_in(id, looked);
    }

    fn take_in(&mut self, id: StepId, looked: Looked) {
        match looked {
            Looked::Waits => {}
            Looked::Is(state) => self.set(id, state),
            // A wrong result is met again by running again, and not by judging the same once more.
            Looked::IsAsked(_) if self.runs_again(id) => {}
            Looked::IsAsked(key) => self.set(id, StepState::Ready { key, reason: MissReason::Asked }),
            Looked::Damaged(key, what) => {
                self.tell(Event::Warning { text: format!("{what}; the step runs again") });
                self.set(id, StepState::Ready { key, reason: MissReason::OutputLost { what } });
            }
            Looked::Failed(e) => {
                self.failed = true;
                self.finish_unstarted(id, error_text(&e.into()));
            }
        }
    }

    fn look_at(&self, id: StepId) -> Looked {
        let step = self.world.plan.step(id);
        let done = |result| Looked::Is(StepState::Done(result));
        if let Some(why) = self.unavailable(id) {
            return done(StepResult::skipped(Outcome::SkipUnavailable, why));
        }
        for dependency in self.world.plan.dependencies(id) {
            match self.result(dependency) {
                None => return Looked::Waits,
                Some(result) if !result.outcome.is_made() => {
                    let blamed = Some(result.blamed.unwrap_or(dependency));
                    let failed_before = false; // that one did
                    return done(StepResult {
                        how: How::Skipped,
                        record: None,
                        held: None,
                        output: None,
                        blamed,
                        failed_before,
                        ..result.clone()
                    });
                }
                Some(_) => {}
            }
        }
        if self.is_mocked(id) {
            let backend = step.run().backend.name;
            let why = format!(
                "the environment pretends that `{backend}` is here (ORCH_MOCK_DEVICES): all was made for this run, and \
                 nothing ran"
            );
            return done(StepResult::skipped(Outcome::Mock, why));
        }
        let key = match self.keys.of(id, |from| self.result(from).and_then(StepResult::output)) {
            Ok(key) => key,
            Err(e) => return Looked::Failed(e),
        };
        match self.look_up(id, &key) {
            Ok(result) => done(result),
            Err(Missed::For(MissReason::Asked)) => Looked::IsAsked(key),
            Err(Missed::For(reason)) => Looked::Is(StepState::Ready { key, reason }),
            Err(Missed::Damaged(what)) => Looked::Damaged(key, what),
        }
    }

    /// Whether what a verdict asked for with `--rerun failed` is about is measured again; the verdict waits for that.
    fn runs_again(&mut self, id: StepId) -> bool {
        let plan = self.world.plan;
        if !self.world.options.rerun_failed || plan.step(id).stage != Stage::Judge {
            return false;
        }
        let mut runs = plan.dependencies(id).filter(|from| plan.step(*from).stage == Stage::Run);
        let is_old = |run: &StepId| self.result(*run).is_some_and(|result| result.how == How::Hit);
        let Some(run) = runs.find(is_old) else { return false };
        let Ok(key) = self.keys.of(run, |from| self.result(from).and_then(StepResult::output)) else { return false };
        self.set(run, StepState::Ready { key, reason: MissReason::Asked });
        true
    }

    /// What is held under this key, its output included, or why nothing is.
    fn look_up(&self, id: StepId, key: &KeyDoc) -> Result<StepResult, Missed> {
        let (store, step) = (self.world.store, self.world.plan.step(id));
        let last = || store.latest(&step.name).ok().flatten();
        if self.world.options.rerun.contains(&id) {
            last().inspect(|last| self.memory.learn(id, last));
            return Err(Missed::For(MissReason::Asked));
        }
        if let Some(what) = self.damaged.get(&id) {
            return Err(Missed::Damaged(what.clone()));
        }
        let damaged = |e: StoreError| Missed::Damaged(error_text(&e.into()));
        let Some(hit) = store.hit(&key.digest()).map_err(damaged)? else {
            if let Some(failed) = store.failure(&key.digest()).map_err(damaged)?.filter(|one| self.keys.stands(id, one))
            {
                self.memory.learn(id, &failed);
                let Options { rerun_failed, stands, .. } = self.world.options;
                let is_asked = *rerun_failed && !stands.contains(&id);
                if is_asked {
                    return Err(Missed::For(MissReason::Asked));
                }
                // An equal step may have met it in this run.
                let failed_before = !self.met.contains(&key.digest());
                return self.fresh(id, failed).map(|result| StepResult { failed_before, ..result });
            }
            let last = last();
            if let Some(last) = &last {
                self.memory.learn(id, last);
            }
            let stands = self.world.options.stands.contains(&id);
            return match last {
                Some(last) if stands && last.key == *key && last.outcome != Outcome::Pass => Ok(StepResult::hit(last)),
                last => Err(Missed::For(why_missed(last, key))),
            };
        };
        // What is in it is hashed by whoever reads it: a step that executes, or who hands it out.
        if let Some(digest) = hit.output.filter(|digest| !store.has_tree(digest)) {
            return Err(Missed::For(MissReason::OutputLost { what: format!("tree {} is gone", digest.short()) }));
        }
        // What happened before a success is told each time, and why a tool refused is told of all that depends on it.
        let is_told = match hit.outcome {
            Outcome::Pass => false,
            outcome => step.stage != Stage::Command || outcome == Outcome::Flaky,
        };
        let ages = self.world.options.max_age.is_some() && step.kind.is_timed(step);
        if !is_told && !ages {
            return Ok(StepResult::held(hit));
        }
        let record = store.record(&hit).map_err(damaged)?;
        self.fresh(id, record)
    }

    /// What is held, unless it is older than was asked for.
    fn fresh(&self, id: StepId, record: Record) -> Result<StepResult, Missed> {
        if self.is_too_old(id, &record) {
            let max = self.world.options.max_age.as_ref().map(ToString::to_string).unwrap_or_default();
            self.memory.learn(id, &record);
            return Err(Missed::For(MissReason::TooOld { date: record.started, max }));
        }
        Ok(StepResult::hit(record))
    }

    /// Only a measurement ages: what a build step makes is the same whenever it is made from the same inputs.
    fn is_too_old(&self, id: StepId, record: &Record) -> bool {
        let age = self.world.options.max_age.as_ref();
        let step = self.world.plan.step(id);
        step.kind.is_timed(step) && age.is_some_and(|age| age.is_exceeded(&record.started))
    }

    /// Whether the environment pretends that a run's device is there.
    fn is_mocked(&self, id: StepId) -> bool {
        let (step, mocked) = (self.world.plan.step(id), &self.world.options.mocked);
        !mocked.is_empty() && step.stage == Stage::Run && mocked.contains(step.run().backend.name)
    }

    /// Why a run's device is not there, as its prober says.
    fn unavailable(&self, id: StepId) -> Option<String> {
        let step = self.world.plan.step(id);
        if step.stage != Stage::Run || self.is_mocked(id) {
            return None;
        }
        let backend = step.run().backend.name;
        let found = self.world.inventory.iter().find(|known| known.name == backend);
        match found {
            None => Some(format!("orch has no prober for `{backend}`")),
            Some(found) if !found.available => {
                Some(found.reason.clone().unwrap_or_else(|| "its prober gave no reason".into()))
            }
            Some(_) => None,
        }
    }

    /// Of the user's files that a step reads, in their order.
    pub(super) fn stamps(&self, id: StepId) -> Vec<Option<Stamp>> {
        let sources = self.world.plan.step(id).inputs.iter();
        let files = sources.filter_map(|(_, source)| if let Source::File(path) = source { Some(path) } else { None });
        files.map(|path| Stamp::of(path).ok()).collect()
    }

    /// Whether the user's files are still as they were when the step's key was made, which may be long ago.
    pub(super) fn reads_what_its_key_says(&self, id: StepId) -> bool {
        let reads_files = self.world.plan.step(id).inputs.iter().any(|(_, source)| matches!(source, Source::File(_)));
        match &self.states[id.0 as usize] {
            StepState::Ready { key, .. } if reads_files => {
                let now = self.keys.of(id, |from| self.result(from).and_then(StepResult::output));
                now.is_ok_and(|now| now == *key)
            }
            _ => true,
        }
    }

    /// Makes a step whose output is gone executable again, with whatever of its own inputs is gone too.
    pub(super) fn reopen(&mut self, id: StepId) {
        let lost = self.world.plan.upstream([id], |_, from| self.is_lost(from));
        for id in &lost {
            self.wanted.insert(*id);
            self.set(*id, StepState::Unknown);
        }
        // Dependencies first: that is the order of their numbers.
        for id in lost {
            self.consult(id);
            if self.is_ready(id) {
                self.queue(id);
            }
        }
    }

    fn is_lost(&self, id: StepId) -> bool {
        let output = self.result(id).and_then(StepResult::output);
        output.is_some_and(|digest| !self.world.store.has_tree(&digest))
    }

    pub(super) fn consult_dependents(&mut self, id: StepId) {
        let plan = self.world.plan;
        // No recursion: a chain of steps may be longer than the stack is deep.
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            for dependent in plan.dependents(id) {
                if !matches!(self.states[dependent.0 as usize], StepState::Unknown) {
                    continue;
                }
                self.consult(dependent);
                if self.is_ready(dependent) && self.wanted.contains(&dependent) {
                    self.queue(dependent);
                } else if self.is_done(dependent) {
                    open.push(dependent);
                }
            }
        }
    }

    /// Whatever is wanted and was not reached is incomplete.
    pub(in crate::exec) fn close(&mut self) {
        for id in self.world.plan.ids() {
            if self.is_done(id) {
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

/// Why nothing with this key is held, by the latest record of the step.
fn why_missed(last: Option<Record>, key: &KeyDoc) -> MissReason {
    match last {
        Some(last) => {
            let changes = key.changes_since(&last.key);
            if changes.is_empty() && last.outcome.is_made() {
                MissReason::OutputLost { what: "the record of its success is gone".into() }
            } else if changes.is_empty() {
                MissReason::DidNotPass { outcome: last.outcome.label().into() }
            } else {
                MissReason::Changed { changes }
            }
        }
        None => MissReason::NeverRan,
    }
}

/// The steps by how many stand in a row above them, so that those of one level can be looked up at a time.
fn levels(plan: &Plan) -> Vec<Vec<StepId>> {
    let mut depths: Vec<u32> = Vec::with_capacity(plan.steps.len());
    let mut levels: Vec<Vec<StepId>> = Vec::new();
    for id in plan.ids() {
        let depth = plan.dependencies(id).map(|from| depths[from.0 as usize] + 1).max().unwrap_or(0);
        depths.push(depth);
        if levels.len() <= depth as usize {
            levels.resize_with(depth as usize + 1, Vec::new);
        }
        levels[depth as usize].push(id);
    }
    levels
}
