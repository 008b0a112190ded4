//! What the machine did while a run was timed. It is evidence, kept in the record and reported where it is beyond a bound; no
//! time is divided by it, because what disturbs a run and what disturbs a yardstick beside it have little in common.
//!
//! | fact | from | remarked on |
//! |---|---|---|
//! | load before and after | `/proc/loadavg`, one minute | never: it counts the run itself |
//! | cores that other processes kept busy | `/proc/stat`, less what orch and its children used | above [`OTHERS`] |
//! | time that the hypervisor gave to other machines | `/proc/stat` | above [`STEAL`] |
//! | slowed down for heat, or stopped by a quota | `thermal_throttle`, `cpu.stat` of the control group | above 0 |
//! | frequency governor | `cpufreq` | if it is not `performance` |
//! | other processes on the GPU, and why it is throttled | NVML | if there is any |
//! | a fixed computation before and after, by as many threads as the run has | this file | if it took more than [`YARDSTICK`] times as long once, or as any of this orch's before |
//!
//! What a system does not report is None, and left out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::host::field;
use super::{Host, cgroups};
use crate::base::figures::plural;
use crate::base::{lock, process};

/// A quarter of a core.
pub const OTHERS: f64 = 0.25;
/// One percent of the machine's CPU time.
pub const STEAL: f64 = 0.01;
/// So much longer the yardstick takes on a machine that changed meanwhile.
pub const YARDSTICK: f64 = 1.25;

const CPUS: &str = "/sys/devices/system/cpu";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Conditions {
    /// Runnable processes in the minute before, at the beginning and at the end.
    pub load: Option<[f64; 2]>,
    /// Least time of a fixed computation, before and after, ms.
    pub yardstick_ms: [f64; 2],
    /// How many threads it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yardstick_threads: Option<u32>,
    /// Its least time with so many threads until then, ms: of all that this orch measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yardstick_least_ms: Option<f64>,
    /// How many cores other processes kept busy.
    pub others_cores: Option<f64>,
    /// Share of the machine's CPU time, 0 to 1.
    pub steal: Option<f64>,
    /// How often a core was slowed down, or the control group stopped.
    pub throttled: Option<u64>,
    /// The governors of all cores, with commas between those that differ.
    pub governor: Option<String>,
}

impl Conditions {
    /// The worst that each came to over several runs, and the yardstick's least and greatest time.
    pub fn worst(all: &[&Self]) -> Option<Self> {
        let greatest = |of: fn(&Self) -> Option<f64>| {
            all.iter().filter_map(|one| of(one)).max_by(f64::total_cmp)
        };
        let yardstick: Vec<f64> = all.iter().flat_map(|one| one.yardstick_ms).collect();
        let [least, most] = [
            yardstick.iter().copied().reduce(f64::min)?,
            yardstick.iter().copied().reduce(f64::max)?,
        ];
        Some(Self {
            load: None,
            yardstick_ms: [least, most],
            yardstick_threads: all.iter().find_map(|one| one.yardstick_threads),
            yardstick_least_ms: all
                .iter()
                .filter_map(|one| one.yardstick_least_ms)
                .reduce(f64::min),
            others_cores: greatest(|one| one.others_cores),
            steal: greatest(|one| one.steal),
            throttled: all.iter().filter_map(|one| one.throttled).max(),
            governor: all.iter().find_map(|one| one.governor.clone()),
        })
    }

    /// What may have disturbed the run, in words: all that is beyond its bound.
    pub fn remarks(&self) -> Vec<String> {
        let governor = self
            .governor
            .as_ref()
            .filter(|governor| *governor != "performance");
        let governor = governor.map(|governor| format!("the frequency governor was {governor}"));
        self.disturbances().into_iter().chain(governor).collect()
    }

    /// Whether something slowed the run down that may be over at another moment. A frequency governor is always there.
    pub fn is_disturbed(&self) -> bool {
        !self.disturbances().is_empty()
    }

