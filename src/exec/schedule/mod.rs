//! The scheduler of a run: what each message means for it.
//!
//! It decides and does nothing: what is to be done comes out as effects, in the order in which they must be performed. It
//! may look at the store, at the user's files and at the locks of devices; it has no threads, no clock and no listener. How effects are performed is
//! `driver`'s concern; a preview has none but events.
//!
//! Its parts own what they know: `steps` the state of every step, `claims` what steps take, `queue`, `setups`
//! and `retries` the steps that wait. `consult` decides what a step becomes, `dispatch` which one starts.

mod again;
mod claims;
mod consult;
mod devices;
mod dispatch;
pub(super) mod fallback;
mod lookup;
mod memory;
pub(super) mod message;
mod queue;
mod resources;
pub(super) mod retry;
mod rounds;
mod setups;
mod slots;
pub(super) mod steps;
mod useful;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use crate::base::text::error_text;
use crate::event::{Event, Execution, Span};
use crate::exec::options::{KeepGoing, Options};
use crate::exec::perform::attempts::{attempt_log, attempt_of};
use crate::exec::perform::ended::{InputLost, Performed};
use crate::exec::perform::task::Choices;
use crate::exec::schedule::again::Again;
use crate::exec::schedule::claims::Claims;
use crate::exec::schedule::devices::Devices;
use crate::exec::schedule::fallback::is_expected;
use crate::exec::schedule::message::{Effect, Message};
use crate::exec::schedule::queue::Queue;
use crate::exec::schedule::resources::{Capacity, Lack, Machine};
use crate::exec::schedule::retry::{Last, Retries};
use crate::exec::schedule::rounds::Rounds;
use crate::exec::schedule::setups::Setups;
use crate::exec::schedule::slots::Slots;
use crate::exec::schedule::steps::Steps;
use crate::exec::schedule::useful::Useful;
use crate::exec::state::{StepResult, StepState};
use crate::exec::world::World;
use crate::record::{Attempt, Outcome, Record};
use crate::step::StepId;

pub(super) struct Scheduler<'a> {
    world: World<'a>,
    /// What is to be done.
    pub(super) effects: VecDeque<Effect<'a>>,
    /// The moment of the last message.
    now: Instant,
    pub(super) interrupted: bool,
    pub(super) steps: Steps<'a>,
    claims: Claims<'a>,
    slots: Slots,
    /// Steps in state `Ready`.
    queue: Queue,
    setups: Setups,
    /// Results are shared, and steps execute.
    is_shared: bool,
    /// Ready steps whose result another machine may have, and has not answered yet: requested before anything is installed or
    /// occupied for them.
    queried: BTreeSet<StepId>,
    /// Nothing is installed before a first step is known to be nowhere else.
    defers_installing: bool,
    /// What is tried again.
    retries: Retries,
    /// Timed runs that wait until all else is done.
    rounds: Rounds,
    /// Timed runs that are measured again.
    again: Again,
    /// What orch chose for these runs, and why.
    chosen: BTreeMap<StepId, Choices>,
}

impl<'a> Scheduler<'a> {
    pub(super) fn new(world: World<'a>, now: Instant) -> Self {
        let devices = Devices::new(world.inventory);
        let Options { jobs, memory, .. } = *world.options;
        let away = world
            .options
            .routing
            .as_ref()
            .map_or(0, |routing| routing.slots);
        let capacity = Capacity {
            cores: jobs.max(1),
            memory,
            units: devices.units(),
            away,
        };
        let chosen = world
            .plan
            .cases
            .iter()
            .map(|planned| (planned.run, planned.case.choices()));
        Self {
            world,
            effects: VecDeque::new(),
            now,
            interrupted: false,
            steps: Steps::new(world),
            claims: Claims::new(devices),
            slots: Slots::new(Machine::new(capacity)),
            queue: Queue::default(),
            setups: Setups::default(),
            is_shared: false,
            queried: BTreeSet::new(),
            defers_installing: false,
            retries: Retries::default(),
            rounds: Rounds::of(world.plan, world.options.seed),
            again: Again::default(),
            chosen: chosen.filter(|(_, choices)| !choices.is_empty()).collect(),
        }
    }

