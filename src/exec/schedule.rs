//! The loop that owns all state of a run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::event::Event;
use crate::exec::keys::Keys;
use crate::exec::outcome::Judged;
use crate::exec::perform::{InputAt, Performed, Performer, Task, error_text, log_if_any};
use crate::exec::pool::Pool;
use crate::exec::setup::{self, Readiness, Servers, Setups};
use crate::exec::state::{How, StepResult, StepState};
use crate::exec::{Context, Finished, reporting};
use crate::key::MissReason;
use crate::record::Outcome;
use crate::step::{Needs, Requirement, Source, Stage, StepId};
use crate::store::StoreError;

/// Performs the plan.
pub fn run(context: &Context<'_>) -> Result<Finished, StoreError> {
    let clock = Instant::now();
    let mut scheduler = Scheduler::new(context)?;
    scheduler.consult_all();
    let to_run = scheduler.wanted.iter().filter(|id| !scheduler.is_done(**id)).count() as u32;
    context.listener.tell(Event::Started { steps: scheduler.counted(), to_run });
    let is_report = |id: &StepId| context.plan.step(*id).stage == Stage::Report;
    if scheduler.wanted.iter().any(|id| !is_report(id) && !scheduler.is_done(*id)) {
        scheduler.execute_wanted()?;
    }
    scheduler.close();
    if let Err(e) = scheduler.keys.files.save() {
        context
            .listener
            .tell(Event::Warning { text: format!("file digests were not kept: {}", error_text(&e.into())) });
    }
    reporting::finish(context, scheduler.states.into_iter().map(StepState::into_result).collect(), clock)
}

enum Message {
    Performed(StepId, Performed),
    Installed(Requirement, Result<(), String>),
}

pub(super) struct Scheduler<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) keys: Keys<'a>,
    pub(super) states: Vec<StepState>,
    /// Steps that something wanted needs.
    pub(super) wanted: BTreeSet<StepId>,
    setups: Setups,
    /// Executing now, by what they occupy.
    shared_running: u32,
    exclusive_running: bool,
    pub(super) failed: bool,
}

impl StepState {
    pub(super) fn into_result(self) -> StepResult {
        match self {
            Self::Done(result) => result,
            Self::Unknown | Self::Ready { .. } | Self::Running => StepResult::not_needed(),
        }
    }
}

impl<'a> Scheduler<'a> {
    pub(super) fn new(context: &'a Context<'a>) -> Result<Self, StoreError> {
        let Context { plan, provision, host, .. } = context;
        let keys = Keys { plan, provision, files: context.store.file_digests(), host };
        let states = plan.ids().map(|_| StepState::Unknown).collect();
        Ok(Self {
            context,
            keys,
            states,
            wanted: BTreeSet::new(),
            setups: Setups::default(),
            shared_running: 0,
            exclusive_running: false,
            failed: false,
        })
    }

    pub(super) fn is_done(&self, id: StepId) -> bool {
        matches!(self.states[id.0 as usize], StepState::Done(_))
    }

    pub(super) fn result(&self, id: StepId) -> Option<&StepResult> {
        match &self.states[id.0 as usize] {
            StepState::Done(result) => Some(result),
            _ => None,
        }
    }

    /// Makes every transition.
    pub(super) fn set(&mut self, id: StepId, state: StepState) {
        if let StepState::Done(result) = &state {
            self.failed |= result.how != How::Hit && result.outcome.is_failure();
        }
        self.states[id.0 as usize] = state;
    }

    fn counted(&self) -> u32 {
        let hits = self.context.plan.ids().filter(|id| !self.wanted.contains(id) && self.is_done(*id)).count();
        (self.wanted.len() + hits) as u32
    }

