//! Events → executions with their times: begin and end of a step brought together. Keeps no more than what executes now.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::base::text::shortened;
use crate::event::{Event, Holds, Slot};
use crate::journal::{Installed, Ran};
use crate::record::Outcome;

/// A reason may quote a whole command line; a run_log need not.
const LONGEST: usize = 400;

/// A step that executes now.
struct Begun {
    why: String,
    slot: Slot,
    waited: Duration,
    waited_for: Option<String>,
    holds: Holds,
}

pub struct Follow {
    start: Instant,
    steps: HashMap<String, Begun>,
    setups: HashMap<String, Instant>,
}

impl Follow {
    /// `start` is the zero of all times.
    pub fn new(start: Instant) -> Self {
        Self { start, steps: HashMap::new(), setups: HashMap::new() }
    }

    /// Seconds since the start.
    pub fn at(&self, moment: Instant) -> f64 {
        micros(moment.saturating_duration_since(self.start))
    }

    /// Takes in the beginnings; gives what has ended.
    pub fn hear(&mut self, event: &Event) -> Option<Ended> {
        match event {
            Event::StepStarted { step, reason, slot, waited, waited_for, holds, .. } => {
                let (waited_for, holds) = (waited_for.clone(), holds.clone());
                let why = shortened(&reason.to_string(), LONGEST).into_owned();
                let begun = Begun { why, slot: *slot, waited: *waited, waited_for, holds };
                self.steps.insert(step.clone(), begun);
                None
            }
            Event::StepFinished { step, outcome, reason, execution, .. } => {
                let begun = self.steps.remove(step);
                let (at, seconds) = match execution {
                    Some(done) => (self.at(done.span.begin), micros(done.span.end - done.span.begin)),
                    None => (self.at(Instant::now()), 0.0),
                };
                Some(Ended::Step(Ran {
                    step: step.clone(),
                    key: execution.map(|done| done.key),
                    outcome: *outcome,
                    reason: reason.as_deref().map(|text| shortened(text, LONGEST).into_owned()),
                    why: begun.as_ref().map_or_else(|| "it could not start".to_owned(), |begun| begun.why.clone()),
                    slot: begun.as_ref().map(|begun| begun.slot.to_string()),
                    at,
                    seconds,
                    waited: begun.as_ref().map_or(0.0, |begun| micros(begun.waited)),
                    waited_for: begun.as_ref().and_then(|begun| begun.waited_for.clone()),
                    holds: begun.map_or(Holds::ONE_CORE, |begun| begun.holds),
                }))
            }
            Event::StepReturned { step, why, span, .. } => {
                let begun = self.steps.remove(step)?;
                Some(Ended::Returned(Ran {
                    step: step.clone(),
                    key: None,
                    outcome: Outcome::Incomplete,
                    reason: Some(shortened(why, LONGEST).into_owned()),
                    why: begun.why,
                    slot: Some(begun.slot.to_string()),
                    at: self.at(span.begin),
                    seconds: micros(span.end - span.begin),
                    waited: micros(begun.waited),
                    waited_for: begun.waited_for,
                    holds: begun.holds,
                }))
            }
            Event::SetupStarted { what } => {
                self.setups.insert(what.clone(), Instant::now());
                None
            }
            Event::SetupFinished { what, seconds, error } => {
                let at = self.setups.remove(what).map_or(0.0, |begin| self.at(begin));
                let error = error.as_deref().map(|text| shortened(text, LONGEST).into_owned());
                Some(Ended::Setup(Installed { what: what.clone(), at, seconds: *seconds, error }))
            }
            _ => None,
        }
    }
}

/// What an event brought to an end.
pub enum Ended {
    Step(Ran),
    /// A slot was occupied and nothing executed.
    Returned(Ran),
    Setup(Installed),
}

/// Seconds, in whole microseconds: what lies below is noise and makes lines long.
fn micros(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1e6
}
