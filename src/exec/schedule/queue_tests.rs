//! Endless arrivals on random machines: nobody starves, and nobody waits for what is free.

use std::collections::HashMap;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::exec::schedule::resources::{Capacity, tests as random};

struct World {
    queue: Queue,
    machine: Machine,
    running: Vec<Held>,
    waiting: HashMap<StepId, (Claim, u32)>,
    steps: u32,
}

impl World {
    fn new(machine: Machine) -> Self {
        Self {
            queue: Queue::default(),
            machine,
            running: vec![],
            waiting: HashMap::new(),
            steps: 0,
        }
    }

    fn arrive(&mut self, claim: Claim) -> StepId {
        let id = StepId(self.steps);
        self.steps += 1;
        self.waiting.insert(id, (claim.clone(), 0));
        self.queue.push(id, claim, Urgency::Usual, None);
        id
    }

    /// Starts what can start; gives their order.
    fn dispatch(&mut self) -> Vec<StepId> {
        let mut started = vec![];
        while let Some(next) = self.queue.next(&self.machine, false) {
            self.machine.take(&next.held);
            self.running.push(next.held);
            self.waiting.remove(&next.id).expect("a step starts once");
            started.push(next.id);
            self.waiting
                .values_mut()
                .for_each(|(_, overtaken)| *overtaken += 1);
        }
        started
    }

    fn end(&mut self, at: usize) {
        let held = self.running.swap_remove(at);
        self.machine.give_back(&held);
    }

    /// Whether a step waits that could start. One whose turn has come keeps the others back, as long as others run.
    fn is_idling(&self) -> bool {
        let owed = self.queue.owed(&self.machine, false).is_some() && !self.running.is_empty();
        !owed
            && self
                .waiting
                .values()
                .any(|(claim, _)| self.machine.offer(claim).is_ok())
    }
}

#[test]
fn nobody_waits_for_what_is_free_and_nobody_starves() {
    for seed in 0..40 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut world = World::new(random::machine(&mut random));
        let kinds: Vec<Claim> = (0..12)
            .map(|_| random::claim(&mut random, &world.machine))
            .collect();
        for _ in 0..6000 {
            // More arrives than ends, so there is always somebody who could overtake.
            for _ in 0..random.random_range(0..3) {
                world.arrive(kinds[random.random_range(0..kinds.len())].clone());
            }
            world.dispatch();
            assert!(!world.is_idling(), "seed {seed}");
            if !world.running.is_empty() {
                world.end(random.random_range(0..world.running.len()));
            }
        }
        // Of each kind of step, some have started.
        for claim in &kinds {
            let Some(line) = world.queue.lines.iter().find(|line| line.claim == *claim) else {
                continue;
            };
            let most = PATIENCE * kinds.len() as u32 + PATIENCE;
            assert!(
                line.overtaken <= most,
                "seed {seed}: {claim:?} was overtaken {} times",
                line.overtaken
            );
        }
    }
}

fn plain(cores: u32) -> World {
    World::new(Machine::new(Capacity {
        cores,
        memory: 100,
        units: vec![],
        away: 0,
    }))
}

#[test]
fn a_step_that_needs_the_machine_gets_it_though_others_never_end_arriving() {
    let mut world = plain(2);
    let whole = world.arrive(Claim {
        host: Host::Whole,
        ..Claim::CORE
    });
    let mut started = 0;
    let mut seen = vec![];
    while !seen.contains(&whole) {
        world.arrive(Claim::CORE);
        world.arrive(Claim::CORE);
        if !world.running.is_empty() {
            world.end(0);
        }
        seen = world.dispatch();
        started += seen.len();
        assert!(started <= PATIENCE as usize + 3, "it starves");
    }
    assert_eq!(world.running.len(), 1, "it has the machine to itself");
}

#[test]
fn a_large_step_gets_its_memory_though_small_ones_never_end_arriving() {
    let mut world = plain(4);
    world.arrive(Claim {
        memory: 40,
        ..Claim::CORE
    });
    world.dispatch();
    let large = world.arrive(Claim {
        memory: 90,
        ..Claim::CORE
    });
    for round in 0..10 * PATIENCE {
        world.arrive(Claim {
            memory: 20,
            ..Claim::CORE
        });
        world.dispatch();
        if !world.waiting.contains_key(&large) {
            return assert!(round > 0);
        }
        if world.running.len() > 1 || round > PATIENCE {
            world.end(0);
        }
    }
    panic!("it starves");
}

#[test]
fn equal_steps_start_in_the_order_in_which_they_came_and_say_what_they_waited_for() {
    let mut world = plain(1);
    let ids = [0; 3].map(|_| world.arrive(Claim::CORE));
    let whole = world.arrive(Claim {
        host: Host::Whole,
        ..Claim::CORE
    });
    let mut waited = vec![];
    for _ in 0..4 {
        let next = world.queue.next(&world.machine, false).unwrap();
        world.machine.take(&next.held);
        assert!(world.queue.next(&world.machine, false).is_none());
        waited.push((next.id, next.waited_for));
        world.machine.give_back(&next.held);
    }
    let cores = Some(Lack::Cores);
    let expected = [
        (ids[0], None),
        (ids[1], cores.clone()),
        (ids[2], cores),
        (whole, Some(Lack::Idle)),
    ];
    assert_eq!(waited, expected);
}

#[test]
fn while_something_is_installed_no_step_gets_the_machine_to_itself_and_none_is_kept_back_for_it() {
    let mut world = plain(1);
    let whole = world.arrive(Claim {
        host: Host::Whole,
        ..Claim::CORE
    });
    for _ in 0..2 * PATIENCE {
        let id = world.arrive(Claim::CORE);
        let next = world.queue.next(&world.machine, true).unwrap();
        assert_eq!(next.id, id);
    }
    assert!(world.queue.next(&world.machine, true).is_none());
    let next = world.queue.next(&world.machine, false).unwrap();
    assert_eq!((next.id, next.waited_for), (whole, Some(Lack::Setup)));
    world
        .queue
        .push(StepId(0), Claim::CORE, Urgency::Usual, Some(Lack::Setup));
    assert_eq!(
        world.queue.next(&world.machine, false).unwrap().waited_for,
        Some(Lack::Setup),
        "it came from there"
    );
}

#[test]
fn what_is_brief_starts_before_all_that_is_older_and_overtakes_nobody() {
    let mut world = plain(1);
    let usual = [0; 2].map(|_| world.arrive(Claim::CORE));
    let brief = StepId(9);
    world.queue.push(brief, Claim::CORE, Urgency::Brief, None);
    let mut ids = vec![];
    while let Some(next) = world.queue.next(&world.machine, false) {
        ids.push(next.id);
    }
    assert_eq!(ids, [brief, usual[0], usual[1]]);
    assert!(world.queue.lines.iter().all(|line| line.overtaken == 0));
}
