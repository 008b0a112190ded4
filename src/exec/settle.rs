//! What the end of one execution means for the steps that waited for it.

use crate::event::{Event, Execution, Span};
use crate::exec::outcome::Judged;
use crate::exec::perform::{Performed, error_text, log_if_any};
use crate::exec::schedule::Scheduler;
use crate::exec::state::{How, StepResult, StepState};
use crate::record::Outcome;
use crate::step::StepId;

impl Scheduler<'_> {
    /// Takes in how a step ended; gives the step whose dependents may go on, if any may.
    pub(super) fn settle(&mut self, id: StepId, performed: Performed, span: Span) -> Settled {
        let name = self.context.plan.step(id).name.clone();
        match performed {
            Performed::Executed { record, transient, .. } if transient && self.is_tried_again(id, &record, span) => {
                Settled::Waits
            }
            Performed::Executed { record, unchanged, .. } => {
                let passed = record.outcome.is_made();
                self.context.listener.tell(Event::StepFinished {
                    step: name.clone(),
                    outcome: record.outcome,
                    reason: record.reason.clone(),
                    seconds: record.seconds,
                    log: if passed { None } else { log_if_any(&self.context.store.log_path(&name)) },
                    repro: record.repro.clone(),
                    execution: Some(Execution { key: record.key.digest(), span }),
                    load: self.load(),
                });
                let is_read = self.context.plan.dependents(id).any(|reader| reader != self.context.plan.report);
                if unchanged && is_read {
                    self.context.listener.tell(Event::Unchanged { step: name });
                }
                if let Some(text) = self.memory.executed(id, self.context.plan.step(id), &record) {
                    self.context.listener.tell(Event::Warning { text });
                }
                if record.stands.is_some() {
                    self.met.insert(record.key.digest());
                }
                self.set(id, StepState::Done(StepResult::executed(*record)));
                Settled::Done(id)
            }
            Performed::Hit(record) => {
                self.returned(name, "an equal step, here or of another orch, made it meanwhile".into(), span);
                self.set(id, StepState::Done(StepResult::hit(*record)));
                Settled::Done(id)
            }
            Performed::InputLost { from, digest, what } => {
                self.returned(name, format!("an input was lost: {what}"), span);
                // Another step that reads it may have noticed first: it is being made again, or is whole again by now.
                if !self.is_done(from) || self.context.store.check_tree(&digest).is_ok() {
                    return Settled::Lost { producer: from, consumer: id };
                }
                let producer = self.context.plan.step(from).name.clone();
                self.context.listener.tell(Event::Warning {
                    text: format!("the output of {producer} is damaged ({what}); it runs again"),
                });
                if let Err(e) = self.context.store.discard_tree(&digest) {
                    self.finish_unstarted(id, Judged::failed(Outcome::Fail, error_text(&e.into())));
                    return Settled::Done(id);
                }
                self.set(from, StepState::Unknown);
                Settled::Lost { producer: from, consumer: id }
            }
        }
    }

    fn returned(&self, step: String, why: String, span: Span) {
        self.context.listener.tell(Event::StepReturned { step, why, span, load: self.load() });
    }

    /// Decides the steps that waited for this one.
    pub(super) fn wake(&mut self, settled: Settled) {
        match settled {
            Settled::Done(id) => self.consult_dependents(id),
            Settled::Waits => {}
            Settled::Lost { producer, consumer } => {
                self.set(consumer, StepState::Unknown);
                match self.states[producer.0 as usize] {
                    StepState::Unknown => self.reopen(producer),
                    StepState::Done(_) => {
                        self.consult(consumer);
                        if self.is_ready(consumer) {
                            self.queue(consumer);
                        }
                    }
                    // Its end will wake the consumer.
                    StepState::Ready { .. } | StepState::Running => {}
                }
            }
        }
    }

    /// Ends a step that could not even start. It leaves no record: nothing was executed.
    pub(super) fn finish_unstarted(&mut self, id: StepId, judged: Judged) -> StepId {
        if judged.transient && self.is_started_again(id, &judged) {
            return id;
        }
        let name = self.context.plan.step(id).name.clone();
        self.context.listener.tell(Event::StepFinished {
            step: name,
            outcome: judged.outcome,
            reason: judged.reason.clone(),
            seconds: 0.0,
            log: None,
            repro: None,
            execution: None,
            load: self.load(),
        });
        let result = StepResult {
            how: How::Skipped,
            reason: judged.reason,
            outcome: judged.outcome,
            ..StepResult::not_needed()
        };
        self.set(id, StepState::Done(result));
        id
    }
}

pub(super) enum Settled {
    Done(StepId),
    /// It is tried again later.
    Waits,
    Lost {
        producer: StepId,
        consumer: StepId,
    },
}

/// A step whose server did not start; another attempt may find it well.
pub(super) fn unstarted(error: &anyhow::Error) -> Judged {
    Judged::failed(Outcome::Fail, error_text(error)).transient()
}
