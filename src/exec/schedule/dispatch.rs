//! Starts ready steps: which one is next, and what it is given.

use crate::event::{Event, Holds, Load};
use crate::exec::perform::task::{InputAt, Task, wants_another};
use crate::exec::schedule::Scheduler;
use crate::exec::schedule::message::Effect;
use crate::exec::schedule::queue::{Next, Urgency};
use crate::exec::schedule::resources::{Held, Lack};
use crate::exec::schedule::setups::Readiness;
use crate::exec::state::{StepResult, StepState};
use crate::key::MissReason;
use crate::record::Outcome;
use crate::step::{Source, Stage, StepId};
use crate::store::stat::Stamp;

impl<'a> Scheduler<'a> {
    /// A ready step waits for its turn, or first for what a remote answers.
    pub(super) fn queue(&mut self, id: StepId) {
        match self.steps.state(id) {
            StepState::Ready { key, reason } if self.is_shared && may_be_elsewhere(reason) => {
                // The answer for one that was made ready again may still be on its way.
                if self.queried.insert(id) {
                    self.effects.push_back(Effect::Query(id, key.digest()));
                }
            }
            _ => self.wait_for_turn(id),
        }
    }

    pub(super) fn wait_for_turn(&mut self, id: StepId) {
        let step = self.world.plan.step(id);
        if self.claims.is_probing
            && !self.world.sends(step)
            && self.claims.lacks_size(step, &self.slots.machine)
        {
            self.slots.ready(id, self.now);
            self.claims.waiting.push(id);
        } else {
            self.line_up(id, None);
        }
    }

    pub(super) fn line_up(&mut self, id: StepId, before: Option<Lack>) {
        self.slots.ready(id, self.now);
        if !self.rounds.take_in(id) {
            self.enqueue(id, before);
        }
    }

    /// Puts a step in line.
    pub(super) fn enqueue(&mut self, id: StepId, before: Option<Lack>) {
        let (claim, warnings) = self.claims.claim(id, &self.steps, &self.slots.machine);
        self.warn(warnings);
        let is_verdict = self.world.plan.step(id).stage == Stage::Judge;
        let urgency = if is_verdict {
            Urgency::Brief
        } else {
            Urgency::Usual
        };
        self.queue.push(id, claim, urgency, before);
    }

    /// Steps that waited for something else wait for their turn from now on.
    pub(super) fn line_up_all(&mut self, ids: Vec<StepId>, before: &Lack) {
        ids.into_iter()
            .for_each(|id| self.line_up(id, Some(before.clone())));
    }

    pub(super) fn load(&self) -> Load {
        let ready = self.queue.len()
            + self.setups.waiting.len()
            + self.claims.waiting.len()
            + self.rounds.len();
        Load {
            running: self.slots.running(),
            ready: ready as u32,
        }
    }

    /// Whether something goes on beside the steps that would disturb a timed run.
    pub(super) fn is_setting_up(&self) -> bool {
        self.setups.is_busy() || self.claims.is_probing
    }

    fn install_missing(&mut self, id: StepId) {
        let missing = self.setups.missing(id, self.world.provision);
        self.effects
            .extend(missing.into_iter().map(Effect::Install));
    }

    pub(super) fn install_wanted(&mut self) {
        for id in self.steps.to_run().collect::<Vec<_>>() {
            self.install_missing(id);
        }
    }

    /// Installs what is wanted, if that was put off until a remote lacked something: one that must execute here is seldom
    /// the only one.
    pub(super) fn install_deferred(&mut self) {
        if std::mem::take(&mut self.defers_installing) {
            self.install_wanted();
        }
    }

    /// Starts what can start.
    pub(super) fn dispatch(&mut self) {
        if self.queue.has_choice() {
            self.claims.look_elsewhere(&mut self.slots.machine);
        }
        loop {
            while let Some(next) = self.queue.next(&self.slots.machine, self.is_setting_up()) {
                self.turn_of(next);
            }
            if !self.begin_round() {
                return;
            }
        }
    }

    /// Starts a step, unless it is not ready any more, ends by itself or requires what is being installed.
    fn turn_of(&mut self, next: Next) {
        let id = next.id;
        if !self.steps.is_ready(id) {
            return;
        }
        if self.steps.useful.is_useless(id) {
            self.slots.not_ready(id);
            let result =
                StepResult::skipped(Outcome::Incomplete, "nothing that can still pass needs it");
            return self.steps.set(id, StepState::Done(result));
        }
        // An input was found damaged since the step became ready, and is being made again; its end decides this step.
        if self
            .world
            .plan
            .dependencies(id)
            .any(|from| !self.steps.is_done(from))
        {
            self.slots.not_ready(id);
            return self.steps.set(id, StepState::Unknown);
        }
        let stamps = self.steps.stamps(id);
        if !self.steps.reads_what_its_key_says(id) {
            self.steps.set(id, StepState::Unknown);
            self.consult_and_queue(id);
            if self.steps.is_done(id) {
                self.consult_dependents(id);
            }
            return;
        }
        self.install_missing(id);
        match self.setups.readiness(id) {
            Readiness::Waiting => self.setups.waiting.push(id),
            Readiness::Ready => self.start(next, stamps),
            Readiness::Failed(why) => {
                self.finish_unstarted(id, why);
                self.consult_dependents(id);
            }
        }
    }

    /// Starts a step: it holds its resources from now on.
    fn start(
        &mut self,
        Next {
            id,
            held,
            waited_for,
        }: Next,
        stamps: Vec<Option<Stamp>>,
    ) {
        let step = self.world.plan.step(id);
        let mut inputs = Vec::new();
        let mut stamps = stamps.into_iter();
        for (name, source) in &step.inputs {
            let at = match source {
                Source::Step(from) => {
                    let digest = self.steps.output(*from);
                    let digest =
                        digest.unwrap_or_else(|| panic!("BUG: its input `{name}` is not there"));
                    InputAt::Tree {
                        from: *from,
                        digest,
                    }
                }
                Source::File(path) => InputAt::File(path.to_path_buf(), stamps.next().flatten()),
            };
            inputs.push((name.to_string(), at));
        }
        let (key, reason) = self.steps.take_ready(id);
        let lease = self.claims.lease(step, &held, &self.slots.machine);
        let Held {
            cores,
            memory,
            vram,
            ..
        } = held;
        let holds = Holds {
            cores,
            memory,
            device: lease.as_ref().map(|lease| lease.id.clone()),
            vram,
        };
        let (slot, waited) = self.slots.take(id, held, self.now);
        let waited_for = waited_for.as_ref().map(Lack::to_string);
        let load = self.load();
        let name = step.name.clone();
        let begun = Event::StepStarted {
            step: name,
            reason: reason.clone(),
            slot,
            waited,
            waited_for,
            holds,
            load,
        };
        let chosen = self.chosen.get(&id).cloned();
        let attempts = self.retries.before(id);
        let order = self.rounds.order(id);
        let is_top = self.world.options.is_top(self.world.plan, id);
        let task = Task {
            id,
            step,
            key,
            inputs,
            why: reason,
            attempts,
            lease,
            chosen,
            is_top,
            order,
        };
        self.effects.push_back(Effect::Start(Box::new(task), begun));
    }
}

/// Whether another machine may have what is missing here for this reason. What was requested is done here. What failed here
/// is not explained away by a success elsewhere.
fn may_be_elsewhere(reason: &MissReason) -> bool {
    !wants_another(reason) && !matches!(reason, MissReason::DidNotPass { .. })
}