    /// Steps are about to execute. `shared`: others may have their results.
    pub(super) fn begin(&mut self, shared: bool, now: Instant) {
        self.now = now;
        let plan = self.world.plan;
        let steps = &mut self.steps;
        self.is_shared = shared;
        self.setups.begin(plan, |step| self.world.sends(step));
        if self.world.options.settings.keep_going == KeepGoing::Dependencies {
            let has_failed = |id| {
                steps
                    .result(id)
                    .is_some_and(|result| result.outcome != Outcome::Pass)
            };
            steps.useful = Useful::of(plan, &steps.requested(), &steps.wanted, has_failed);
        }
        let world = self.world;
        let holds = |id| {
            !world.sends(plan.step(id))
                && self.claims.lacks_size(plan.step(id), &self.slots.machine)
        };
        if steps.to_run().any(holds) {
            self.claims.is_probing = true;
            self.effects.push_back(Effect::ProbeSizes);
        }
        for id in self
            .steps
            .wanted
            .iter()
            .copied()
            .filter(|id| self.steps.is_ready(*id))
            .collect::<Vec<_>>()
        {
            self.queue(id);
        }
        // Installing takes longest and needs no step's result, so all of it begins at once; but where results are shared,
        // nothing may have to be installed.
        self.defers_installing = !self.queried.is_empty();
        if !self.defers_installing {
            self.install_wanted();
        }
    }

    /// Takes in what happened.
    pub(super) fn receive(&mut self, message: Message, now: Instant) {
        self.now = now;
        match message {
            Message::Performed(id, performed, log, span) => {
                self.slots.release(id);
                self.performed(id, performed, log, span);
            }
            Message::Entered(id) => self.slots.entered(id),
            Message::NotStarted {
                id,
                key,
                reason,
                why,
                at,
            } => {
                self.slots.release(id);
                self.steps.set(id, StepState::Ready { key, reason });
                self.not_started(id, why, at);
            }
            Message::Answered(id, record) => self.answered(id, record),
            Message::Installed(required, result) => {
                self.setups.finished(required, result);
                let waiting = std::mem::take(&mut self.setups.waiting);
                self.line_up_all(waiting, &Lack::Setup);
            }
            Message::Sized(answers) => {
                let warnings = self.claims.sized(&answers, &mut self.slots.machine);
                self.warn(warnings);
                let waiting = std::mem::take(&mut self.claims.waiting);
                self.line_up_all(waiting, &Lack::Size);
            }
            Message::Interrupted => {
                self.interrupted = true;
                self.tell(Event::Interrupted);
            }
        }
    }

    /// Goes on with what may go on now.
    pub(super) fn advance(&mut self, now: Instant) {
        self.now = now;
        let stopping = self.is_stopping();
        self.end_pauses(stopping);
        if stopping {
            self.end_measuring_again();
        }
        if !stopping {
            self.want_fallbacks();
            self.dispatch();
        }
    }

    /// Whether nothing new begins.
    fn is_stopping(&self) -> bool {
        self.interrupted
            || (self.world.options.settings.keep_going == KeepGoing::Never && self.steps.has_failed)
    }

    /// Whether nothing is left to wait for.
    pub(super) fn is_over(&self) -> bool {
        let nothing_waits =
            self.load().ready == 0 && self.queried.is_empty() && self.retries.is_idle();
        self.slots.machine.is_idle()
            && !self.setups.is_busy()
            && (self.is_stopping() || nothing_waits)
    }

    fn tell(&mut self, event: Event) {
        self.effects.push_back(Effect::Tell(event));
    }

    fn warn(&mut self, texts: impl IntoIterator<Item = String>) {
        texts
            .into_iter()
            .for_each(|text| self.tell(Event::Warning { text }));
    }

