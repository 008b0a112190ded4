//! The state of every step of a run, and which steps are wanted.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use crate::base::Digest;
use crate::base::text::error_text;
use crate::exec::keys::Keys;
use crate::exec::schedule::fallback::{calls_for_another, is_expected, may_be_answered};
use crate::exec::schedule::useful::Useful;
use crate::exec::state::{How, StepResult, StepState};
use crate::exec::world::World;
use crate::key::{KeyDoc, MissReason};
use crate::plan::Plan;
use crate::record::Outcome;
use crate::step::{Stage, StepId};
use crate::store::{FileDigests, Hit, StoreError};

/// So many steps are looked up by one thread.
const FEW: usize = 256;

/// What is requested where nothing is named: results, and what people look at. The rest only serves them.
pub fn usually_wanted(plan: &Plan) -> impl Iterator<Item = StepId> {
    plan.ids().filter(|id| {
        let step = plan.step(*id);
        let is_shown = matches!(step.stage, Stage::Run | Stage::Judge | Stage::Command)
            || step.kind.name() == "render";
        is_shown && !plan.standby.contains(id)
    })
}

pub(in crate::exec) struct Steps<'a> {
    pub(super) world: World<'a>,
    pub(in crate::exec) keys: Keys<'a>,
    states: Vec<StepState>,
    /// Steps that something requested needs.
    pub(in crate::exec) wanted: BTreeSet<StepId>,
    /// Hits whose records turned out to be damaged, and how.
    pub(super) damaged: BTreeMap<StepId, String>,
    /// The keys with which steps failed in this run, and would fail again.
    pub(super) failed_keys: BTreeSet<Digest>,
    /// A step failed that was not expected to, and nothing may answer in its place.
    pub(super) has_failed: bool,
    /// A step ended in a way for which another target may answer, since that was last looked at.
    pub(super) calls_for_fallback: bool,
    pub(super) useful: Useful,
}

impl<'a> Steps<'a> {
    pub(super) fn new(world: World<'a>) -> Self {
        let mut files = world.store.file_digests();
        files.prefetch(world.plan.files());
        files.watch(&world.plan.listed_folders());
        Self {
            world,
            keys: Keys::new(world, files),
            states: world.plan.ids().map(|_| StepState::Unknown).collect(),
            wanted: BTreeSet::new(),
            damaged: BTreeMap::new(),
            failed_keys: BTreeSet::new(),
            has_failed: false,
            calls_for_fallback: false,
            useful: Useful::default(),
        }
    }

    pub(in crate::exec) fn state(&self, id: StepId) -> &StepState {
        &self.states[id.0 as usize]
    }

    pub(in crate::exec) fn is_done(&self, id: StepId) -> bool {
        matches!(self.state(id), StepState::Done(_))
    }

    pub(super) fn is_ready(&self, id: StepId) -> bool {
        matches!(self.state(id), StepState::Ready { .. })
    }

    pub(super) fn result(&self, id: StepId) -> Option<&StepResult> {
        match self.state(id) {
            StepState::Done(result) => Some(result),
            _ => None,
        }
    }

    pub(super) fn output(&self, id: StepId) -> Option<Digest> {
        self.result(id).and_then(StepResult::output)
    }

    /// The key of a step whose dependencies are done, from its inputs as they are now.
    pub(super) fn key(&self, id: StepId) -> Result<KeyDoc, StoreError> {
        self.keys.of(id, |from| self.output(from))
    }

    /// The steps that are wanted for their own sake.
    pub(super) fn requested(&self) -> Vec<StepId> {
        match &self.world.options.wanted {
            Some(chosen) => chosen.iter().copied().collect(),
            None => usually_wanted(self.world.plan).collect(),
        }
    }

    /// What is wanted and not done.
    pub(in crate::exec) fn to_run(&self) -> impl Iterator<Item = StepId> {
        self.wanted.iter().copied().filter(|id| !self.is_done(*id))
    }

    /// The trees that the store holds and that steps which are to run read.
    pub(in crate::exec) fn to_read(&self) -> BTreeSet<Digest> {
        let plan = self.world.plan;
        self.to_run()
            .flat_map(|id| plan.dependencies(id))
            .filter_map(|from| self.output(from))
            .collect()
    }

