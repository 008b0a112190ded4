//! Drives a run: performs the scheduler's effects on job threads and others, and sends it their results.

#![expect(clippy::disallowed_methods, reason = "keeps the log of an attempt")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

use crate::base::text::error_text;
use crate::base::{Digest, figures};
use crate::event::{Event, Listener};
use crate::exec::away::{Absent, Departing};
use crate::exec::context::Context;
use crate::exec::install;
use crate::exec::options::reproducer;
use crate::exec::perform::bug::{Bugs, Ender};
use crate::exec::perform::ended::Performed;
use crate::exec::perform::inputs::LaidTrees;
use crate::exec::perform::performer::{Performer, RemoteSteps, log_if_any};
use crate::exec::perform::pool::Pool;
use crate::exec::perform::servers::{ServerOf, Servers};
use crate::exec::perform::task::Task;
use crate::exec::perform::workers::{IDLE, Workers};
use crate::exec::probe;
use crate::exec::schedule::Scheduler;
use crate::exec::schedule::message::{Effect, Message};
use crate::exec::state::StepResult;
use crate::plan::Plan;
use crate::record::Record;
use crate::step::{Required, Stage, StepId};
use crate::store::remote::RecordRequest;
use crate::store::{FileDigests, StoreError};

/// How a run ended.
pub struct Ended {
    /// Results by step.
    pub results: Vec<StepResult>,
    pub interrupted: bool,
    /// A bug of orch's own ended a step, an installation or a probe.
    pub met_bug: bool,
    /// How long the run took, s.
    pub seconds: f64,
    /// The user's files as the keys saw them.
    pub files: FileDigests,
    /// Trees that stayed where they were made.
    pub absent: BTreeSet<Digest>,
}

/// Performs the plan.
pub fn run(context: &Context<'_>) -> Result<Ended, StoreError> {
    let clock = Instant::now();
    let mut scheduler = Scheduler::new(context.world(), clock);
    if let Some(text) = context.store.damage()? {
        context.listener.tell(Event::Warning { text });
    }
    scheduler.consult_all();
    if scheduler.steps.to_run().next().is_none() {
        scheduler.read_records(false);
    }
    report_all(&mut scheduler, context.listener);
    let to_run = scheduler.steps.to_run().count() as u32;
    report_missing(context, scheduler.steps.to_run());
    context.listener.tell(Event::Started {
        steps: scheduler.steps.counted(),
        to_run,
        cases: scheduler
            .steps
            .to_run()
            .filter(|id| context.plan.step(*id).stage == Stage::Judge)
            .count() as u32,
        recorded: recorded(context, scheduler.steps.to_run()),
    });
    let mut met_bug = false;
    let absent = Absent::default();
    loop {
        if scheduler.steps.to_run().next().is_some() {
            met_bug |= execute_wanted(context, &mut scheduler, &absent)?;
        }
        let is_damaged = scheduler.read_records(false);
        report_all(&mut scheduler, context.listener);
        if !is_damaged || context.cancel.is_cancelled() {
            break;
        }
    }
    scheduler.steps.close();
    // In a read-only store they are not kept, and the next run hashes the files again.
    if !context.store.is_read_only()
        && let Err(e) = scheduler.steps.keys.files.save()
    {
        let text = format!("file digests were not kept: {}", error_text(&e.into()));
        context.listener.tell(Event::Warning { text });
    }
    let (results, files) = scheduler.steps.into_results();
    let interrupted = context.cancel.is_cancelled();
    let absent = absent.into_digests();
    Ok(Ended {
        results,
        interrupted,
        met_bug,
        seconds: clock.elapsed().as_secs_f64(),
        files,
        absent,
    })
}

/// Reports events where the scheduler can want nothing else.
pub(super) fn report_all(scheduler: &mut Scheduler<'_>, listener: &dyn Listener) {
    for effect in scheduler.effects.drain(..) {
        let Effect::Tell(event) = effect else {
            panic!("BUG: something is to be done before steps execute")
        };
        listener.tell(event);
    }
}

