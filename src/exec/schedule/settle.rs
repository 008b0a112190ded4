//! What the end of one execution means for the steps that waited for it.

use crate::event::{Event, Execution, Span};
use crate::exec::perform::{Performed, error_text};
use crate::exec::schedule::Scheduler;
use crate::exec::state::{StepResult, StepState};
use crate::record::{Outcome, Record};
use crate::step::StepId;

impl Scheduler<'_> {
    /// Takes in how a step ended; gives the step whose dependents may go on, if any may.
    pub(super) fn settle(&mut self, id: StepId, performed: Performed, log: Option<String>, span: Span) -> Settled {
        let name = self.world.plan.step(id).name.clone();
        match performed {
            Performed::Executed { record, transient: true, .. } if self.may_try_again(id, record.outcome) => {
                self.try_again(id, *record, log, span);
                Settled::Waits
            }
            Performed::Executed { record, unchanged, .. } => {
                self.tell(Event::StepFinished {
                    step: name.clone(),
                    outcome: record.outcome,
                    reason: record.reason.clone(),
                    seconds: record.seconds,
                    log: log.filter(|_| !record.outcome.is_made()),
                    repro: record.repro.clone(),
                    execution: Some(Execution { key: record.key.digest(), span }),
                    load: self.load(),
                });
                let is_read = self.world.plan.dependents(id).next().is_some();
                if unchanged && is_read {
                    self.tell(Event::Unchanged { step: name });
                }
                if let Some(text) = self.memory.executed(id, self.world.plan.step(id), &record) {
                    self.tell(Event::Warning { text });
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
                if !self.is_done(from) || self.world.store.check_tree(&digest).is_ok() {
                    return Settled::Lost { producer: from, consumer: id };
                }
                let producer = self.world.plan.step(from).name.clone();
                self.tell(Event::Warning {
                    text: format!("the output of {producer} is damaged ({what}); it runs again"),
                });
                if let Err(e) = self.world.store.discard_tree(&digest) {
                    self.finish_unstarted(id, error_text(&e.into()));
                    return Settled::Done(id);
                }
                self.set(from, StepState::Unknown);
                Settled::Lost { producer: from, consumer: id }
            }
        }
    }

    fn returned(&mut self, step: String, why: String, span: Span) {
        self.tell(Event::StepReturned { step, why, span, load: self.load() });
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

    /// Takes in what a remote said; the step, if it is done by that.
    pub(super) fn answered(&mut self, id: StepId, record: Option<Box<Record>>) -> Option<StepId> {
        self.questions.answered(id);
        let StepState::Ready { key, .. } = &self.states[id.0 as usize] else {
            return None; // something that it reads is made again; it asks anew when it is ready again
        };
        let Some(record) = record.filter(|record| record.key == *key) else {
            self.wait_for_turn(id);
            return None;
        };
        let (made, host) = (record.started.clone(), record.host.clone());
        self.tell(Event::Fetched { step: record.step.clone(), made, host });
        self.set(id, StepState::Done(StepResult { fetched: true, ..StepResult::hit(*record) }));
        Some(id)
    }

    /// Ends a step that could not even start. It leaves no record: nothing was executed.
    pub(super) fn finish_unstarted(&mut self, id: StepId, why: String) {
        self.tell(Event::StepFinished {
            step: self.world.plan.step(id).name.clone(),
            outcome: Outcome::Fail,
            reason: Some(why.clone()),
            seconds: 0.0,
            log: None,
            repro: None,
            execution: None,
            load: self.load(),
        });
        self.set(id, StepState::Done(StepResult::skipped(Outcome::Fail, why)));
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
