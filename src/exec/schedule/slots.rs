//! What executing steps hold, the slot in which each is shown, and since when ready ones wait.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::event::Slot;
use crate::exec::schedule::resources::{Held, Machine};
use crate::step::StepId;

pub(super) struct Slots {
    pub(super) machine: Machine,
    free: BTreeSet<u32>,
    held: HashMap<StepId, (Slot, Held)>,
    ready_since: HashMap<StepId, Instant>,
    /// Steps that may still wait for another orch process, with their units.
    entering: HashMap<StepId, usize>,
}

impl Slots {
    pub(super) fn new(machine: Machine) -> Self {
        let free = (0..machine.capacity.cores + machine.capacity.away).collect();
        Self {
            machine,
            free,
            held: HashMap::new(),
            ready_since: HashMap::new(),
            entering: HashMap::new(),
        }
    }

    /// All that a step reads is there.
    pub(super) fn ready(&mut self, id: StepId, now: Instant) {
        self.ready_since.entry(id).or_insert(now);
    }

    /// It is not ready after all.
    pub(super) fn not_ready(&mut self, id: StepId) {
        self.ready_since.remove(&id);
    }

    /// Gives a step what it was offered. Returns its slot, and how long the step waited.
    pub(super) fn take(&mut self, id: StepId, held: Held, now: Instant) -> (Slot, Duration) {
        self.machine.take(&held);
        if let Some(unit) = held.unit {
            self.machine.set_entering(unit, true);
            self.entering.insert(id, unit);
        }
        let slot = match held.whole {
            true => Slot::Exclusive,
            false => Slot::Job(
                self.free
                    .pop_first()
                    .expect("BUG: more steps execute than there are cores"),
            ),
        };
        self.held.insert(id, (slot, held));
        (
            slot,
            self.ready_since
                .remove(&id)
                .map_or(Duration::ZERO, |since| now.duration_since(since)),
        )
    }

    /// A step waits for no other process any more.
    pub(super) fn entered(&mut self, id: StepId) {
        if let Some(unit) = self.entering.remove(&id) {
            self.machine.set_entering(unit, false);
        }
    }

    pub(super) fn release(&mut self, id: StepId) {
        self.entered(id);
        let (slot, held) = self
            .held
            .remove(&id)
            .expect("BUG: a step ends that holds nothing");
        self.machine.give_back(&held);
        if let Slot::Job(number) = slot {
            self.free.insert(number);
        }
    }

    pub(super) fn running(&self) -> u32 {
        self.held.len() as u32
    }
}
