//! What happens during a run, as told by `exec` to whoever listens. The only language between the two.

use serde::Serialize;

use crate::key::MissReason;
use crate::record::Outcome;

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The plan is made and every key that can be known is known.
    Started {
        steps: u32,
        to_run: u32,
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
    },
    StepProgress {
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

/// Whoever listens to a run. Called from the scheduling thread and from job threads.
pub trait Listener: Send + Sync {
    fn tell(&self, event: Event);
}
