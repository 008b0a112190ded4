//! Random work on random machines: nothing is ever promised twice, and what fits is never refused.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

pub(in crate::exec) fn machine(random: &mut impl Rng) -> Machine {
    let unit = |n: usize| Unit {
        token: format!("gpu:{n}"),
        vram: Some(16),
    };
    let units = (0..random.random_range(0..4)).map(unit).collect();
    Machine::new(Capacity {
        cores: random.random_range(1..9),
        memory: random.random_range(1..100),
        units,
        away: 0,
    })
}

pub(in crate::exec) fn claim(random: &mut impl Rng, machine: &Machine) -> Claim {
    let units = machine.capacity.units.len();
    let host = if random.random_ratio(1, 8) {
        Host::Whole
    } else {
        Host::Cores(random.random_range(1..12))
    };
    let memory = if random.random() {
        random.random_range(0..120)
    } else {
        0
    };
    let device = (units > 0 && host != Host::Whole && random.random()).then(|| {
        let first = random.random_range(0..units);
        let any_of = if random.random() {
            (0..units).collect()
        } else {
            [first].into()
        };
        DeviceClaim {
            any_of,
            timed: random.random(),
            vram: random.random_range(0..20),
        }
    });
    machine.fitted(Claim {
        host,
        memory,
        device,
    })
}

/// Whether these together are more than the machine has, reckoned without the machine's own books.
fn is_over(capacity: &Capacity, running: &[(Claim, Held)]) -> bool {
    let whole = running
        .iter()
        .filter(|(claim, _)| claim.host == Host::Whole)
        .count();
    let cores = |claim: &Claim| {
        if let Host::Cores(cores) = claim.host {
            cores
        } else {
            0
        }
    };
    let on = |unit| {
        running
            .iter()
            .filter(move |(_, held)| held.unit == Some(unit))
    };
    let vram = |unit| {
        on(unit)
            .filter_map(|(claim, _)| claim.device.as_ref())
            .map(|device| device.vram)
            .sum::<u64>()
    };
    let timed =
        |unit| on(unit).any(|(claim, _)| claim.device.as_ref().is_some_and(|device| device.timed));
    (whole > 0 && running.len() > 1)
        || running.iter().map(|(claim, _)| cores(claim)).sum::<u32>() > capacity.cores
        || running.iter().map(|(claim, _)| claim.memory).sum::<u64>() > capacity.memory
        || (0..capacity.units.len()).any(|at| {
            let count = on(at).count();
            count > 1 && (timed(at) || vram(at) > capacity.units[at].vram.unwrap())
        })
}

#[test]
fn nothing_is_promised_twice_and_what_fits_is_not_refused() {
    for seed in 0..300 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut machine = machine(&mut random);
        let mut running: Vec<(Claim, Held)> = Vec::new();
        for _ in 0..200 {
            if !running.is_empty() && random.random_ratio(2, 5) {
                let (_, held) = running.swap_remove(random.random_range(0..running.len()));
                machine.give_back(&held);
                continue;
            }
            let claim = claim(&mut random, &machine);
            match machine.offer(&claim) {
                Ok(held) => {
                    machine.take(&held);
                    running.push((claim, held));
                    assert!(
                        !is_over(&machine.capacity, &running),
                        "seed {seed}: {running:?} on {:?}",
                        machine.capacity
                    );
                }
                Err(lack) => {
                    // Whichever unit it were given, it would be too much.
                    let units: Vec<Option<usize>> = match &claim.device {
                        None => vec![None],
                        Some(device) => device.any_of.iter().map(|at| Some(*at)).collect(),
                    };
                    for unit in units {
                        let held = Held {
                            cores: 0,
                            memory: 0,
                            unit,
                            whole: false,
                            is_away: false,
                            timed: false,
                            vram: 0,
                        };
                        running.push((claim.clone(), held));
                        assert!(
                            is_over(&machine.capacity, &running),
                            "seed {seed}: {claim:?} lacks {lack:?}"
                        );
                        running.pop();
                    }
                }
            }
        }
        running.iter().for_each(|(_, held)| machine.give_back(held));
        assert!(machine.is_idle() && (machine.cores, machine.memory) == (0, 0));
        assert!(
            machine
                .used
                .iter()
                .all(|used| (used.timed, used.sharers, used.vram) == (false, 0, 0))
        );
    }
}

#[test]
fn every_claim_fits_an_idle_machine() {
    for seed in 0..500 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let machine = machine(&mut random);
        let claim = claim(&mut random, &machine);
        assert!(
            machine.offer(&claim).is_ok(),
            "seed {seed}: {claim:?} on {:?}",
            machine.capacity
        );
    }
}

/// What a claim is given, which is held from now on.
pub(in crate::exec) fn held(machine: &mut Machine, claim: &Claim) -> Held {
    let held = machine.offer(claim).unwrap();
    machine.take(&held);
    held
}

fn two_gpus() -> Machine {
    let units = ["cuda:0", "cuda:1"].map(|token| Unit {
        token: token.into(),
        vram: Some(80),
    });
    Machine::new(Capacity {
        cores: 4,
        memory: 100,
        units: units.into(),
        away: 2,
    })
}

