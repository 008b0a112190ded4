//! What the machine has, what executing steps hold of it, and whether one more may start.
//!
//! Pure: no clock, no steps, no I/O. A timed run on the CPU has the machine to itself; a timed run on a device has the
//! device to itself and one core; everything else shares cores and memory. Two names of one device are one unit.

use std::fmt;
use std::sync::Arc;

/// What there is to be shared.
#[derive(Debug, Clone)]
pub(super) struct Capacity {
    pub(super) cores: u32,
    /// Bytes; `u64::MAX` where nobody could say.
    pub(super) memory: u64,
    pub(super) units: Vec<Unit>,
    /// Steps that may execute elsewhere at a time.
    pub(super) away: u32,
}

/// A device that can be held.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    /// `cuda:0`
    pub(super) token: String,
    /// Bytes of its own memory, where it says.
    pub(super) vram: Option<u64>,
}

/// What a step must hold to execute. Steps with equal claims are alike to everything in here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) host: Host,
    /// Bytes of main memory; 0 where nothing is known.
    pub(super) memory: u64,
    pub(super) device: Option<DeviceClaim>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Host {
    Cores(u32),
    /// Another machine's: it takes nothing of this one.
    Away,
    /// Nothing else may execute beside it.
    Whole,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeviceClaim {
    /// Positions of units that are as good as each other.
    pub(super) any_of: Arc<[usize]>,
    /// Nobody else may use it meanwhile.
    pub(super) timed: bool,
    /// Bytes of the device's memory; 0 where nothing is known.
    pub(super) vram: u64,
}

impl Claim {
    /// A step that takes a core, and about which nothing else is known.
    #[cfg(test)]
    pub(super) const CORE: Self = Self {
        host: Host::Cores(1),
        memory: 0,
        device: None,
    };
}

/// What a waiting step waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lack {
    /// A step has the whole machine.
    Host,
    /// It needs the whole machine, and others execute.
    Idle,
    Cores,
    Away,
    Memory,
    Device(String),
    Vram(String),
    /// A step that was overtaken too often starts before all others.
    Turn,
    /// Its driver is queried for the memory of the device.
    Size,
    /// It is one of several rounds, or is measured again: the others of the round before are executed first.
    Round,
    /// Something is being installed: what it requires, or what would disturb a timed run.
    Setup,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("exclusive host"),
            Self::Idle => f.write_str("idle host"),
            Self::Cores => f.write_str("cores"),
            Self::Away => f.write_str("a place at the executor"),
            Self::Memory => f.write_str("memory"),
            Self::Device(token) => write!(f, "device {token}"),
            Self::Vram(token) => write!(f, "memory of {token}"),
            Self::Turn => f.write_str("turn of an overtaken step"),
            Self::Size => f.write_str("size of the device's memory"),
            Self::Round => f.write_str("the round before"),
            Self::Setup => f.write_str("installation"),
        }
    }
}

/// What one executing step holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) cores: u32,
    pub(super) memory: u64,
    pub(super) unit: Option<usize>,
    pub(super) whole: bool,
    is_away: bool,
    timed: bool,
    pub(super) vram: u64,
}

/// What of the machine is in use.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) capacity: Capacity,
    cores: u32,
    memory: u64,
    away: u32,
    running: u32,
    whole: bool,
    used: Vec<Used>,
}

#[derive(Debug, Default, Clone)]
struct Used {
    timed: bool,
    /// The last step that took it may still wait for another orch process there.
    is_entering: bool,
    /// Another orch process may use it.
    is_elsewhere: bool,
    sharers: u32,
    vram: u64,
}

