//! Events → executions with their times: begin and end of a step brought together. Keeps no more than what executes now.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::base::text::shortened;
use crate::event::{Event, Holds, Slot, Span};
use crate::journal::{ExecutedStep, Installed};
use crate::record::Outcome;

/// A reason may quote a whole command line; a run_log need not.
const LONGEST: usize = 400;

/// A step that executes now.
#[derive(Default)]
struct Begun {
    why: String,
    slot: Option<Slot>,
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
        Self {
            start,
            steps: HashMap::new(),
            setups: HashMap::new(),
        }
    }

    /// Seconds since the start.
    pub fn at(&self, moment: Instant) -> f64 {
        micros(moment.saturating_duration_since(self.start))
    }

    /// Takes in the beginnings; gives what has ended.
    pub fn hear(&mut self, event: &Event) -> Option<Ended> {
        match event {
            Event::StepStarted {
                step,
                reason,
                slot,
                waited,
                waited_for,
                holds,
                ..
            } => {
                let waited_for = waited_for.clone();
                let holds = holds.clone();
                let why = shortened(&reason.to_string(), LONGEST).into_owned();
                let begun = Begun {
                    why,
                    slot: Some(*slot),
                    waited: *waited,
                    waited_for,
                    holds,
                };
                self.steps.insert(step.clone(), begun);
                None
            }
            Event::StepFinished {
                step,
                outcome,
                reason,
                execution,
                ..
            } => {
                let not_begun = || Begun {
                    why: "it could not start".to_owned(),
                    holds: Holds::ONE_CORE,
                    ..Begun::default()
                };
                let begun = self.steps.remove(step).unwrap_or_else(not_begun);
                let ran = self.ran(
                    step,
                    begun,
                    *outcome,
                    reason.as_deref(),
                    execution.map(|done| done.span),
                );
                Some(Ended::Step(ExecutedStep {
                    key: execution.map(|done| done.key),
                    ..ran
                }))
            }
            Event::StepReturned {
                step, why, span, ..
            } => {
                let begun = self.steps.remove(step)?;
                Some(Ended::Returned(self.ran(
                    step,
                    begun,
                    Outcome::Incomplete,
                    Some(why),
                    Some(*span),
                )))
            }
            Event::SetupStarted { what } => {
                self.setups.insert(what.clone(), Instant::now());
                None
            }
            Event::SetupFinished {
                what,
                seconds,
                error,
            } => {
                let at = self.setups.remove(what).map_or(0.0, |begin| self.at(begin));
                let error = error
                    .as_deref()
                    .map(|text| shortened(text, LONGEST).into_owned());
                Some(Ended::Setup(Installed {
                    what: what.clone(),
                    at,
                    seconds: *seconds,
                    error,
                }))
            }
            _ => None,
        }
    }

    fn ran(
        &self,
        step: &str,
        begun: Begun,
        outcome: Outcome,
        reason: Option<&str>,
        span: Option<Span>,
    ) -> ExecutedStep {
        let (at, seconds) = match span {
            Some(span) => (self.at(span.begin), micros(span.end - span.begin)),
            None => (self.at(Instant::now()), 0.0),
        };
        let Begun {
            why,
            slot,
            waited,
            waited_for,
            holds,
        } = begun;
        let step = step.to_owned();
        let slot = slot.map(|slot| slot.to_string());
        let waited = micros(waited);
        let reason = reason.map(|text| shortened(text, LONGEST).into_owned());
        ExecutedStep {
            step,
            key: None,
            outcome,
            reason,
            why,
            slot,
            at,
            seconds,
            waited,
            waited_for,
            holds,
        }
    }
}

/// What an event brought to an end.
pub enum Ended {
    Step(ExecutedStep),
    /// A slot was occupied and nothing executed.
    Returned(ExecutedStep),
    Setup(Installed),
}

/// Seconds, in whole microseconds: what lies below is noise and makes lines long.
fn micros(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1e6
}