    fn disturbances(&self) -> Vec<String> {
        let [before, after] = self.yardstick_ms;
        let most = before.max(after);
        let least = self
            .yardstick_least_ms
            .unwrap_or(before)
            .min(before)
            .min(after);
        let others = self.others_cores.filter(|cores| *cores > OTHERS);
        let steal = self.steal.filter(|share| *share > STEAL);
        let throttled = self.throttled.filter(|count| *count > 0);
        let changed = (most > YARDSTICK * least).then_some((least, most));
        let remarks = [
            others.map(|cores| format!("other processes kept {cores:.1} cores busy")),
            steal
                .map(|share| format!("the hypervisor took {:.0} % of the CPU time", 100.0 * share)),
            throttled.map(|count| format!("the CPU was throttled {count} times")),
            // Its rates and not its times: one that was given up has no time of its own.
            changed.map(|(least, most)| {
                let times = most / least;
                format!(
                    "a fixed computation ran {times:.1} times slower at one moment than at another"
                )
            }),
        ];
        remarks.into_iter().flatten().collect()
    }
}

/// What a GPU did while a run was timed on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DeviceState {
    /// Processes that computed on it before the run began.
    pub other_processes: u32,
    /// Why it ran slower than it could, in its driver's words.
    pub throttled: Vec<String>,
}

impl DeviceState {
    /// The remarks of [`Conditions::remarks`] on whatever is beyond the bound.
    pub fn remarks(&self) -> Vec<String> {
        let others = self.other_processes;
        let processes = plural(others, "process", "processes");
        let remarks = [
            (others > 0).then(|| format!("the device was shared with {others} other {processes}")),
            (!self.throttled.is_empty())
                .then(|| format!("the device was throttled: {}", self.throttled.join(", "))),
        ];
        remarks.into_iter().flatten().collect()
    }

    /// Whether somebody else used the device, or something throttled it.
    pub fn is_disturbed(&self) -> bool {
        !self.remarks().is_empty()
    }
}

/// Looks at the machine before a run and after it.
pub struct Watch<'a> {
    host: &'a Host,
    clock: Instant,
    load: Option<f64>,
    threads: usize,
    yardstick_ms: f64,
    busy: Option<Busy>,
    own_seconds: Option<f64>,
    throttled: Option<u64>,
}

impl<'a> Watch<'a> {
    /// `threads`: as many as what is watched computes with.
    pub fn begin(host: &'a Host, threads: usize) -> Self {
        let threads = threads.clamp(1, MOST_THREADS);
        let yardstick_ms = yardstick(threads);
        Self {
            host,
            threads,
            load: load(host),
            yardstick_ms,
            throttled: throttled(host),
            own_seconds: process::family_cpu_seconds(),
            busy: Busy::of(host),
            clock: Instant::now(),
        }
    }

    pub fn end(self) -> Conditions {
        let Self { host, clock, .. } = self;
        let seconds = clock.elapsed().as_secs_f64();
        let passed = self
            .busy
            .zip(Busy::of(host))
            .map(|(before, after)| after.since(before));
        let own = self
            .own_seconds
            .zip(process::family_cpu_seconds())
            .map(|(before, after)| after - before);
        let others = |(passed, own): (Busy, f64)| {
            ((passed.busy / process::ticks_per_second()? - own) / seconds)
                .max(0.0)
                .into()
        };
        Conditions {
            load: self.load.zip(load(host)).map(Into::into),
            others_cores: passed.zip(own).and_then(others),
            steal: passed.map(|passed| passed.steal / passed.all.max(1.0)),
            throttled: self
                .throttled
                .zip(throttled(host))
                .map(|(before, after)| after.saturating_sub(before)),
            governor: governor(host),
            yardstick_ms: [self.yardstick_ms, yardstick(self.threads)],
            yardstick_threads: Some(self.threads as u32),
            yardstick_least_ms: lock(&LEAST).get(&self.threads).copied(),
        }
    }
}

fn load(host: &Host) -> Option<f64> {
    host.text("/proc/loadavg")?.split(' ').next()?.parse().ok()
}

/// Ticks of all cores together.
#[derive(Clone, Copy)]
struct Busy {
    all: f64,
    /// Working for this machine.
    busy: f64,
    steal: f64,
}

impl Busy {
    fn of(host: &Host) -> Option<Self> {
        let text = host.text("/proc/stat")?;
        let fields = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<f64> = fields
            .split_whitespace()
            .map_while(|field| field.parse().ok())
            .collect();
        let &[user, nice, system, idle, wait, hard, soft, steal, ..] = ticks.as_slice() else {
            return None;
        };
        let busy = user + nice + system + hard + soft;
        Some(Self {
            all: busy + idle + wait + steal,
            busy,
            steal,
        })
    }

