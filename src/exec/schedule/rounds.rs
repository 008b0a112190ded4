//! Rounds of timed runs, which follow each other interleaved: the first of every case in random order, then the second.
//!
//! What varies between processes is the minute as much as the process, so rounds of one case must not stand together, nor
//! one case always before another. They begin when all else is done: whatever builds beside them would be measured too.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::base::Digest;
use crate::exec::schedule::Scheduler;
use crate::exec::schedule::resources::Lack;
use crate::plan::Plan;
use crate::runtime::Order;
use crate::step::StepId;

/// The number of what is measured again of cases that have one round: after every round that there may be.
const LAST: u32 = u32::MAX;

pub(super) struct Rounds {
    /// Equal seeds give equal orders.
    seed: u64,
    /// The round that a run is, of cases that have several.
    numbers: HashMap<StepId, u32>,
    /// Ready, by round.
    waiting: BTreeMap<u32, BTreeSet<StepId>>,
    orders: HashMap<StepId, Order>,
    /// How many had their turn.
    begun: u32,
}

impl Rounds {
    pub(super) fn of(plan: &Plan, seed: u64) -> Self {
        let several = plan
            .cases
            .iter()
            .filter(|planned| !planned.rounds.is_empty());
        let runs = several.flat_map(|planned| {
            [planned.run]
                .into_iter()
                .chain(planned.rounds.iter().copied())
                .zip(1..)
        });
        Self {
            seed,
            numbers: runs.collect(),
            waiting: BTreeMap::new(),
            orders: HashMap::new(),
            begun: 0,
        }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.values().map(BTreeSet::len).sum()
    }

    /// Takes in a step that is one of several rounds. False if it is none.
    pub(super) fn take_in(&mut self, id: StepId) -> bool {
        let number = self.numbers.get(&id);
        number.is_some_and(|number| self.waiting.entry(*number).or_default().insert(id))
    }

    /// Takes in a run that is measured again: after the others of its round, and before the next one, which reads what the
    /// first gave.
    pub(super) fn take_in_again(&mut self, id: StepId) {
        let number = self.numbers.get(&id).copied().unwrap_or(LAST);
        self.waiting.entry(number).or_default().insert(id);
    }

    /// The step's place in the order of all rounds.
    pub(super) fn order(&self, id: StepId) -> Option<Order> {
        self.orders.get(&id).copied()
    }

    /// Takes out the next round of all cases, in the order in which they are to run.
    fn next(&mut self, plan: &Plan) -> Vec<StepId> {
        let Some((number, ids)) = self.waiting.pop_first() else {
            return Vec::new();
        };
        let mut ids: Vec<_> = ids.into_iter().collect();
        ids.sort_by_cached_key(|id| {
            Digest::of(format!("{} {number} {}", self.seed, plan.step(*id).name).as_bytes())
        });
        for id in ids.iter().filter(|id| self.numbers.contains_key(id)) {
            self.orders.insert(
                *id,
                Order {
                    seed: self.seed,
                    place: self.begun,
                },
            );
            self.begun += 1;
        }
        ids
    }
}

impl Scheduler<'_> {
    /// Lets the next round of all cases wait for their turns, once nothing else is left to do. False if it does not.
    pub(super) fn begin_round(&mut self) -> bool {
        let waits = self.queue.len() + self.setups.waiting.len() + self.claims.waiting.len() > 0;
        let is_quiet = !waits
            && self.slots.machine.is_idle()
            && !self.is_setting_up()
            && self.queried.is_empty()
            && self.retries.is_idle();
        if !is_quiet {
            return false;
        }
        let ids = self.rounds.next(self.world.plan);
        let has_any = !ids.is_empty();
        ids.into_iter()
            .for_each(|id| self.enqueue(id, Some(Lack::Round)));
        has_any
    }
}
