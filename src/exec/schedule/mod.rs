//! All state of a run, and what each message means for it.
//!
//! The scheduler decides and does nothing: what is to be done comes out as effects, in the order in which they must be
//! performed. It may look at the store and at the user's files; it has no threads, no clock and no listener. How effects
//! are performed is `driver`'s concern; a preview has none but what is told.

pub(super) mod consult;
mod devices;
mod dispatch;
pub(super) mod fallback;
mod hopes;
mod memory;
mod queue;
mod records;
mod resources;
pub(super) mod retry;
mod settle;
mod setups;
mod shared;
mod sizes;
mod slots;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::Instant;

use crate::base::Digest;
use crate::device::Backend;
use crate::event::{Event, Span};
use crate::exec::keys::{HostFacts, Keys};
use crate::exec::perform::Performed;
use crate::exec::schedule::devices::Devices;
use crate::exec::schedule::hopes::Hopes;
use crate::exec::schedule::memory::Memory;
use crate::exec::schedule::queue::Queue;
use crate::exec::schedule::resources::{Capacity, Machine};
use crate::exec::schedule::retry::Retries;
use crate::exec::schedule::setups::Setups;
use crate::exec::schedule::shared::Questions;
use crate::exec::schedule::sizes::Sizes;
use crate::exec::schedule::slots::Slots;
use crate::exec::state::{StepResult, StepState};
use crate::exec::task::{Choices, Task};
use crate::exec::{Context, KeepGoing, Options};
use crate::key::{KeyDoc, MissReason};
use crate::plan::Plan;
use crate::provision::Provision;
use crate::record::{Outcome, Record};
use crate::step::{Requirement, StepId};
use crate::store::DiskStore;

/// What a scheduler may look at.
#[derive(Clone, Copy)]
pub(super) struct World<'a> {
    pub(super) plan: &'a Plan,
    pub(super) store: &'a DiskStore,
    pub(super) provision: &'a Provision,
    pub(super) inventory: &'a [Backend],
    pub(super) host: &'a HostFacts,
    pub(super) options: &'a Options,
}

impl<'a> Context<'a> {
    pub(super) fn world(&self) -> World<'a> {
        let Context { plan, store, provision, inventory, host, options, .. } = *self;
        World { plan, store, provision, inventory, host, options }
    }
}

/// The messages that a scheduler takes.
pub(super) enum Message {
    /// How an execution ended, and its log if it failed and left one.
    Performed(StepId, Performed, Option<String>, Span),
    NotStarted(NotStarted),
    /// What a remote said about a step.
    Answered(StepId, Option<Box<Record>>),
    Installed(Requirement, Result<(), String>),
    /// What the driver of devices said of them.
    Sized(Vec<Backend>),
    /// The user wants no more.
    Interrupted,
}

/// A step that did not start, with what it was handed.
pub(super) struct NotStarted {
    pub(super) id: StepId,
    pub(super) key: KeyDoc,
    pub(super) reason: MissReason,
    pub(super) why: String,
    /// When that was, RFC 3339.
    pub(super) at: String,
}

/// What is to be done.
pub(super) enum Effect<'a> {
    Tell(Event),
    /// With what is to be told once it has started.
    Start(Box<Task<'a>>, Event),
    /// Asks whether another machine has the result of this key.
    Ask(StepId, Digest),
    Install(Requirement),
    /// How much memory devices have whose files do not say it.
    AskSizes,
    /// Keeps the log of an attempt from the next one.
    KeepLog {
        log: PathBuf,
        of_attempt: PathBuf,
    },
}

pub(super) struct Scheduler<'a> {
    pub(super) world: World<'a>,
    /// What is to be done.
    pub(super) effects: VecDeque<Effect<'a>>,
    /// When the last message came.
    now: Instant,
    pub(super) interrupted: bool,
    pub(super) keys: Keys<'a>,
    pub(super) states: Vec<StepState>,
    /// Steps that something wanted needs.
    pub(super) wanted: BTreeSet<StepId>,
    /// Whether hits are to come with their records, although no report shows them.
    pub(super) whole_records: bool,
    /// Hits whose records turned out to be damaged, and how.
    damaged: BTreeMap<StepId, String>,
    setups: Setups,
    /// Steps in state `Ready`.
    queue: Queue,
    slots: Slots,
    sizes: Sizes,
    devices: Devices<'a>,
    memory: Memory,
    hopes: Hopes,
    /// What orch chose for these runs, and why.
    chosen: BTreeMap<StepId, Choices>,
    questions: Questions,
    /// Nothing is installed before a first step is known to be nowhere else.
    defers_installing: bool,
    failed: bool,
    /// The keys with which steps failed in this run.
    met: BTreeSet<Digest>,
    /// What is tried again, and elsewhere.
    retries: Retries,
}