    /// The steps of the run: those that are wanted, and hits.
    pub(in crate::exec) fn counted(&self) -> u32 {
        let hits = self
            .world
            .plan
            .ids()
            .filter(|id| !self.wanted.contains(id) && self.is_done(*id))
            .count();
        (self.wanted.len() + hits) as u32
    }

    /// Looks at steps, by several threads if they are many.
    pub(super) fn look_at_all<T: Send>(
        ids: &[StepId],
        look: impl Fn(StepId) -> T + Sync,
    ) -> Vec<T> {
        if ids.len() < 2 * FEW {
            ids.iter().map(|id| look(*id)).collect()
        } else {
            ids.par_iter()
                .with_min_len(FEW)
                .map(|id| look(*id))
                .collect()
        }
    }

    /// Makes every transition. A failure that is expected, or that another run may answer for, ends no run.
    pub(in crate::exec) fn set(&mut self, id: StepId, state: StepState) {
        if let StepState::Done(StepResult { how, outcome, .. }) = &state {
            let plan = self.world.plan;
            self.calls_for_fallback |= calls_for_another(*outcome);
            self.has_failed |= *how != How::Hit
                && outcome.is_failure()
                && !is_expected(plan, id, *outcome)
                && !may_be_answered(plan, id, *outcome);
            if !outcome.is_made() {
                self.useful.drop(plan, id);
            }
        }
        self.states[id.0 as usize] = state;
    }

    /// A ready step executes from now on; its key, and why it runs.
    pub(super) fn take_ready(&mut self, id: StepId) -> (KeyDoc, MissReason) {
        match std::mem::replace(&mut self.states[id.0 as usize], StepState::Running) {
            StepState::Ready { key, reason } => (key, reason),
            other => panic!(
                "BUG: {} is started and {other:?}",
                self.world.plan.step(id).name
            ),
        }
    }

    /// Reads the records of hits that pages show, or of `all`, which nobody needs before. True if one is damaged: then it
    /// is no hit, and everything that this run has not executed is to be looked up once more.
    pub(super) fn read_records(&mut self, all: bool) -> bool {
        let plan = self.world.plan;
        let is_shown = |id: &StepId| all || plan.step(*id).stage != Stage::Command;
        let unread = |id: &StepId| self.result(*id).is_some_and(|result| result.held.is_some());
        let ids: Vec<_> = plan.ids().filter(is_shown).filter(unread).collect();
        let held = |id: StepId| -> &Hit {
            self.result(id)
                .and_then(|result| result.held.as_ref())
                .expect("BUG: it was")
        };
        let records = Self::look_at_all(&ids, |id| self.world.store.record(held(id)));
        let mut is_damaged = false;
        for (id, record) in ids.into_iter().zip(records) {
            match record {
                Ok(record) => self.states[id.0 as usize] = StepState::Done(StepResult::hit(record)),
                Err(e) => {
                    is_damaged = true;
                    self.damaged.insert(id, error_text(&e.into()));
                }
            }
        }
        for id in plan.ids().filter(|_| is_damaged) {
            if self.result(id).is_some_and(|result| result.how == How::Hit) {
                self.set(id, StepState::Unknown);
            }
        }
        is_damaged
    }

    /// Whatever is wanted and was not reached is incomplete.
    pub(in crate::exec) fn close(&mut self) {
        for id in self
            .world
            .plan
            .ids()
            .filter(|id| !self.is_done(*id))
            .collect::<Vec<_>>()
        {
            let result = if self.wanted.contains(&id) {
                StepResult::skipped(Outcome::Incomplete, "not reached")
            } else {
                StepResult::default()
            };
            self.set(id, StepState::Done(result));
        }
    }

    pub(in crate::exec) fn into_states(self) -> Vec<StepState> {
        self.states
    }

    /// The results of all, and the user's files as the keys saw them.
    pub(in crate::exec) fn into_results(self) -> (Vec<StepResult>, FileDigests) {
        let result = |state| {
            if let StepState::Done(result) = state {
                result
            } else {
                StepResult::default()
            }
        };
        (
            self.states.into_iter().map(result).collect(),
            self.keys.files,
        )
    }
}