impl Machine {
    pub(super) fn new(capacity: Capacity) -> Self {
        let used = vec![Used::default(); capacity.units.len()];
        Self {
            capacity,
            cores: 0,
            memory: 0,
            away: 0,
            running: 0,
            whole: false,
            used,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running == 0
    }

    /// The claim, limited to what there is: a step that asks for more than the machine has runs alone rather than
    /// never.
    pub(super) fn fitted(&self, claim: Claim) -> Claim {
        let host = match claim.host {
            Host::Away => Host::Away,
            _ if claim.memory > self.capacity.memory => Host::Whole,
            Host::Cores(cores) => Host::Cores(cores.clamp(1, self.capacity.cores)),
            Host::Whole => Host::Whole,
        };
        // A step that runs alone or elsewhere shares nothing, so its memory does not matter.
        let memory = if matches!(host, Host::Whole | Host::Away) {
            0
        } else {
            claim.memory
        };
        let device = claim.device.map(|device| {
            let most = device
                .any_of
                .iter()
                .filter_map(|at| self.capacity.units[*at].vram)
                .min();
            DeviceClaim {
                vram: device.vram.min(most.unwrap_or(u64::MAX)),
                ..device
            }
        });
        Claim {
            host,
            memory,
            device,
        }
    }

    /// What a step with this claim, which must be a fitted one, would hold; or what it lacks.
    pub(super) fn offer(&self, claim: &Claim) -> Result<Held, Lack> {
        if self.whole {
            return Err(Lack::Host);
        }
        let (cores, whole) = match claim.host {
            Host::Whole if self.running > 0 => return Err(Lack::Idle),
            Host::Whole => (self.capacity.cores, true),
            Host::Cores(cores) => (cores, false),
            Host::Away if self.away == self.capacity.away => return Err(Lack::Away),
            Host::Away => (0, false),
        };
        if self.cores + cores > self.capacity.cores {
            return Err(Lack::Cores);
        }
        if claim.memory > self.capacity.memory - self.memory {
            return Err(Lack::Memory);
        }
        let (unit, timed, vram) = match &claim.device {
            None => (None, false, 0),
            Some(device) => (Some(self.unit(device)?), device.timed, device.vram),
        };
        Ok(Held {
            cores,
            memory: claim.memory,
            unit,
            whole,
            is_away: claim.host == Host::Away,
            timed,
            vram,
        })
    }

    /// The first of the units that is free for this use; one that another process uses is the last choice.
    fn unit(&self, claim: &DeviceClaim) -> Result<usize, Lack> {
        let mut lack = None;
        let mut last_choice = None;
        for &at in claim.any_of.iter() {
            let unit = &self.capacity.units[at];
            let used = &self.used[at];
            let room = unit
                .vram
                .map_or(u64::MAX, |vram| vram.saturating_sub(used.vram));
            if used.timed || used.is_entering || (claim.timed && used.sharers > 0) {
                lack.get_or_insert_with(|| Lack::Device(unit.token.clone()));
            } else if used.sharers > 0 && claim.vram > room {
                lack = Some(Lack::Vram(unit.token.clone()));
            } else if used.is_elsewhere {
                last_choice.get_or_insert(at);
            } else {
                return Ok(at);
            }
        }
        last_choice.ok_or_else(|| lack.expect("BUG: a claim on a device names no device"))
    }

    pub(super) fn take(&mut self, held: &Held) {
        self.cores += held.cores;
        self.memory += held.memory;
        self.running += 1;
        self.away += u32::from(held.is_away);
        self.whole = held.whole;
        if let Some(at) = held.unit {
            let used = &mut self.used[at];
            used.timed = held.timed;
            used.sharers += 1;
            used.vram += held.vram;
        }
    }

    /// Marks a unit that a step has taken and where other processes may keep it waiting: another step that started would only
    /// wait beside it, and hold a core.
    pub(super) fn set_entering(&mut self, unit: usize, is_entering: bool) {
        self.used[unit].is_entering = is_entering;
    }

    /// Notes whether another orch process uses a unit.
    pub(super) fn set_elsewhere(&mut self, unit: usize, is_elsewhere: bool) {
        self.used[unit].is_elsewhere = is_elsewhere;
    }

    pub(super) fn give_back(&mut self, held: &Held) {
        self.cores -= held.cores;
        self.memory -= held.memory;
        self.running -= 1;
        self.away -= u32::from(held.is_away);
        self.whole = false;
        if let Some(at) = held.unit {
            let used = &mut self.used[at];
            used.timed = false;
            used.sharers -= 1;
            used.vram -= held.vram;
        }
    }
}

#[cfg(test)]
#[path = "resources_tests.rs"]
pub(super) mod tests;