    /// An execution ended.
    fn performed(&mut self, id: StepId, performed: Performed, log: Option<String>, span: Span) {
        let step = self.world.plan.step(id);
        match performed {
            Performed::Executed {
                record,
                transient: true,
                ..
            } if self.may_try_again(id, record.outcome) => {
                self.try_again(id, record, log, span);
            }
            Performed::Executed {
                record, unchanged, ..
            } => {
                if let Some(why) = self.why_again(id, &record) {
                    return self.measure_again(id, (record, log, span), why);
                }
                let (record, log, span) = self
                    .settled(id, record.outcome)
                    .unwrap_or((record, log, span));
                let warning = self.claims.memory.executed(id, step, &record);
                if record.stands.is_some() {
                    self.steps.failed_keys.insert(record.key.digest());
                }
                self.finish(id, *record, log, span);
                if unchanged && self.world.plan.dependents(id).next().is_some() {
                    self.tell(Event::Unchanged {
                        step: step.name.clone(),
                    });
                }
                self.warn(warning);
                self.consult_dependents(id);
            }
            Performed::Hit(record) => {
                self.returned(
                    id,
                    "an equal step, here or of another orch, made it meanwhile".into(),
                    span,
                );
                self.steps
                    .set(id, StepState::Done(StepResult::hit(*record)));
                self.consult_dependents(id);
            }
            Performed::Remembered(record) => {
                self.returned(id, "it was executed elsewhere before".into(), span);
                self.fetched(id, record);
            }
            Performed::InputLost(InputLost { from, digest, what }) => {
                self.returned(id, format!("an input was lost: {what}"), span);
                self.steps.set(id, StepState::Unknown);
                if self.retries.keeps_losing(id, digest) {
                    let producer = &self.world.plan.step(from).name;
                    let why = format!(
                        "the output of {producer} is damaged whenever this step reads it ({what}): the step writes to the store"
                    );
                    self.finish_unstarted(id, why);
                    return self.consult_dependents(id);
                }
                // Another step that reads it may have noticed first: it is being made again, or is whole again by now.
                if self.steps.is_done(from) && self.world.store.check_tree(&digest).is_err() {
                    let producer = &self.world.plan.step(from).name;
                    self.warn([format!(
                        "the output of {producer} is lost ({what}); it runs again"
                    )]);
                    if let Err(e) = self.world.store.discard_tree(&digest) {
                        self.finish_unstarted(id, error_text(&e.into()));
                        return self.consult_dependents(id);
                    }
                    self.steps.set(from, StepState::Unknown);
                }
                match self.steps.state(from) {
                    StepState::Unknown => self.reopen(from),
                    StepState::Done(_) => self.consult_and_queue(id),
                    // Its end decides this step.
                    StepState::Ready { .. } | StepState::Running => {}
                }
            }
        }
    }

    /// A step ended with this record; its log is reported if it failed.
    fn finish(&mut self, id: StepId, record: Record, log: Option<String>, span: Span) {
        self.tell(Event::StepFinished {
            step: record.step.clone(),
            outcome: record.outcome,
            reason: record.reason.clone(),
            seconds: record.seconds,
            log: log.filter(|_| !record.outcome.is_made()),
            repro: record.repro.clone(),
            execution: Some(Execution {
                key: record.key.digest(),
                span,
            }),
            load: self.load(),
        });
        self.steps
            .set(id, StepState::Done(StepResult::executed(record)));
    }

    fn returned(&mut self, id: StepId, why: String, span: Span) {
        let step = self.world.plan.step(id).name.clone();
        self.tell(Event::StepReturned {
            step,
            why,
            span,
            load: self.load(),
        });
    }

