//! The loop that owns all state of a run.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::base::Digest;
use crate::event::{Event, Load, Span};
use crate::exec::desk::Desks;
use crate::exec::keys::Keys;
use crate::exec::outcome::Judged;
use crate::exec::perform::{InputAt, Performed, Performer, Task, error_text};
use crate::exec::pool::Pool;
use crate::exec::setup::{self, Readiness, Servers, Setups};
use crate::exec::shared::Questions;
use crate::exec::slots::Slots;
use crate::exec::state::{How, StepResult, StepState};
use crate::exec::{Context, Finished, reporting};
use crate::record::{Outcome, Record};
use crate::step::{Needs, Requirement, Source, Stage, StepId, StepSet};
use crate::store::{FileDigests, StoreError, stat::Stamp};

/// Performs the plan.
pub fn run(context: &Context<'_>) -> Result<Finished, StoreError> {
    let clock = Instant::now();
    let mut scheduler = Scheduler::new(context)?;
    if let Some(text) = context.store.damage()? {
        context.listener.tell(Event::Warning { text });
    }
    scheduler.consult_all();
    let to_run = scheduler.wanted.iter().filter(|id| !scheduler.is_done(*id)).count() as u32;
    context.listener.tell(Event::Started { steps: scheduler.counted(), to_run });
    let is_report = |id: &StepId| context.plan.step(*id).stage == Stage::Report;
    if scheduler.wanted.iter().any(|id| !is_report(&id) && !scheduler.is_done(id)) {
        scheduler.execute_wanted()?;
    }
    scheduler.close();
    if let Err(e) = scheduler.keys.files.save() {
        context
            .listener
            .tell(Event::Warning { text: format!("file digests were not kept: {}", error_text(&e.into())) });
    }
    let results = scheduler.states.into_iter().map(StepState::into_result).collect();
    reporting::finish(context, results, scheduler.keys.files, clock)
}

pub(super) enum Message {
    Performed(StepId, Performed, Span),
    /// What a remote said about a step.
    Answered(StepId, Option<Box<Record>>),
    Installed(Requirement, Result<(), String>),
}

pub(super) struct Scheduler<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) keys: Keys<'a>,
    pub(super) states: Vec<StepState>,
    /// Outputs of steps that are not looked up (`part.rs`).
    pub(super) known: BTreeMap<StepId, Digest>,
    /// One of these is not as it was published.
    pub(super) lost: bool,
    /// Steps that something wanted needs.
    pub(super) wanted: StepSet,
    /// Whether hits are to come with their records, although no report shows them.
    pub(super) whole_records: bool,
    pub(super) setups: Setups,
    /// What each step requires, by its number; filled when steps are about to execute.
    pub(super) requirements: Vec<Vec<Requirement>>,
    /// Steps in state `Ready`, by what they occupy.
    ready_shared: VecDeque<StepId>,
    ready_exclusive: VecDeque<StepId>,
    /// Executing now, by what they occupy.
    shared_running: u32,
    exclusive_running: bool,
    slots: Slots,
    /// None unless results are shared and steps execute.
    pub(super) questions: Option<Questions<'a>>,
    pub(super) failed: bool,
}

impl<'a> Scheduler<'a> {
    pub(super) fn new(context: &'a Context<'a>) -> Result<Self, StoreError> {
        let mut files = context.store.file_digests();
        files.prefetch(context.plan.files());
        Ok(Self::with(context, files, BTreeMap::new()))
    }

