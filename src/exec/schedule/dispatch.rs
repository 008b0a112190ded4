//! Whose turn it is: what each ready step claims, who is next, and what it is handed.

use crate::device::Lease;
use crate::event::{Event, Holds, Load};
use crate::exec::schedule::queue::Next;
use crate::exec::schedule::resources::{Claim, DeviceClaim, Held, Host, Lack};
use crate::exec::schedule::setups::Readiness;
use crate::exec::schedule::{Effect, Scheduler, World};
use crate::exec::state::{StepResult, StepState};
use crate::exec::task::{InputAt, Task};
use crate::record::Outcome;
use crate::step::{Needs, Source, StepId};
use crate::store::stat::Stamp;

/// What became of a step whose turn it was.
enum Turn {
    /// A job thread has it, or it has ended, or it is not ready any more.
    Over,
    /// Something that it requires is being installed.
    Parked,
}

impl<'a> Scheduler<'a> {
    /// A ready step goes where `dispatch` finds it, or waits for what a remote says first.
    pub(super) fn queue(&mut self, id: StepId) {
        match &self.states[id.0 as usize] {
            StepState::Ready { key, reason } if self.questions.are_worth_it(reason) => {
                if self.questions.ask(id) {
                    self.effects.push_back(Effect::Ask(id, key.digest()));
                }
            }
            _ => self.wait_for_turn(id),
        }
    }

    pub(super) fn wait_for_turn(&mut self, id: StepId) {
        if self.needs_size(id) {
            self.wait_for_size(id);
        } else {
            self.line_up(id, None);
        }
    }

    pub(super) fn line_up(&mut self, id: StepId, before: Option<Lack>) {
        self.slots.ready(id, self.now);
        let claim = self.claim(id);
        self.queue.push(id, claim, before);
    }

    /// Steps that waited for an installation wait for their turn again.
    pub(super) fn unpark(&mut self) {
        for id in self.setups.unpark() {
            self.line_up(id, Some(Lack::Setup));
        }
    }

    pub(super) fn load(&self) -> Load {
        Load {
            running: self.slots.running(),
            ready: (self.queue.len() + self.setups.parked() + self.sizes.waiting()) as u32,
        }
    }

    pub(super) fn nothing_queued(&self) -> bool {
        self.queue.len() == 0 && self.setups.parked() == 0 && self.sizes.waiting() == 0
    }

    /// What a step takes of the machine: what its kind says, and the memory that is expected.
    fn claim(&mut self, id: StepId) -> Claim {
        let World { plan, store, .. } = self.world;
        let step = plan.step(id);
        let states = &self.states;
        let size = |from: StepId| match &states[from.0 as usize] {
            StepState::Done(made) => made.output().and_then(|digest| store.manifest(&digest).ok()),
            _ => None,
        };
        let size = |from| size(from).map_or(0, |tree| tree.size());
        let memory = self.memory.claim(id, plan, store, size);
        let (host, device) = match step.kind.needs(step) {
            Needs::Shared { cores } => (Host::Cores(cores), None),
            Needs::Exclusive => (Host::Whole, None),
            Needs::Device { backend, device, timed } => match self.devices.any_of(&backend, &device) {
                // An emulator, or nobody can say what it computes on: nothing runs beside what is timed there.
                none if none.is_empty() => (if timed { Host::Whole } else { Host::Cores(1) }, None),
                any_of => {
                    let vram = self.memory.device_claim(id, plan, store, size);
                    (Host::Cores(1), Some(DeviceClaim { any_of, timed, vram }))
                }
            },
        };
        let (machine, claim) = (&self.slots.machine, Claim { host, memory, device });
        let warnings = self.memory.too_large(id, &step.name, &claim, &machine.capacity);
        self.effects.extend(warnings.map(|text| Effect::Tell(Event::Warning { text })));
        machine.fitted(claim)
    }

    /// Whether something goes on beside the steps that would disturb a timed run.
    pub(super) fn is_setting_up(&self) -> bool {
        self.setups.is_busy() || self.sizes.is_asking()
    }

    fn install_missing(&mut self, id: StepId) {
        let missing = self.setups.missing(id, self.world.provision);
        self.effects.extend(missing.into_iter().map(Effect::Install));
    }