    /// A remote answered, with the step's result if it has one.
    fn answered(&mut self, id: StepId, record: Option<Box<Record>>) {
        self.queried.remove(&id);
        let found = match self.steps.state(id) {
            StepState::Ready { key, .. } => record.filter(|record| record.key == *key),
            // Something that it reads is made again; it asks anew when it is ready again.
            _ => return self.install_deferred(),
        };
        let Some(record) = found else {
            self.wait_for_turn(id);
            return self.install_deferred();
        };
        self.fetched(id, record);
    }

    /// Another machine had done it.
    fn fetched(&mut self, id: StepId, record: Box<Record>) {
        let made = record.started.clone();
        let host = record.host.clone();
        self.tell(Event::Fetched {
            step: record.step.clone(),
            made,
            host,
        });
        self.steps.set(
            id,
            StepState::Done(StepResult {
                fetched: true,
                ..StepResult::hit(*record)
            }),
        );
        self.consult_dependents(id);
    }

    /// What a step needs did not start, as a Python server may not: it holds nothing any more, and another attempt may find
    /// all well.
    fn not_started(&mut self, id: StepId, why: String, at: String) {
        if !self.may_try_again(id, Outcome::Fail) {
            self.finish_unstarted(id, why);
            return self.consult_dependents(id);
        }
        let outcome = Outcome::Fail;
        let reason = Some(why.clone());
        let attempt = Attempt {
            outcome,
            reason,
            started: at,
            seconds: 0.0,
            log: None,
            waited_seconds: 0.0,
        };
        self.pause(id, attempt, Last::Unstarted(why));
    }

    /// Whether a failed step gets another attempt.
    fn may_try_again(&self, id: StepId, outcome: Outcome) -> bool {
        self.retries.failed(id) < self.retries_of(id)
            && !self.is_stopping()
            && !is_expected(self.world.plan, id, outcome)
    }

    fn retries_of(&self, id: StepId) -> u32 {
        self.world
            .options
            .settings
            .retries
            .or(self.world.plan.step(id).retries)
            .unwrap_or(0)
    }

    /// A failed execution was not the last; the step waits for another from now on.
    fn try_again(&mut self, id: StepId, record: Box<Record>, log: Option<String>, span: Span) {
        let latest = self.world.store.log_path(&record.step);
        let of_attempt = attempt_log(&latest, self.retries.failed(id) + 1);
        let attempt = attempt_of(&record, log.is_some().then_some(&of_attempt));
        self.effects.push_back(Effect::KeepLog {
            log: latest,
            of_attempt,
        });
        let key = record.key.clone();
        let reason = record
            .why
            .clone()
            .expect("BUG: a record says why its step was executed");
        let why = self.pause(id, attempt, Last::Executed(record, span));
        self.returned(id, why, span);
        self.steps.set(id, StepState::Ready { key, reason });
    }

    /// Puts a step aside for its pause, and says why.
    fn pause(&mut self, id: StepId, attempt: Attempt, last: Last) -> String {
        let step = &self.world.plan.step(id).name;
        let failed = self.retries.failed(id) + 1;
        let pause = self.world.options.settings.backoff.pause(step, failed);
        let why = format!(
            "{}: {}; attempt {} of {} in {:.1} s",
            attempt.outcome.label(),
            attempt.reason.as_deref().unwrap_or("no reason was given"),
            failed + 1,
            self.retries_of(id) + 1,
            pause.as_secs_f64()
        );
        self.warn([format!("{step}: {why}")]);
        self.retries.wait(id, attempt, last, self.now, pause);
        why
    }

    /// Lets those go on whose pause is over; if nothing new may begin, their last attempt was the last.
    fn end_pauses(&mut self, stopping: bool) {
        for (id, last) in self.retries.due(self.now, stopping) {
            match last {
                _ if !stopping => {
                    self.wait_for_turn(id);
                    continue;
                }
                Last::Executed(record, span) => self.finish(id, *record, None, span),
                Last::Unstarted(why) => self.finish_unstarted(id, why),
            }
            self.consult_dependents(id);
        }
    }
}

#[cfg(test)]
mod tests;