    pub(super) fn with(context: &'a Context<'a>, files: FileDigests, known: BTreeMap<StepId, Digest>) -> Self {
        let keys = Keys::new(context, files);
        let states = context.plan.ids().map(|_| StepState::Unknown).collect();
        Self {
            context,
            keys,
            states,
            known,
            lost: false,
            wanted: StepSet::default(),
            whole_records: false,
            setups: Setups::default(),
            requirements: Vec::new(),
            ready_shared: VecDeque::new(),
            ready_exclusive: VecDeque::new(),
            shared_running: 0,
            exclusive_running: false,
            slots: Slots::new(context.options.jobs),
            questions: None,
            failed: false,
        }
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

    pub(super) fn execute_wanted(&mut self) -> Result<(), StoreError> {
        let context = self.context;
        self.keys.files.time_passes();
        let scratch = context.store.scratch()?;
        let ground = context.ground(scratch.dir("commands")?);
        let servers = Servers::default();
        let again = context.options.again();
        let performer = Performer {
            store: context.store,
            desks: Desks::new(&scratch),
            ground: &ground,
            provision: context.provision,
            servers: &servers,
            listener: context.listener,
            cancel: context.cancel,
            host: &context.host.report.name,
            again: &again,
            remote: context.remote,
            job_memory: context.options.job_memory,
        };
        let (sender, receiver) = channel();
        self.questions = Questions::new(context.remote, &sender);
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
        self.requirements = self.context.plan.ids().map(|id| self.requirements(id)).collect();
        // Installing takes longest and needs no step's result, so all of it begins at once; but where results are shared,
        // nothing may have to be installed.
        for id in self.wanted.iter().collect::<Vec<_>>() {
            if self.is_ready(id) {
                self.queue(id);
            }
        }
        let mut waits = self.has_questions();
        (!waits).then(|| self.install_wanted(install));
        let mut told = false;
        loop {
            if self.context.cancel.is_cancelled() && !std::mem::replace(&mut told, true) {
                self.context.listener.tell(Event::Interrupted);
            }
            let fails_fast = self.context.options.fail_fast && self.failed;
            let stopping = self.context.cancel.is_cancelled() || fails_fast || self.lost;
            if !stopping {
                self.dispatch(performer, pool, sender, install);
            }
            let idle = self.shared_running == 0 && !self.exclusive_running;
            let settled = self.nothing_queued() && !self.has_questions();
            if idle && !self.setups.is_busy() && (stopping || settled) {
                return;
            }
            match receiver.recv_timeout(Duration::from_millis(100)) {
                Ok(Message::Performed(id, performed, span)) => {
                    self.release(id);
                    let settled = self.settle(id, performed, span);
                    self.wake(settled);
                }
                Ok(Message::Answered(id, record)) => match self.answered(id, record) {
                    Some(done) => self.consult_dependents(done),
                    // One that must execute here is seldom the only one.
                    None if std::mem::replace(&mut waits, false) => self.install_wanted(install),
                    None => {}
                },
                Ok(Message::Installed(requirement, result)) => self.setups.finished(requirement, result),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    pub(super) fn is_ready(&self, id: StepId) -> bool {
        matches!(self.states[id.0 as usize], StepState::Ready { .. })
    }

    fn needs(&self, id: StepId) -> Needs {
        let step = self.context.plan.step(id);
        step.kind.needs(step)
    }

    /// A ready step goes where `dispatch` finds it, or waits for what a remote says first.
    pub(super) fn queue(&mut self, id: StepId) {
        if !self.asks(id) {
            self.wait_for_turn(id);
        }
    }

    pub(super) fn wait_for_turn(&mut self, id: StepId) {
        self.slots.ready(id);
        match self.needs(id) {
            Needs::Shared(_) => self.ready_shared.push_back(id),
            Needs::Exclusive => self.ready_exclusive.push_back(id),
        }
    }

    pub(super) fn load(&self) -> Load {
        let ready = self.ready_shared.len() + self.ready_exclusive.len();
        Load { running: self.slots.running(), ready: ready as u32 }
    }

    fn nothing_queued(&self) -> bool {
        self.ready_shared.is_empty() && self.ready_exclusive.is_empty()
    }

    fn fits(&self, id: StepId) -> bool {
        let jobs = self.context.options.jobs;
        match self.needs(id) {
            Needs::Shared(slots) => !self.exclusive_running && self.shared_running + slots <= jobs.max(slots),
            Needs::Exclusive => !self.exclusive_running && self.shared_running == 0 && !self.setups.is_busy(),
        }
    }

    /// Starts what can start: everything that shares the machine first, then, with the machine to itself, a timed run.
    /// It looks no further than there are slots, so its cost does not grow with how many steps wait.
    fn dispatch<'env>(
        &mut self,
        performer: &'env Performer<'env>,
        pool: &Pool<'env>,
        sender: &Sender<Message>,
        install: &dyn Fn(Requirement),
    ) where
        'a: 'env,
    {
        let mut passed_over = Vec::new();
        while !self.exclusive_running
            && self.shared_running < self.context.options.jobs
            && let Some(id) = self.ready_shared.pop_front()
        {
            if !self.try_start(id, performer, pool, sender, install) {
                passed_over.push(id);
            }
        }
        passed_over.into_iter().rev().for_each(|id| self.ready_shared.push_front(id));
        while self.ready_shared.is_empty()
            && let Some(id) = self.ready_exclusive.pop_front()
        {
            if !self.try_start(id, performer, pool, sender, install) {
                self.ready_exclusive.push_front(id);
                break;
            }
        }
    }

    /// False if the step must wait. One that cannot start at all has ended.
    fn try_start<'env>(
        &mut self,
        id: StepId,
        performer: &'env Performer<'env>,
        pool: &Pool<'env>,
        sender: &Sender<Message>,
        install: &dyn Fn(Requirement),
    ) -> bool
    where
        'a: 'env,
    {
        // What it reads was found damaged since it became ready, and is being made again: its end wakes this step.
        if self.context.plan.dependencies(id).any(|from| !self.is_done(from)) {
            self.set(id, StepState::Unknown);
            return true;
        }
        let stamps = self.stamps(id);
        if !self.reads_what_its_key_says(id) {
            self.set(id, StepState::Unknown);
            self.consult(id);
            if self.is_ready(id) {
                self.queue(id);
            } else {
                self.consult_dependents(id);
            }
            return true;
        }
        self.install_missing(id, install);
        let problem = match self.setups.readiness(&self.requirements[id.0 as usize]) {
            Readiness::Waiting => return false,
            Readiness::Ready if !self.fits(id) => return false,
            Readiness::Ready => self.start(id, stamps, performer, pool, sender).err().map(|e| error_text(&e)),
            Readiness::Failed(why) => Some(why),
        };
        if let Some(why) = problem {
            let ended = self.finish_unstarted(id, Judged::failed(Outcome::Fail, why));
            self.consult_dependents(ended);
        }
        true
    }

    /// Hands a step to a job thread. Fails when the server that it needs does not start.
    fn start<'env>(
        &mut self,
        id: StepId,
        stamps: Vec<Option<Stamp>>,
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
        let (mut inputs, mut stamps) = (Vec::new(), stamps.into_iter());
        for (name, source) in &step.inputs {
            let at = match source {
                Source::Step(from) => {
                    let digest = self.result(*from).and_then(StepResult::output);
                    let digest = digest.with_context(|| format!("BUG: its input `{name}` is not there"))?;
                    InputAt::Tree { from: *from, digest }
                }
                Source::File(path) => InputAt::File(path.to_path_buf(), stamps.next().flatten()),
                Source::Record(_) => continue,
            };
            inputs.push((name.to_string(), at));
        }
        let StepState::Ready { key, reason } = std::mem::replace(&mut self.states[id.0 as usize], StepState::Running)
        else {
            panic!("BUG: {} is started and not ready", step.name);
        };
        match self.needs(id) {
            Needs::Shared(slots) => self.shared_running += slots,
            Needs::Exclusive => self.exclusive_running = true,
        }
        let task = Task { id, step, key, inputs, why: reason.clone() };
        let (slot, waited) = self.slots.take(id, self.needs(id));
        let load = self.load();
        self.context.listener.tell(Event::StepStarted { step: step.name.clone(), reason, slot, waited, load });
        let sender = sender.clone();
        pool.spawn(move || {
            let begin = Instant::now();
            let performed = performer.perform(task);
            let _ = sender.send(Message::Performed(id, performed, Span { begin, end: Instant::now() }));
        });
        Ok(())
    }

    fn release(&mut self, id: StepId) {
        self.slots.release(id);
        match self.needs(id) {
            Needs::Shared(slots) => self.shared_running -= slots,
            Needs::Exclusive => self.exclusive_running = false,
        }
    }
}