/// Why nothing is executed with a read-only store.
fn not_kept(plan: &Plan, scheduler: &Scheduler<'_>) -> String {
    let names: Vec<_> = scheduler
        .steps
        .to_run()
        .map(|id| plan.step(id).name.as_str())
        .collect();
    let more = if names.len() > 1 {
        format!(" and {} more", names.len() - 1)
    } else {
        String::new()
    };
    let first = names.first().copied().unwrap_or_default();
    format!(
        "`{first}`{more} would run, and the result could not be kept\n  hint: name another store with --cache-dir; \
         `orch cache export` and `import` take along what this one holds"
    )
}

/// What each of these steps took when it last succeeded, seconds, by name.
fn recorded(context: &Context<'_>, steps: impl Iterator<Item = StepId>) -> BTreeMap<String, f64> {
    let last = |id| {
        let name = &context.plan.step(id).name;
        let record = context.store.latest(name).ok()??;
        let is_made = record.outcome.is_made();
        is_made.then(|| (name.clone(), record.seconds))
    };
    steps.filter_map(last).collect()
}

/// Reports what is missing, before anything is installed.
fn report_missing(context: &Context<'_>, steps: impl Iterator<Item = StepId>) {
    let steps = steps.map(|id| context.plan.step(id));
    let missing = context
        .provision
        .missing(steps.flat_map(|step| step.required()));
    if !missing.is_empty() {
        context.listener.tell(Event::ToInstall {
            text: missing.summary(),
        });
    }
}