    fn execute_wanted(&mut self) -> Result<(), StoreError> {
        let context = self.context;
        let scratch = context.store.scratch()?;
        let servers = Servers::default();
        let performer = Performer {
            store: context.store,
            scratch: &scratch,
            provision: context.provision,
            servers: &servers,
            listener: context.listener,
            cancel: context.cancel,
            host: &context.host.report.name,
            spec: &context.options.spec,
            flags: &context.options.flags,
        };
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            let pool = Pool::start(scope, context.options.jobs);
            let install = |requirement| {
                let sender = sender.clone();
                scope.spawn(move || {
                    let result = setup::install(context.provision, requirement, context.listener);
                    let _ = sender.send(Message::Installed(requirement, result));
                });
            };
            self.turn(&performer, &pool, &sender, &receiver, &install);
            drop(pool);
        });
        Ok(())
    }

    fn turn<'env>(
        &mut self,
        performer: &'env Performer<'env>,
        pool: &Pool<'env>,
        sender: &Sender<Message>,
        receiver: &Receiver<Message>,
        install: &dyn Fn(Requirement),
    ) where
        'a: 'env,
    {
        let requirements: BTreeMap<StepId, Vec<Requirement>> =
            self.context.plan.ids().map(|id| (id, self.requirements(id))).collect();
        // Installing takes longest and needs no step's result, so all of it begins at once.
        for id in self.wanted.clone() {
            if !self.is_done(id) {
                self.setups.missing(&requirements[&id], self.context.provision).into_iter().for_each(install);
            }
        }
        let mut told = false;
        let mut ready: VecDeque<StepId> = self.wanted.iter().copied().filter(|id| self.is_ready(*id)).collect();
        loop {
            if self.context.cancel.is_cancelled() && !std::mem::replace(&mut told, true) {
                self.context.listener.tell(Event::Interrupted);
            }
            let stopping = self.context.cancel.is_cancelled() || (self.context.options.fail_fast && self.failed);
            if !stopping {
                self.dispatch(&mut ready, &requirements, performer, pool, sender);
            }
            let idle = self.shared_running == 0 && !self.exclusive_running;
            if idle && !self.setups.is_busy() && (stopping || ready.is_empty()) {
                return;
            }
            match receiver.recv_timeout(Duration::from_millis(100)) {
                Ok(Message::Performed(id, performed)) => {
                    self.release(id);
                    let settled = self.settle(id, performed, performer);
                    self.wake(settled, &mut ready, &requirements, install);
                }
                Ok(Message::Installed(requirement, result)) => self.setups.finished(requirement, result),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn requirements(&self, id: StepId) -> Vec<Requirement> {
        let step = self.context.plan.step(id);
        step.kind.requires(step)
    }

    pub(super) fn is_ready(&self, id: StepId) -> bool {
        matches!(self.states[id.0 as usize], StepState::Ready { .. })
    }

    fn needs(&self, id: StepId) -> Needs {
        let step = self.context.plan.step(id);
        step.kind.needs(step)
    }

    /// Starts what can start: everything that shares the machine first, then, with the machine to itself, a timed run.
    fn dispatch<'env>(
        &mut self,
        ready: &mut VecDeque<StepId>,
        requirements: &BTreeMap<StepId, Vec<Requirement>>,
        performer: &'env Performer<'env>,
        pool: &Pool<'env>,
        sender: &Sender<Message>,
    ) where
        'a: 'env,
    {
        let mut later = VecDeque::new();
        let mut shared_waits = false;
        while let Some(id) = ready.pop_front() {
            match self.setups.readiness(&requirements[&id]) {
                Readiness::Failed(why) => {
                    let settled = self.finish_unstarted(id, Judged::failed(Outcome::Fail, why));
                    self.consult_dependents(settled, &mut later);
                    continue;
                }
                Readiness::Waiting => {
                    later.push_back(id);
                    continue;
                }
                Readiness::Ready => {}
            }
            let can_start = match self.needs(id) {
                Needs::Shared(slots) => {
                    let fits =
                        !self.exclusive_running && self.shared_running + slots <= self.context.options.jobs.max(slots);
                    shared_waits |= !fits;
                    fits
                }
                Needs::Exclusive => {
                    let alone =
                        self.shared_running == 0 && !self.exclusive_running && !self.setups.is_busy() && !shared_waits;
                    alone && !ready.iter().chain(&later).any(|other| matches!(self.needs(*other), Needs::Shared(_)))
                }
            };
            if !can_start {
                later.push_back(id);
            } else if let Err(e) = self.start(id, performer, pool, sender) {
                let ended = self.finish_unstarted(id, Judged::failed(Outcome::Fail, error_text(&e)));
                self.consult_dependents(ended, &mut later);
            }
        }
        *ready = later;
    }

    /// Hands a step to a job thread. Fails when the server that it needs does not start.
    fn start<'env>(
        &mut self,
        id: StepId,
        performer: &'env Performer<'env>,
        pool: &Pool<'env>,
        sender: &Sender<Message>,
    ) -> anyhow::Result<()>
    where
        'a: 'env,
    {
        let step = self.context.plan.step(id);
        if let Some(env) = step.kind.server(step) {
            performer.servers.start(env, self.context.provision, performer.provision.dir())?;
        }
        let StepState::Ready { key, reason } = std::mem::replace(&mut self.states[id.0 as usize], StepState::Running)
        else {
            panic!("BUG: {} is started and not ready", step.name);
        };
        match self.needs(id) {
            Needs::Shared(slots) => self.shared_running += slots,
            Needs::Exclusive => self.exclusive_running = true,
        }
        let inputs = step.inputs.iter().filter_map(|(name, source)| {
            let at = match source {
                Source::Step(from) => InputAt::Tree { from: *from, digest: self.result(*from)?.output()? },
                Source::File(path) => InputAt::File(path.clone()),
                Source::Record(_) => return None,
            };
            Some((name.clone(), at))
        });
        let task = Task { id, step, key, inputs: inputs.collect(), forced: reason == MissReason::Asked };
        self.context.listener.tell(Event::StepStarted { step: step.name.clone(), reason });
        let sender = sender.clone();
        pool.spawn(move || {
            let performed = performer.perform(task);
            let _ = sender.send(Message::Performed(id, performed));
        });
        Ok(())
    }

    fn release(&mut self, id: StepId) {
        match self.needs(id) {
            Needs::Shared(slots) => self.shared_running -= slots,
            Needs::Exclusive => self.exclusive_running = false,
        }
    }

    /// Takes in how a step ended; gives the step whose dependents may go on, if any may.
    fn settle(&mut self, id: StepId, performed: Performed, performer: &Performer<'_>) -> Settled {
        let name = self.context.plan.step(id).name.clone();
        match performed {
            Performed::Executed { record, unchanged } => {
                self.context.listener.tell(Event::StepFinished {
                    step: name.clone(),
                    outcome: record.outcome,
                    reason: record.reason.clone(),
                    seconds: record.seconds,
                    log: log_if_any(&self.context.store.log_path(&name)),
                    repro: record.repro.clone(),
                });
                let is_read = self.context.plan.dependents(id).iter().any(|reader| *reader != self.context.plan.report);
                if unchanged && is_read {
                    self.context.listener.tell(Event::Unchanged { step: name });
                }
                self.set(id, StepState::Done(StepResult::executed(*record)));
                Settled::Done(id)
            }
            Performed::Hit(record) => {
                self.set(id, StepState::Done(StepResult::hit(*record)));
                Settled::Done(id)
            }
            Performed::InputLost { from, digest, what } => {
                // Another step that reads it may have noticed first: it is being made again, or is whole again by now.
                if !self.is_done(from) || self.context.store.verified_tree(&digest).is_ok() {
                    return Settled::Lost { producer: from, consumer: id };
                }
                let producer = self.context.plan.step(from).name.clone();
                self.context.listener.tell(Event::Warning {
                    text: format!("the output of {producer} is damaged ({what}); it runs again"),
                });
                if let Err(e) = self.context.store.discard_tree(&digest, performer.scratch) {
                    self.finish_unstarted(id, Judged::failed(Outcome::Fail, error_text(&e.into())));
                    return Settled::Done(id);
                }
                self.set(from, StepState::Unknown);
                Settled::Lost { producer: from, consumer: id }
            }
        }
    }

    /// Decides the steps that waited for this one.
    fn wake(
        &mut self,
        settled: Settled,
        ready: &mut VecDeque<StepId>,
        requirements: &BTreeMap<StepId, Vec<Requirement>>,
        install: &dyn Fn(Requirement),
    ) {
        let before = ready.len();
        match settled {
            Settled::Done(id) => self.consult_dependents(id, ready),
            Settled::Lost { producer, consumer } => {
                self.set(consumer, StepState::Unknown);
                match self.states[producer.0 as usize] {
                    StepState::Unknown => self.reopen(producer, ready),
                    StepState::Done(_) => {
                        self.consult(consumer);
                        ready.extend(self.is_ready(consumer).then_some(consumer));
                    }
                    // Its end will wake the consumer.
                    StepState::Ready { .. } | StepState::Running => {}
                }
            }
        }
        for id in ready.iter().skip(before) {
            self.setups.missing(&requirements[id], self.context.provision).into_iter().for_each(install);
        }
    }

    /// Ends a step that could not even start. It leaves no record: nothing was executed.
    fn finish_unstarted(&mut self, id: StepId, judged: Judged) -> StepId {
        let name = self.context.plan.step(id).name.clone();
        self.context.listener.tell(Event::StepFinished {
            step: name,
            outcome: judged.outcome,
            reason: judged.reason.clone(),
            seconds: 0.0,
            log: None,
            repro: None,
        });
        let result = StepResult {
            how: How::Skipped,
            outcome: judged.outcome,
            reason: judged.reason,
            blamed: None,
            record: None,
        };
        self.set(id, StepState::Done(result));
        id
    }
}

enum Settled {
    Done(StepId),
    Lost { producer: StepId, consumer: StepId },
}