fn on(unit: usize) -> Claim {
    let device = DeviceClaim {
        any_of: [unit].into(),
        timed: true,
        vram: 0,
    };
    Claim {
        device: Some(device),
        ..Claim::CORE
    }
}

#[test]
fn timed_runs_on_two_devices_go_side_by_side_with_conversions_and_never_with_one_on_the_cpu() {
    let mut machine = two_gpus();
    let whole = Claim {
        host: Host::Whole,
        ..Claim::CORE
    };
    let first = held(&mut machine, &on(0));
    assert_eq!(machine.offer(&on(0)), Err(Lack::Device("cuda:0".into())));
    assert_eq!(machine.offer(&whole), Err(Lack::Idle));
    let second = held(&mut machine, &on(1));
    // Each has one of the four cores; two are left for conversions.
    let conversions = [0, 1].map(|_| held(&mut machine, &Claim::CORE));
    assert_eq!(machine.offer(&Claim::CORE), Err(Lack::Cores));
    [first, second, conversions[0], conversions[1]]
        .iter()
        .for_each(|held| machine.give_back(held));
    held(&mut machine, &whole);
    assert_eq!(
        [on(0), Claim::CORE, whole].map(|claim| machine.offer(&claim)),
        [const { Err(Lack::Host) }; 3]
    );
}

#[test]
fn a_step_that_may_have_any_of_several_devices_gets_a_free_one() {
    let mut machine = two_gpus();
    let device = DeviceClaim {
        any_of: [0, 1].into(),
        timed: true,
        vram: 0,
    };
    let any = Claim {
        device: Some(device),
        ..Claim::CORE
    };
    assert_eq!(
        [0, 1].map(|_| held(&mut machine, &any).unit),
        [Some(0), Some(1)]
    );
    assert_eq!(machine.offer(&any), Err(Lack::Device("cuda:0".into())));
}

#[test]
fn a_device_that_another_process_uses_is_the_last_choice() {
    let mut machine = two_gpus();
    let any = Claim {
        device: Some(DeviceClaim {
            any_of: [0, 1].into(),
            timed: true,
            vram: 0,
        }),
        ..Claim::CORE
    };
    machine.set_elsewhere(0, true);
    assert_eq!(
        [0, 1].map(|_| held(&mut machine, &any).unit),
        [Some(1), Some(0)]
    );
}

#[test]
fn no_step_starts_on_a_device_where_one_still_waits_for_another_process() {
    let mut machine = two_gpus();
    let shared = Claim {
        device: Some(DeviceClaim {
            any_of: [0].into(),
            timed: false,
            vram: 0,
        }),
        ..Claim::CORE
    };
    held(&mut machine, &shared);
    machine.set_entering(0, true);
    assert_eq!(machine.offer(&shared), Err(Lack::Device("cuda:0".into())));
    assert!(machine.offer(&on(1)).is_ok());
    assert!(machine.offer(&Claim::CORE).is_ok());
    machine.set_entering(0, false);
    assert!(machine.offer(&shared).is_ok());
}

#[test]
fn memory_of_host_and_device_is_shared_as_far_as_it_goes() {
    let mut machine = two_gpus();
    let shared = |vram| Claim {
        device: Some(DeviceClaim {
            any_of: [0].into(),
            timed: false,
            vram,
        }),
        ..Claim::CORE
    };
    held(&mut machine, &shared(50));
    assert_eq!(machine.offer(&shared(31)), Err(Lack::Vram("cuda:0".into())));
    assert!(machine.offer(&shared(30)).is_ok());
    assert_eq!(machine.offer(&on(0)), Err(Lack::Device("cuda:0".into())));
    let large = Claim {
        memory: 60,
        ..Claim::CORE
    };
    held(&mut machine, &large);
    assert_eq!(machine.offer(&large), Err(Lack::Memory));
    // More than there is: alone rather than never.
    let larger = machine.fitted(Claim {
        memory: 101,
        ..Claim::CORE
    });
    assert_eq!((larger.host, larger.memory), (Host::Whole, 0));
}

#[test]
fn what_is_elsewhere_takes_a_place_there_and_nothing_here() {
    let mut machine = two_gpus();
    let away = machine.fitted(Claim {
        host: Host::Away,
        memory: 1_000,
        device: None,
    });
    let both = [0, 1].map(|_| held(&mut machine, &away));
    assert_eq!(machine.offer(&away), Err(Lack::Away), "two places");
    let core = machine.fitted(Claim {
        host: Host::Cores(4),
        ..Claim::CORE
    });
    assert!(machine.offer(&core).is_ok());
    // What is sent and hashed for it would be measured too.
    assert_eq!(
        machine.offer(&Claim {
            host: Host::Whole,
            ..Claim::CORE
        }),
        Err(Lack::Idle)
    );
    both.iter().for_each(|held| machine.give_back(held));
    held(
        &mut machine,
        &Claim {
            host: Host::Whole,
            ..Claim::CORE
        },
    );
    assert_eq!(machine.offer(&away), Err(Lack::Host));
}