/// Executes what is wanted, until nothing is left to wait for. True if a bug of orch's own ended something.
fn execute_wanted<'a>(
    context: &Context<'a>,
    scheduler: &mut Scheduler<'a>,
    absent: &Absent,
) -> Result<bool, StoreError> {
    if context.store.is_read_only() {
        context
            .store
            .must_be_writable(&not_kept(context.plan, scheduler))?;
    }
    scheduler.steps.keys.files.time_passes();
    let scratch = context.store.scratch()?;
    scratch.note_read(scheduler.steps.to_read())?;
    let workplace = context.workplace(scratch.dir("commands")?);
    let servers = Servers::new(context.provision, context.provision.dir());
    let workers = Workers::new(&scratch);
    let bugs = Bugs::new(context.store);
    let departing = context.away.zip(context.options.routing.as_ref());
    let departing = departing.map(|(executor, routing)| Departing {
        executor,
        routing,
        inventory: context.inventory,
        absent,
    });
    let performer = Performer {
        store: context.store,
        scratch: &scratch,
        laid: LaidTrees::new(context.store, &scratch),
        workplace: &workplace,
        provision: context.provision,
        servers: &servers,
        workers: &workers,
        listener: context.listener,
        cancel: context.cancel,
        host: context.host,
        options: context.options,
        bugs: &bugs,
        remote: context.remote,
        remote_steps: departing.as_ref().map(|steps| steps as &dyn RemoteSteps),
    };
    std::thread::scope(|scope| {
        let _ender = Ender(context.cancel);
        let (sender, receiver) = channel();
        let threads = context.options.jobs
            + context
                .options
                .routing
                .as_ref()
                .map_or(0, |routing| routing.slots);
        let driver = Driver {
            context,
            performer: &performer,
            scope,
            pool: Pool::start(scope, threads),
            sender,
        };
        scheduler.begin(context.remote.is_some(), Instant::now());
        loop {
            if context.cancel.is_cancelled() && !scheduler.interrupted {
                scheduler.receive(Message::Interrupted, Instant::now());
            }
            scheduler.advance(Instant::now());
            while let Some(effect) = scheduler.effects.pop_front() {
                if let Some(message) = driver.perform(effect) {
                    scheduler.receive(message, Instant::now());
                    scheduler.advance(Instant::now());
                }
            }
            if scheduler.is_over() {
                // While the threads live that have started them.
                workers.close(Duration::ZERO);
                return;
            }
            workers.close(IDLE);
            match receiver.recv_timeout(Duration::from_millis(100)) {
                Ok(message) => {
                    let news = context.remote.and_then(|remote| remote.news());
                    if let (Message::Answered(..), Some(text)) = (&message, news) {
                        context.listener.tell(Event::Warning { text });
                    }
                    scheduler.receive(message, Instant::now());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    });
    Ok(bugs.met())
}

/// Performs effects.
struct Driver<'scope, 'env> {
    context: &'env Context<'env>,
    performer: &'env Performer<'env>,
    scope: &'scope Scope<'scope, 'env>,
    pool: Pool<'env>,
    sender: Sender<Message>,
}

impl<'env> Driver<'_, 'env> {
    /// Performs an effect, or begins to. Gives the message, if the scheduler must have one at once.
    fn perform(&self, effect: Effect<'env>) -> Option<Message> {
        match effect {
            Effect::Tell(event) => self.context.listener.tell(event),
            Effect::Start(task, begun) => return self.start(task, begun),
            Effect::Query(id, key) => self.query(id, key),
            Effect::Install(required) => self.install(required),
            Effect::ProbeSizes => self.probe_sizes(),
            // It fails where there is no log.
            Effect::KeepLog { log, of_attempt } => drop(std::fs::rename(log, of_attempt)),
        }
        None
    }

    /// Hands a step to a job thread, unless the server that it needs does not start.
    fn start(&self, task: Box<Task<'env>>, begun: Event) -> Option<Message> {
        let performer = self.performer;
        let id = task.id;
        if performer.elsewhere(&task).is_none()
            && let Some(env) = task.step.kind.server(task.step)
            && let Err(e) = performer.servers.start(&ServerOf::step(task.step, env))
        {
            performer.bugs.look_at(&e);
            let Task {
                key, why: reason, ..
            } = *task;
            let why = error_text(&e);
            let at = figures::now();
            return Some(Message::NotStarted {
                id,
                key,
                reason,
                why,
                at,
            });
        }
        self.context.listener.tell(begun);
        let sender = self.sender.clone();
        self.pool.spawn(move || {
            let log = performer.store.log_path(&task.step.name);
            let entered = || drop(sender.send(Message::Entered(id)));
            let (performed, span) = performer.perform(*task, &entered);
            let has_failed = matches!(&performed, Performed::Executed { record, .. } if !record.outcome.is_made());
            let log = has_failed.then(|| log_if_any(&log)).flatten();
            let _ = sender.send(Message::Performed(id, performed, log, span));
        });
        None
    }

    fn query(&self, id: StepId, key: Digest) {
        let options = self.context.options;
        let step = self.context.plan.step(id);
        let limit = options.max_age.clone().filter(|_| step.kind.is_timed(step));
        let takes = move |record: &Record| {
            limit
                .as_ref()
                .is_none_or(|limit| !limit.is_exceeded(&record.started))
        };
        let repro = reproducer(&options.again(), &step.name);
        let request = RecordRequest {
            key,
            step: step.name.clone(),
            repro,
            is_top: options.is_top(self.context.plan, id),
            takes: Box::new(takes),
        };
        let answer = Answer {
            id,
            sender: self.sender.clone(),
            record: None,
        };
        let take = |record| {
            let mut answer = answer; // all of it: dropping it sends it
            answer.record = record;
        };
        self.context
            .remote
            .expect("BUG: nobody is there to be asked")
            .fetch(request, Box::new(take));
    }

    fn install(&self, required: Required) {
        let context = self.context;
        let bugs = self.performer.bugs;
        let sender = self.sender.clone();
        self.scope.spawn(move || {
            let result = install::install(context, &required, bugs);
            let _ = sender.send(Message::Installed(required, result));
        });
    }

    fn probe_sizes(&self) {
        let libraries = self.context.probe;
        let bugs = self.performer.bugs;
        let sender = self.sender.clone();
        self.scope
            .spawn(move || drop(sender.send(Message::Sized(probe::all(libraries, bugs)))));
    }
}

/// Sent when it is dropped, so that the scheduler gets an answer even if the remote's thread panics.
struct Answer {
    id: StepId,
    sender: Sender<Message>,
    record: Option<Box<Record>>,
}

impl Drop for Answer {
    fn drop(&mut self) {
        let _ = self
            .sender
            .send(Message::Answered(self.id, self.record.take()));
    }
}