impl<'a> Scheduler<'a> {
    pub(super) fn new(world: World<'a>, now: Instant) -> Self {
        let mut files = world.store.file_digests();
        files.prefetch(world.plan.files());
        let devices = Devices::new(world.inventory);
        let Options { jobs, memory, .. } = *world.options;
        let capacity = Capacity { cores: jobs.max(1), memory, units: devices.units() };
        let chosen = world.plan.cases.iter().map(|planned| (planned.run, planned.case.choices()));
        Self {
            world,
            effects: VecDeque::new(),
            now,
            interrupted: false,
            keys: Keys::new(world, files),
            states: world.plan.ids().map(|_| StepState::Unknown).collect(),
            wanted: BTreeSet::new(),
            whole_records: false,
            damaged: BTreeMap::new(),
            setups: Setups::default(),
            queue: Queue::default(),
            slots: Slots::new(Machine::new(capacity)),
            sizes: Sizes::default(),
            devices,
            memory: Memory::default(),
            hopes: Hopes::default(),
            chosen: chosen.filter(|(_, choices)| !choices.is_empty()).collect(),
            questions: Questions::default(),
            defers_installing: false,
            failed: false,
            met: BTreeSet::new(),
            retries: Retries::default(),
        }
    }

    /// Steps are about to execute. `shared`: others may have their results.
    pub(super) fn begin(&mut self, shared: bool, now: Instant) {
        self.now = now;
        self.questions.may_ask = shared;
        self.setups.begin(self.world.plan);
        if self.world.options.keep_going == KeepGoing::Dependencies {
            let is_lost = |id| self.result(id).is_some_and(|result| result.outcome != Outcome::Pass);
            self.hopes = Hopes::of(self.world.plan, &self.asked(), &self.wanted, is_lost);
        }
        self.ask_sizes();
        for id in self.wanted.iter().copied().collect::<Vec<_>>() {
            if self.is_ready(id) {
                self.queue(id);
            }
        }
        // Installing takes longest and needs no step's result, so all of it begins at once; but where results are shared,
        // nothing may have to be installed.
        self.defers_installing = self.questions.are_open();
        if !self.defers_installing {
            self.install_wanted();
        }
    }

    /// Takes in what happened.
    pub(super) fn hear(&mut self, message: Message, now: Instant) {
        self.now = now;
        match message {
            Message::Performed(id, performed, log, span) => {
                self.slots.release(id);
                let settled = self.settle(id, performed, log, span);
                self.wake(settled);
            }
            Message::NotStarted(step) => self.not_started(step),
            Message::Answered(id, record) => match self.answered(id, record) {
                Some(done) => self.consult_dependents(done),
                // One that must execute here is seldom the only one.
                None if std::mem::take(&mut self.defers_installing) => self.install_wanted(),
                None => {}
            },
            Message::Installed(requirement, result) => {
                self.setups.finished(requirement, result);
                self.unpark();
            }
            Message::Sized(answer) => self.sized(&answer),
            Message::Interrupted => {
                self.interrupted = true;
                self.tell(Event::Interrupted);
            }
        }
    }

    /// Goes on with what may go on now.
    pub(super) fn turn(&mut self, now: Instant) {
        self.now = now;
        let stopping = self.is_stopping();
        self.end_waits(stopping);
        if !stopping {
            self.want_fallbacks();
            self.dispatch();
        }
    }

    /// Whether nothing new begins.
    fn is_stopping(&self) -> bool {
        self.interrupted || (self.world.options.keep_going == KeepGoing::Never && self.failed)
    }

    /// Whether nothing is left to wait for.
    pub(super) fn is_over(&self) -> bool {
        let settled = self.nothing_queued() && !self.questions.are_open() && self.retries.is_idle();
        self.slots.machine.is_idle() && !self.setups.is_busy() && (self.is_stopping() || settled)
    }

    fn tell(&mut self, event: Event) {
        self.effects.push_back(Effect::Tell(event));
    }

    pub(super) fn is_done(&self, id: StepId) -> bool {
        matches!(self.states[id.0 as usize], StepState::Done(_))
    }

    fn is_ready(&self, id: StepId) -> bool {
        matches!(self.states[id.0 as usize], StepState::Ready { .. })
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
                self.hopes.gone(self.world.plan, id);
            }
        }
        self.states[id.0 as usize] = state;
    }
}

#[cfg(test)]
mod tests;