    pub(super) fn install_wanted(&mut self) {
        for id in self.wanted.iter().copied().collect::<Vec<_>>() {
            if !self.is_done(id) {
                self.install_missing(id);
            }
        }
    }

    /// Starts what can start.
    pub(super) fn dispatch(&mut self) {
        while let Some(next) = self.queue.next(&self.slots.machine, self.is_setting_up()) {
            let id = next.id;
            match self.turn_of(next) {
                Turn::Over => {}
                Turn::Parked => self.setups.park(id),
            }
        }
    }

    fn turn_of(&mut self, next: Next) -> Turn {
        let id = next.id;
        if !self.is_ready(id) {
            return Turn::Over;
        }
        if self.hopes.is_gone(id) {
            self.slots.forget(id);
            self.set(
                id,
                StepState::Done(StepResult::skipped(Outcome::Incomplete, "nothing that can still pass needs it")),
            );
            return Turn::Over;
        }
        // What it reads was found damaged since it became ready, and is being made again: its end wakes this step.
        if self.world.plan.dependencies(id).any(|from| !self.is_done(from)) {
            self.slots.forget(id);
            self.set(id, StepState::Unknown);
            return Turn::Over;
        }
        let stamps = self.stamps(id);
        if !self.reads_what_its_key_says(id) {
            self.set(id, StepState::Unknown);
            self.consult(id);
            if self.is_ready(id) {
                self.queue(id);
            } else {
                self.consult_dependents(id);
            }
            return Turn::Over;
        }
        self.install_missing(id);
        match self.setups.readiness(id) {
            Readiness::Waiting => return Turn::Parked,
            Readiness::Ready => self.start(next, stamps),
            Readiness::Failed(why) => {
                self.finish_unstarted(id, why);
                self.consult_dependents(id);
            }
        }
        Turn::Over
    }

    /// Gives a step what it holds from now on, and has it started.
    fn start(&mut self, Next { id, held, waited_for }: Next, stamps: Vec<Option<Stamp>>) {
        let step = self.world.plan.step(id);
        let (mut inputs, mut stamps) = (Vec::new(), stamps.into_iter());
        for (name, source) in &step.inputs {
            let at = match source {
                Source::Step(from) => {
                    let digest = self.result(*from).and_then(StepResult::output);
                    let digest = digest.unwrap_or_else(|| panic!("BUG: its input `{name}` is not there"));
                    InputAt::Tree { from: *from, digest }
                }
                Source::File(path) => InputAt::File(path.to_path_buf(), stamps.next().flatten()),
            };
            inputs.push((name.to_string(), at));
        }
        let StepState::Ready { key, reason } = std::mem::replace(&mut self.states[id.0 as usize], StepState::Running)
        else {
            panic!("BUG: {} is started and not ready", step.name);
        };
        let lease = self.lease(id, &held);
        let Held { cores, memory, vram, .. } = held;
        let holds = Holds { cores, memory, device: lease.as_ref().map(|lease| lease.id.clone()), vram };
        let (slot, waited) = self.slots.take(id, held, self.now);
        let (waited_for, load) = (waited_for.as_ref().map(Lack::to_string), self.load());
        let name = step.name.clone();
        let begun = Event::StepStarted { step: name, reason: reason.clone(), slot, waited, waited_for, holds, load };
        let (chosen, attempts) = (self.chosen.get(&id).cloned(), self.retries.before(id));
        let task = Task { id, step, key, inputs, why: reason, attempts, lease, chosen };
        self.effects.push_back(Effect::Start(Box::new(task), begun));
    }

    /// The device that a step was given, as its backend knows it.
    fn lease(&self, id: StepId, held: &Held) -> Option<Lease> {
        let step = self.world.plan.step(id);
        match step.kind.needs(step) {
            Needs::Device { backend, device, .. } => {
                let at = held.unit?;
                let lease = self.devices.lease(at, &backend, &device)?;
                let size = lease.memory_bytes.or(self.slots.machine.capacity.units[at].vram);
                Some(Lease { memory_bytes: size, ..lease })
            }
            Needs::Shared { .. } | Needs::Exclusive => None,
        }
    }
}
