//! Which slot an executing step has, and since when a ready one waits. Only listeners ask; nothing is decided by it.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::event::Slot;
use crate::step::{Needs, StepId};

pub(super) struct Slots {
    free: BTreeSet<u32>,
    held: HashMap<StepId, Slot>,
    ready_since: HashMap<StepId, Instant>,
}

impl Slots {
    pub(super) fn new(jobs: u32) -> Self {
        Self { free: (0..jobs.max(1)).collect(), held: HashMap::new(), ready_since: HashMap::new() }
    }

    /// All that a step reads is there.
    pub(super) fn ready(&mut self, id: StepId) {
        self.ready_since.insert(id, Instant::now());
    }

    /// The slot that a step gets, and how long it waited for it.
    pub(super) fn take(&mut self, id: StepId, needs: Needs) -> (Slot, Duration) {
        let slot = match needs {
            Needs::Exclusive => Slot::Exclusive,
            Needs::Shared(_) => Slot::Job(self.free.pop_first().expect("BUG: more steps execute than there are slots")),
        };
        self.held.insert(id, slot);
        (slot, self.ready_since.remove(&id).map_or(Duration::ZERO, |since| since.elapsed()))
    }

    pub(super) fn release(&mut self, id: StepId) {
        if let Some(Slot::Job(number)) = self.held.remove(&id) {
            self.free.insert(number);
        }
    }

    pub(super) fn running(&self) -> u32 {
        self.held.len() as u32
    }
}