    fn since(self, before: Self) -> Self {
        Self {
            all: self.all - before.all,
            busy: self.busy - before.busy,
            steal: self.steal - before.steal,
        }
    }
}

/// Events of heat, and of a control group's quota. None where neither is reported.
fn throttled(host: &Host) -> Option<u64> {
    let slowed = |cpu: String| {
        host.number::<u64>(&format!(
            "{CPUS}/{cpu}/thermal_throttle/core_throttle_count"
        ))
    };
    let stopped = |group: String| {
        field(
            &host.text(&format!("{group}/cpu.stat"))?,
            "nr_throttled",
            ' ',
        )?
        .parse()
        .ok()
    };
    let slowed = host.list(CPUS).into_iter().filter_map(slowed);
    slowed
        .chain(cgroups::own(host).into_iter().filter_map(stopped))
        .reduce(|all, one| all + one)
}

fn governor(host: &Host) -> Option<String> {
    let of = |cpu: String| host.text(&format!("{CPUS}/{cpu}/cpufreq/scaling_governor"));
    let all: BTreeSet<String> = host.list(CPUS).into_iter().filter_map(of).collect();
    (!all.is_empty()).then(|| all.into_iter().collect::<Vec<_>>().join(", "))
}

/// The yardstick has no more threads.
const MOST_THREADS: usize = 64;
/// So often its threads wait for each other: so often that this takes a third of its time where cores are near, and most of it
/// where they are far.
const TURNS: usize = 4_000;
/// How often one thread multiplies in a turn.
const MULTIPLICATIONS: u64 = 100;
/// It is computed at least so often.
const REPETITIONS: usize = 3;
/// A thread that spins for another one lets others run after so many looks.
const LOOKS: u32 = 20_000;
/// It is repeated for so long where it takes longer than it did before: threads that just began may share a core.
const PATIENCE: Duration = Duration::from_millis(20);

/// Least time of the yardstick that was seen, by its number of threads, ms.
static LEAST: Mutex<BTreeMap<usize, f64>> = Mutex::new(BTreeMap::new());

/// Least time of a fixed computation that is repeated, ms: dependent multiplications, which no compiler shortens and no memory slows.
///
/// Several threads do as much each, and spin for each other between turns, as those of runtimes do: where cores are far apart, or
/// one of them is taken, they wait. Each stays on a core of its own: new threads may share one for longer than all of it takes.
fn yardstick(threads: usize) -> f64 {
    let usual = YARDSTICK * lock(&LEAST).get(&threads).copied().unwrap_or(f64::INFINITY);
    let arrived = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    // All have come so many times before any of them goes on, unless all is over.
    let meet = |times: usize| {
        arrived.fetch_add(1, Ordering::AcqRel);
        let mut looks = 0;
        while arrived.load(Ordering::Acquire) < threads * times && !is_over.load(Ordering::Acquire)
        {
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop()
            } else {
                std::thread::yield_now()
            }
        }
    };
    let mut least = f64::INFINITY;
    std::thread::scope(|scope| {
        for number in 1..threads {
            let meet = &meet;
            let is_over = &is_over;
            scope.spawn(move || {
                process::stay_on_cpu(number);
                let mut times = 0;
                while !is_over.load(Ordering::Acquire) {
                    std::hint::black_box(multiplied());
                    times += 1;
                    meet(times);
                }
            });
        }
        scope.spawn(|| {
            process::stay_on_cpu(0);
            let begin = Instant::now();
            for repetition in 1.. {
                let clock = Instant::now();
                let mut turns = 0;
                while turns < TURNS && begin.elapsed() < PATIENCE {
                    std::hint::black_box(multiplied());
                    turns += 1;
                    meet((repetition - 1) * TURNS + turns);
                }
                // Of a repetition that was given up, as long as the whole would have taken.
                let took = clock.elapsed().as_secs_f64() * 1e3 * TURNS as f64 / turns.max(1) as f64;
                least = least.min(took);
                let is_usual = repetition >= REPETITIONS && least <= usual;
                if is_usual || begin.elapsed() >= PATIENCE {
                    is_over.store(true, Ordering::Release);
                    break;
                }
            }
        });
    });
    let mut seen = lock(&LEAST);
    let best = seen.entry(threads).or_insert(least);
    *best = best.min(least);
    least
}

