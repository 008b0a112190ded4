//! The loop that owns all state of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::base::Digest;
use crate::device::Backend;
use crate::event::{Event, Span};
use crate::exec::bug::{Bugs, Ender};
use crate::exec::devices::Devices;
use crate::exec::dispatch::Hands;
use crate::exec::hopes::Hopes;
use crate::exec::keys::Keys;
use crate::exec::laid::LaidTrees;
use crate::exec::memory::Memory;
use crate::exec::perform::{Performed, Performer, error_text};
use crate::exec::pool::Pool;
use crate::exec::queue::Queue;
use crate::exec::resources::{Capacity, Machine};
use crate::exec::retry::Retries;
use crate::exec::setup::{self, Servers, Setups};
use crate::exec::shared::Questions;
use crate::exec::sizes::{self, Sizes};
use crate::exec::slots::Slots;
use crate::exec::state::{StepResult, StepState};
use crate::exec::task::Choices;
use crate::exec::{Context, Finished, KeepGoing, Options, reporting};
use crate::record::Record;
use crate::step::{Requirement, StepId, StepSet};
use crate::store::StoreError;

/// Performs the plan.
pub fn run(context: &Context<'_>) -> Result<Finished, StoreError> {
    let clock = Instant::now();
    let mut scheduler = Scheduler::new(context)?;
    if let Some(text) = context.store.damage()? {
        context.listener.tell(Event::Warning { text });
    }
    scheduler.consult_all();
    if !scheduler.is_open() {
        scheduler.read_records();
    }
    let to_run = scheduler.wanted.iter().filter(|id| !scheduler.is_done(*id)).count() as u32;
    context.listener.tell(Event::Started { steps: scheduler.counted(), to_run });
    loop {
        if scheduler.is_open() {
            scheduler.execute_wanted()?;
        }
        if !scheduler.read_records() || context.cancel.is_cancelled() {
            break;
        }
    }
    scheduler.close();
    // In a store that may only be read, the next run hashes them again.
    if !context.store.is_read_only()
        && let Err(e) = scheduler.keys.files.save()
    {
        context
            .listener
            .tell(Event::Warning { text: format!("file digests were not kept: {}", error_text(&e.into())) });
    }
    let met_bug = scheduler.met_bug;
    let results = scheduler.states.into_iter().map(StepState::into_result).collect();
    reporting::finish(context, results, scheduler.keys.files, met_bug, clock)
}

/// Why nothing is executed for a store that keeps nothing.
fn not_kept(scheduler: &Scheduler<'_>) -> String {
    let plan = scheduler.context.plan;
    let to_run = scheduler.wanted.iter().filter(|id| *id != plan.report && !scheduler.is_done(*id));
    let names: Vec<_> = to_run.map(|id| plan.step(id).name.as_str()).collect();
    let more = if names.len() > 1 { format!(" and {} more", names.len() - 1) } else { String::new() };
    let first = names.first().copied().unwrap_or_default();
    format!(
        "`{first}`{more} would run, and the result could not be kept\n  hint: name another store with --cache-dir; \
         `orch cache export` and `import` take along what this one holds"
    )
}

pub(super) enum Message {
    Performed(StepId, Performed, Span),
    /// What a remote said about a step.
    Answered(StepId, Option<Box<Record>>),
    Installed(Requirement, Result<(), String>),
    /// What the driver of devices said of them.
    Sized(Vec<Backend>),
}

pub(super) struct Scheduler<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) keys: Keys<'a>,
    pub(super) states: Vec<StepState>,
    /// Steps that something wanted needs.
    pub(super) wanted: StepSet,
    /// Whether hits are to come with their records, although no report shows them.
    pub(super) whole_records: bool,
    /// Hits whose records turned out to be damaged, and how.
    pub(super) damaged: BTreeMap<StepId, String>,
    pub(super) setups: Setups,
    /// What each step requires, by its number; filled when steps are about to execute.
    pub(super) requirements: Vec<Vec<Requirement>>,
    /// Steps in state `Ready`.
    pub(super) queue: Queue,
    /// Those among them for which something is being installed.
    pub(super) parked: Vec<StepId>,
    pub(super) slots: Slots,
    pub(super) sizes: Sizes,
    pub(super) devices: Devices<'a>,
    pub(super) memory: Memory,
    pub(super) hopes: Hopes,
    /// What orch chose for these runs, and why.
    pub(super) chosen: BTreeMap<StepId, Choices>,
    /// None unless results are shared and steps execute.
    pub(super) questions: Option<Questions<'a>>,
    pub(super) failed: bool,
    /// A bug of orch's own ended something.
    pub(super) met_bug: bool,
    /// The keys with which steps failed in this run.
    pub(super) met: BTreeSet<Digest>,
    /// What is tried again, and elsewhere.
    pub(super) retries: Retries,
}

