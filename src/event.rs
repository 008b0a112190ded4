//! What happens during a run: the messages from `exec` to its listeners, and the only interface between them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize, Serializer};

use crate::base::{Digest, is_default};
use crate::key::MissReason;
use crate::record::Outcome;

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The plan is made and every key that can be known is known.
    Started {
        steps: u32,
        to_run: u32,
        /// How many of the steps that are to run decide a case.
        cases: u32,
        /// What each step that is to run took when it last succeeded, seconds. A step without a record is missing.
        #[serde(skip)]
        recorded: BTreeMap<String, f64>,
    },
    /// What the steps that are to run need and this machine lacks: what, how large, how long. It is installed when the first
    /// step needs it, and not at all if none does.
    ToInstall {
        text: String,
    },
    /// Something is being installed.
    SetupStarted {
        what: String,
    },
    SetupProgress {
        what: String,
        text: String,
    },
    SetupFinished {
        what: String,
        seconds: f64,
        error: Option<String>,
    },
    StepStarted {
        step: String,
        reason: MissReason,
        slot: Slot,
        /// The time since its inputs were there.
        waited: Duration,
        /// What it had to wait for last, e.g. `memory`; None if it did not have to wait.
        waited_for: Option<String>,
        holds: Holds,
        load: Load,
    },
    StepProgress {
        step: String,
        text: String,
    },
    /// It waits for another orch process of this machine, by these words.
    StepWaiting {
        step: String,
        text: String,
    },
    StepFinished {
        step: String,
        outcome: Outcome,
        reason: Option<String>,
        seconds: f64,
        log: Option<String>,
        repro: Option<String>,
        /// None if it ended before it could start.
        execution: Option<Execution>,
        load: Load,
    },
    /// It gave its slot back without an outcome: another process did it meanwhile, or an input turned out to be lost.
    StepReturned {
        step: String,
        why: String,
        span: Span,
        load: Load,
    },
    /// Another machine had made it, and the remote store gave its result.
    Fetched {
        step: String,
        /// The moment when that machine began it, RFC 3339.
        made: String,
        host: String,
    },
    /// The output came out as it was before, so nothing below it runs for its sake.
    Unchanged {
        step: String,
    },
    /// Something is wrong that costs speed and not truth: a damaged cache entry, a file that cannot be written.
    Warning {
        text: String,
    },
    Interrupted,
}

/// The place where a step executes. It is only shown: steps do not know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// One of the slots that `--jobs` gives; the lowest, if it takes more than one.
    Job(u32),
    /// The whole machine.
    Exclusive,
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(number) => write!(f, "job {number}"),
            Self::Exclusive => f.write_str("exclusive"),
        }
    }
}

impl Serialize for Slot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What a step has for itself while it executes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holds {
    pub cores: u32,
    /// Bytes that it is expected to take; 0 where nothing is known.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory: u64,
    /// `cuda:0`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Bytes of the device's own memory that it is expected to take; 0 where nothing is known.
    #[serde(default, skip_serializing_if = "is_default")]
    pub vram: u64,
}

impl Holds {
    pub const ONE_CORE: Self = Self {
        cores: 1,
        memory: 0,
        device: None,
        vram: 0,
    };
}

/// How many steps execute and how many wait for a slot, at the moment of an event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Load {
    pub running: u32,
    pub ready: u32,
}

/// The time that a job thread worked on a step, as that thread measured it.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Span {
    #[serde(skip)]
    pub begin: Instant,
    #[serde(skip)]
    pub end: Instant,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct Execution {
    pub key: Digest,
    pub span: Span,
}

/// Constructors for the tests of listeners.
#[cfg(test)]
impl Event {
    /// A step begins that was ready for 5 ms.
    pub(crate) fn began(step: &str, slot: Slot, waited_for: Option<&str>, holds: Holds) -> Self {
        let reason = MissReason::NeverRan;
        let waited = Duration::from_millis(5);
        let waited_for = waited_for.map(str::to_owned);
        let load = Load {
            running: 1,
            ready: 0,
        };
        Self::StepStarted {
            step: step.into(),
            reason,
            slot,
            waited,
            waited_for,
            holds,
            load,
        }
    }

    pub(crate) fn ended(
        step: &str,
        outcome: Outcome,
        reason: Option<&str>,
        begin: Instant,
        end: Instant,
    ) -> Self {
        let execution = Some(Execution {
            key: Digest::of(b"key"),
            span: Span { begin, end },
        });
        let step = step.into();
        let reason = reason.map(str::to_owned);
        let load = Load::default();
        Self::StepFinished {
            step,
            outcome,
            reason,
            seconds: 0.25,
            log: None,
            repro: None,
            execution,
            load,
        }
    }
}

/// Whoever listens to a run. Called from the scheduling thread and from job threads.
pub trait Listener: Send + Sync {
    fn tell(&self, event: Event);
}

impl<F: Fn(Event) + Send + Sync> Listener for F {
    fn tell(&self, event: Event) {
        self(event);
    }
}
