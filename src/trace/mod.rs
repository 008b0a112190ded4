//! A run as a picture over time: Chrome's trace-event format, which Perfetto and chrome://tracing open.
//!
//! One row per job slot, one for steps that have the machine to themselves, one per device, one per thing that is
//! installed, one for the critical path; counters of running and ready steps and of memory; arrows from a step to those
//! that read it; at each step what it holds and what it had to wait for. Knows the plan's edges
//! and the events, and nothing of how steps are scheduled.

mod format;

use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use crate::base::lock;
use crate::event::{Event, Listener, Load};
use crate::journal::{Ended, ExecutedStep, Follow, Head, Installed};
use crate::plan::Plan;

/// Collects what a trace is made of, while the run goes on.
pub struct Recorder {
    start: Instant,
    state: Mutex<State>,
}

struct State {
    follow: Follow,
    story: Story,
}

/// What happened, with times in seconds since the start.
#[derive(Default)]
struct Story {
    steps: Vec<ExecutedStep>,
    /// Slots that were occupied without an outcome.
    returned: Vec<ExecutedStep>,
    setups: Vec<Installed>,
    loads: Vec<(f64, Load)>,
    warnings: Vec<(f64, String)>,
    /// The time when the store had been searched for every step.
    consulted: Option<f64>,
    interrupted: Option<f64>,
}

impl Recorder {
    pub fn new(start: Instant) -> Self {
        Self {
            start,
            state: Mutex::new(State {
                follow: Follow::new(start),
                story: Story::default(),
            }),
        }
    }

    /// Writes the trace of what has happened so far, all of it or nothing. `memory`: bytes that steps may take at a time.
    pub fn write(&self, path: &Path, plan: &Plan, head: &Head, memory: u64) -> io::Result<()> {
        let state = lock(&self.state);
        let bytes = format::document(
            &state.story,
            state.follow.at(Instant::now()),
            plan,
            (head, memory),
        );
        crate::base::named::save_named(path, &bytes)
    }
}

impl Listener for Recorder {
    fn tell(&self, event: Event) {
        let mut state = lock(&self.state);
        let State { follow, story } = &mut *state;
        let now = self.start.elapsed().as_micros() as f64 / 1e6;
        match &event {
            Event::Started { .. } => story.consulted = Some(now),
            Event::StepStarted { load, .. }
            | Event::StepFinished { load, .. }
            | Event::StepReturned { load, .. } => {
                story.loads.push((now, *load));
            }
            Event::Warning { text } => story.warnings.push((now, text.clone())),
            Event::StepWaiting { step, text } => {
                story.warnings.push((now, format!("{step}: {text}")));
            }
            Event::Interrupted => story.interrupted = Some(now),
            _ => {}
        }
        match follow.hear(&event) {
            Some(Ended::Step(ran)) => story.steps.push(ran),
            Some(Ended::Setup(installed)) => story.setups.push(installed),
            Some(Ended::Returned(ran)) => story.returned.push(ran),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