impl<'a> Scheduler<'a> {
    pub(super) fn new(context: &'a Context<'a>) -> Result<Self, StoreError> {
        let mut files = context.store.file_digests();
        files.prefetch(context.plan.files());
        let keys = Keys::new(context, files);
        let states = context.plan.ids().map(|_| StepState::Unknown).collect();
        let devices = Devices::new(context.inventory);
        let Options { jobs, memory, .. } = *context.options;
        let capacity = Capacity { cores: jobs.max(1), memory, units: devices.units() };
        Ok(Self {
            context,
            keys,
            states,
            wanted: StepSet::default(),
            whole_records: false,
            damaged: BTreeMap::new(),
            setups: Setups::default(),
            requirements: Vec::new(),
            queue: Queue::default(),
            parked: Vec::new(),
            slots: Slots::new(Machine::new(capacity)),
            sizes: Sizes::default(),
            devices,
            memory: Memory::default(),
            hopes: Hopes::default(),
            chosen: context
                .plan
                .cases
                .iter()
                .map(|c| (c.run, c.case.choices()))
                .filter(|(_, c)| !c.is_empty())
                .collect(),
            questions: None,
            failed: false,
            met_bug: false,
            met: BTreeSet::new(),
            retries: Retries::default(),
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
            self.note_end(id, result.how, result.outcome);
            if !result.outcome.is_made() {
                self.hopes.gone(self.context.plan, id);
            }
        }
        self.states[id.0 as usize] = state;
    }

    pub(super) fn execute_wanted(&mut self) -> Result<(), StoreError> {
        let context = self.context;
        if context.store.is_read_only() {
            context.store.must_be_writable(&not_kept(self))?;
        }
        self.keys.files.time_passes();
        let scratch = context.store.scratch()?;
        let ground = context.ground(scratch.dir("commands")?);
        let servers = Servers::default();
        let (again, bugs) = (context.options.again(), Bugs::new(context.store));
        let performer = Performer {
            store: context.store,
            scratch: &scratch,
            laid: LaidTrees::new(&scratch),
            ground: &ground,
            provision: context.provision,
            servers: &servers,
            listener: context.listener,
            cancel: context.cancel,
            host: &context.host.report.name,
            fingerprint: &context.host.fingerprint,
            again: &again,
            bugs: &bugs,
            remote: context.remote,
            job_memory: context.options.job_memory,
        };
        let (sender, receiver) = channel();
        self.questions = Questions::new(context.remote, &sender);
        let bugs = &bugs;
        std::thread::scope(|scope| {
            let _ender = Ender(context.cancel);
            let pool = Pool::start(scope, context.options.jobs);
            let install = |requirement| {
                let sender = sender.clone();
                scope.spawn(move || {
                    let result = setup::install(context, requirement, bugs);
                    let _ = sender.send(Message::Installed(requirement, result));
                });
            };
            let probe = || {
                let sender = sender.clone();
                scope.spawn(move || drop(sender.send(Message::Sized(sizes::ask(context.probe, bugs)))));
            };
            let hands = Hands { performer: &performer, pool: &pool, sender: &sender, install: &install, probe: &probe };
            self.turn(&hands, &receiver);
            drop(pool);
        });
        self.met_bug |= bugs.met();
        Ok(())
    }

    fn turn<'env>(&mut self, hands: &Hands<'_, 'env>, receiver: &Receiver<Message>)
    where
        'a: 'env,
    {
        self.requirements = self.context.plan.ids().map(|id| self.requirements(id)).collect();
        if self.context.options.keep_going == KeepGoing::Dependencies {
            self.hope();
        }
        self.ask_sizes(hands.probe);
        // Installing takes longest and needs no step's result, so all of it begins at once; but where results are shared,
        // nothing may have to be installed.
        for id in self.wanted.iter().collect::<Vec<_>>() {
            if self.is_ready(id) {
                self.queue(id);
            }
        }
        let mut waits = self.has_questions();
        (!waits).then(|| self.install_wanted(hands.install));
        let mut told = false;
        loop {
            if self.context.cancel.is_cancelled() && !std::mem::replace(&mut told, true) {
                self.context.listener.tell(Event::Interrupted);
            }
            let fails_fast = self.context.options.keep_going == KeepGoing::Never && self.failed;
            let stopping = self.context.cancel.is_cancelled() || fails_fast;
            self.end_waits(stopping);
            if !stopping {
                self.want_fallbacks();
                self.dispatch(hands);
            }
            let settled = self.nothing_queued() && !self.has_questions() && self.retries.is_idle();
            if self.slots.machine.is_idle() && !self.setups.is_busy() && (stopping || settled) {
                return;
            }
            match receiver.recv_timeout(Duration::from_millis(100)) {
                Ok(Message::Performed(id, performed, span)) => {
                    self.slots.release(id);
                    let settled = self.settle(id, performed, span);
                    self.wake(settled);
                }
                Ok(Message::Answered(id, record)) => match self.answered(id, record) {
                    Some(done) => self.consult_dependents(done),
                    // One that must execute here is seldom the only one.
                    None if std::mem::replace(&mut waits, false) => self.install_wanted(hands.install),
                    None => {}
                },
                Ok(Message::Installed(requirement, result)) => {
                    self.setups.finished(requirement, result);
                    self.unpark();
                }
                Ok(Message::Sized(answer)) => self.sized(&answer),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    pub(super) fn is_ready(&self, id: StepId) -> bool {
        matches!(self.states[id.0 as usize], StepState::Ready { .. })
    }
}