fn multiplied() -> u64 {
    let begin = std::hint::black_box(0x9e37_79b9_7f4a_7c15_u64);
    (0..MULTIPLICATIONS).fold(begin, |x, i| {
        (x ^ (x >> 29))
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
            .wrapping_add(i)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Conditions = Conditions {
        load: Some([8.0, 9.0]),
        yardstick_ms: [1.0, 1.1],
        yardstick_threads: Some(2),
        yardstick_least_ms: Some(0.9),
        others_cores: Some(0.1),
        steal: Some(0.001),
        throttled: Some(0),
        governor: None,
    };

    #[test]
    fn only_what_is_beyond_its_bound_is_reported() {
        assert_eq!(QUIET.remarks(), [""; 0]);
        let loud = Conditions {
            yardstick_ms: [1.0, 1.5],
            others_cores: Some(1.31),
            steal: Some(0.2),
            throttled: Some(3),
            governor: Some("powersave".into()),
            ..QUIET
        };
        assert_eq!(loud.remarks().len(), 5);
        assert_eq!(
            loud.remarks()[..2],
            [
                "other processes kept 1.3 cores busy",
                "the hypervisor took 20 % of the CPU time"
            ]
        );
        assert_eq!(
            Conditions {
                governor: Some("performance".into()),
                ..QUIET
            }
            .remarks(),
            [""; 0]
        );
        // It was slow all the time, and had been faster before.
        let slow = Conditions {
            yardstick_least_ms: Some(0.5),
            ..QUIET
        };
        assert_eq!(
            slow.remarks(),
            ["a fixed computation ran 2.2 times slower at one moment than at another"]
        );
        let governed = Conditions {
            governor: Some("powersave".into()),
            ..QUIET
        };
        assert!(governed.remarks().len() == 1 && !governed.is_disturbed());
    }

    #[test]
    fn the_yardstick_takes_about_as_long_with_several_threads() {
        let cores = std::thread::available_parallelism().unwrap().get();
        for threads in [1, cores, 2 * cores] {
            let took = yardstick(threads);
            assert!(took > 0.0 && took.is_finite(), "{took}");
        }
        assert!(lock(&LEAST).len() >= 2);
    }

    #[test]
    fn a_machine_is_read_from_its_files() {
        let (_root, host) = Host::bare(&[]);
        host.put("/proc/loadavg", "1.50 1.00 1.17 6/133 15411");
        host.put("/proc/stat", "cpu  100 0 50 800 0 0 0 50 0 0\ncpu0 1 2 3");
        host.put(
            "/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count",
            "7",
        );
        host.put(
            "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
            "powersave",
        );
        host.put(
            "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
            "performance",
        );
        let watch = Watch::begin(&host, 1);
        host.put("/proc/stat", "cpu  100 0 50 870 0 0 0 80 0 0\ncpu0 1 2 3");
        host.put(
            "/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count",
            "9",
        );
        let found = watch.end();
        assert_eq!(
            (found.load, found.throttled, found.steal),
            (Some([1.5, 1.5]), Some(2), Some(0.3))
        );
        assert_eq!(found.governor.as_deref(), Some("performance, powersave"));
        assert!(found.yardstick_ms.iter().all(|ms| *ms > 0.0));
        assert_eq!(found.others_cores, Some(0.0));
    }

    #[test]
    fn a_device_reports_who_else_uses_it_and_why_it_is_slow() {
        assert_eq!(
            DeviceState {
                other_processes: 0,
                throttled: vec![]
            }
            .remarks(),
            [""; 0]
        );
        let loud = DeviceState {
            other_processes: 1,
            throttled: vec!["sw power cap".into()],
        };
        assert_eq!(
            loud.remarks(),
            [
                "the device was shared with 1 other process",
                "the device was throttled: sw power cap"
            ]
        );
    }

    #[test]
    fn a_machine_that_reports_nothing_is_not_called_disturbed() {
        let (_root, host) = Host::bare(&[]);
        let found = Watch::begin(&host, 1).end();
        assert_eq!(
            (found.load, found.others_cores, found.steal, found.throttled),
            (None, None, None, None)
        );
    }
}
