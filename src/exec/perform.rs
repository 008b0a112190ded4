//! One execution of one step, on a job thread: verified inputs in, work, published output and record out.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use crate::base::program;
use crate::base::{Digest, fs as bfs};
use crate::confine::Enforced;
use crate::device::conditions::Watch;
use crate::device::{Host, Lease};
use crate::event::{Event, Listener};
use crate::exec::HostFacts;
use crate::exec::away::{Departing, Origin, ServerFile};
use crate::exec::bug::Bugs;
use crate::exec::given::{Given, LaidTrees};
use crate::exec::keep::Begun;
use crate::exec::outcome::{Judged, judge};
use crate::exec::schedule::retry;
use crate::exec::setup::Servers;
use crate::exec::standing::stands_here;
use crate::exec::task::{Task, placed, wants_another};
use crate::exec::workers::{SHARED, Workers};
use crate::judge::Verdict;
use crate::provision::Provision;
use crate::record::{Numerics, Outcome, Record};
use crate::runtime::Job;
use crate::step::{CommandCall, Judgement, Places, StepId, Work, Worker, WorkerCall};
use crate::store::{DiskStore, Manifest, Scratch, StoreError};
use crate::worker::{self, Cancel, Ended, Gone, Limits, Workplace};

/// What an execution needs; shared by all job threads.
pub(super) struct Performer<'a> {
    pub(super) store: &'a DiskStore,
    pub(super) scratch: &'a Scratch,
    pub(super) laid: LaidTrees<'a>,
    /// The folder in which commands work.
    pub(super) workplace: &'a Workplace,
    pub(super) provision: &'a Provision,
    pub(super) servers: &'a Servers<'a>,
    pub(super) workers: &'a Workers<'a>,
    pub(super) listener: &'a dyn Listener,
    pub(super) cancel: &'a Cancel,
    pub(super) host: &'a HostFacts,
    /// The beginning of every reproducer.
    pub(super) again: &'a str,
    /// The most that a step may take, bytes.
    pub(super) job_memory: Option<u64>,
    pub(super) bugs: &'a Bugs<'a>,
    /// The shared remote store, if one is configured.
    pub(super) remote: Option<&'a dyn crate::store::remote::Remote>,
    /// What is sent away, and to whom.
    pub(super) departing: Option<Departing<'a>>,
}

pub(super) enum Performed {
    Executed {
        record: Box<Record>,
        /// Its output is as before, although something that it depends on changed.
        unchanged: bool,
        /// It failed, and another attempt may succeed.
        transient: bool,
    },
    /// Another orch process executed it while this one waited for its lock.
    Hit(Box<Record>),
    /// It was executed elsewhere before this run, and a server remembers how it ended.
    Remembered(Box<Record>),
    InputLost(InputLost),
}

/// An input is not as it was published: who made it, and which tree it was.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(super) struct InputLost {
    pub(super) from: StepId,
    pub(super) digest: Digest,
    pub(super) what: String,
}

impl InputLost {
    /// What it means that a tree cannot be read. One that is not damaged may be whole: on a full disk, for instance, making
    /// it again would fail again.
    pub(super) fn or(from: StepId, digest: Digest) -> impl Fn(StoreError) -> anyhow::Error {
        move |e| match e {
            StoreError::Damaged { .. } => Self {
                from,
                digest,
                what: error_text(&e.into()),
            }
            .into(),
            e => e.into(),
        }
    }
}

impl Performer<'_> {
    pub(super) fn perform(&self, task: Task<'_>) -> Performed {
        let begun = Begun::now();
        let performed = self
            .bugs
            .caught(&task.step.name, || self.attempt(&task, begun));
        performed.unwrap_or_else(|bug| self.broken_off(&task, begun, bug))
    }

    fn attempt(&self, task: &Task<'_>, begun: Begun) -> Performed {
        if self.cancel.is_cancelled() {
            return self.keep(task, begun, Ok(Done::interrupted()));
        }
        let key_digest = task.key.digest();
        let _lock = match self
            .store
            .lock_key(&key_digest, |waited| self.go_on_waiting(task, waited))
        {
            Ok(Some(lock)) => lock,
            Ok(None) => return self.keep(task, begun, Ok(Done::interrupted())),
            Err(e) => return self.keep(task, begun, Err(e.into())),
        };
        // A rerun is executed here and not taken from another process; a record that is too old is the one that would
        // be found.
        if !wants_another(&task.why)
            && let Some(record) = self.held(task, &key_digest)
            && record
                .output
                .is_none_or(|digest| self.store.check_tree(&digest).is_ok())
        {
            return Performed::Hit(Box::new(record));
        }
        if let Some(departing) = self.elsewhere(task) {
            return self.perform_away(task, begun, departing);
        }
        self.keep(task, begun, self.perform_here(task))
    }

    fn perform_here(&self, task: &Task<'_>) -> anyhow::Result<Done> {
        self.bring_from_remote(task)?;
        self.bring_inputs(task)?;
        let result = self
            .execute(task, self.given(task)?)
            .and_then(|done| task.files_are_the_same().map(|()| done));
        if let Some(gone) = result.as_ref().err().and_then(|e| e.downcast_ref::<Gone>())
            && let Some((from, digest)) = task.tree(&gone.input)
        {
            return Err(InputLost {
                from,
                digest,
                what: gone.to_string(),
            }
            .into());
        }
        self.trees_are_the_same(task)?;
        result
    }

    /// The record that another process has kept meanwhile.
    fn held(&self, task: &Task<'_>, key: &Digest) -> Option<Record> {
        let failed = || self.store.failure(key).ok().flatten();
        let stands = |record: &Record| {
            stands_here(record, task.step, &self.host.fingerprint, self.provision)
        };
        let passed = || {
            let hit = self.store.hit(key).ok().flatten()?;
            let failed_since = self.store.failed_since(&task.step.name, key, &hit);
            let record = self.store.record(&hit).ok()?;
            matches!(failed_since, Ok(None)).then_some(record)
        };
        passed().or_else(|| failed().filter(stands))
    }

    /// Called while another orch process executes the same key. False ends the waiting.
    fn go_on_waiting(&self, task: &Task<'_>, waited: Duration) -> bool {
        if waited > Duration::from_secs(1) {
            self.tell(
                task,
                &format!(
                    "waiting for another orch that is executing it ({} s)",
                    waited.as_secs()
                ),
            );
        }
        !self.cancel.is_cancelled()
    }

    /// What a step is doing.
    pub(super) fn tell(&self, task: &Task<'_>, text: &str) {
        self.listener.tell(Event::StepProgress {
            step: task.step.name.clone(),
            text: text.to_owned(),
        });
    }

    pub(super) fn execute(&self, task: &Task<'_>, given: Given) -> anyhow::Result<Done> {
        let out = self.scratch.dir("out")?;
        let Given {
            paths: inputs,
            trees,
        } = given;
        let places = Places {
            inputs,
            trees,
            scratch: out.with_extension("scratch"),
            out,
        };
        let done = self.execute_at(task, &places);
        // It is usually empty, because files were moved into the store. `remove_dir` refuses mount points.
        if std::fs::remove_dir(&places.out).is_err() {
            bfs::remove_dir(&places.out)?;
        }
        done
    }

    fn execute_at(&self, task: &Task<'_>, places: &Places) -> anyhow::Result<Done> {
        let log = self.store.log_path(&task.step.name);
        let progress = |text: &str| self.tell(task, text);
        let limits = Limits {
            timeout: Duration::from_secs(task.step.timeout_seconds),
            memory: self.job_memory,
            cancel: self.cancel,
            log: &log,
            progress: &progress,
        };
        let work = match task.step.kind.lower(task.step, places) {
            Ok(work) => work,
            Err(e) => return Ok(Done::only(Judged::of_itself(e)?)),
        };
        if !matches!(work, Work::Pure(_) | Work::Judge(_) | Work::Files(_)) {
            retry::clear_logs(&log, &task.attempts);
        }
        let mut numerics = None;
        if task.step.kind.is_timed(task.step) {
            self.workers.close(Duration::ZERO);
        }
        let judged = match work {
            Work::Judge(work) => match work() {
                Ok(Judgement {
                    verdict,
                    numerics: figures,
                    reason,
                }) => {
                    let outcome = match verdict {
                        Verdict::Pass => Outcome::Pass,
                        Verdict::Numerics => Outcome::Numerics,
                        Verdict::Indecisive => Outcome::Indecisive,
                    };
                    numerics = Some(figures);
                    Judged {
                        outcome,
                        reason,
                        ..Judged::pass()
                    }
                }
                Err(e) => Judged::of_itself(e)?,
            },
            Work::Files(files) => {
                let made = Some(self.store.place_contents(files, &places.out)?);
                return Ok(Done {
                    made,
                    ..Done::only(Judged::pass())
                });
            }
            Work::Pure(work) => work().map_or_else(Judged::of_itself, |()| Ok(Judged::pass()))?,
            Work::Worker(call) => {
                std::fs::create_dir_all(&places.scratch)?;
                let host = Host::real();
                let watch = task
                    .step
                    .kind
                    .is_timed(task.step)
                    .then(|| Watch::begin(&host, yardstick_threads(task)));
                let ended = self.call(task, call, places, &limits);
                let conditions = watch.map(Watch::end);
                bfs::remove_dir(&places.scratch)?;
                let mut judged = judge(ended?, task.step.timeout_seconds, &[]);
                if let Some(measure) = &mut judged.measure {
                    (measure.conditions, measure.order) = (conditions, task.order);
                }
                judged
            }
            Work::Command(call) => return self.command(task, &call, &places.out, &limits),
        };
        let judged = confined(placed(judged, task));
        let mut done = Done {
            numerics,
            ..Done::only(judged)
        };
        if done.judged.outcome == Outcome::Pass && task.step.kind.runs_on_device() {
            check_measure(&mut done, task.step.kind.is_timed(task.step));
        }
        if done.judged.outcome == Outcome::Pass {
            done.made = Some(self.store.place(&places.out)?);
        }
        Ok(done)
    }

    fn command(
        &self,
        task: &Task<'_>,
        call: &CommandCall,
        out: &Path,
        limits: &Limits<'_>,
    ) -> anyhow::Result<Done> {
        let mut ran = worker::run_command(call, self.workplace, out, limits)?;
        let ended = std::mem::replace(&mut ran.ended, Ended::Interrupted);
        let judged = judge(
            ended,
            task.step.timeout_seconds,
            task.step.transient_codes(),
        );
        if let Some(text) = worker::left_behind(&task.step.name, &judged.facts) {
            self.listener.tell(Event::Warning { text });
        }
        let judged = confined(placed(judged, task));
        let files = std::mem::take(&mut ran.files);
        let made = (judged.outcome == Outcome::Pass)
            .then(|| self.store.place_files(files))
            .transpose()?;
        Ok(Done {
            made,
            ..Done::only(judged)
        })
    }

    fn call(
        &self,
        task: &Task<'_>,
        call: WorkerCall,
        places: &Places,
        limits: &Limits<'_>,
    ) -> anyhow::Result<Ended> {
        let mut env = task
            .lease
            .as_ref()
            .map(|lease| lease.env.clone())
            .unwrap_or_default();
        // Libraries keep caches and settings in HOME; they get one that lasts as long as the step.
        let own = if call.access.home {
            &["TMPDIR"][..]
        } else {
            &["TMPDIR", "HOME"]
        };
        let scratch = places.scratch.display().to_string();
        env.extend(own.iter().map(|name| ((*name).to_owned(), scratch.clone())));
        let job = Job {
            id: task.id.0,
            op: call.op.into(),
            params: worker_params(&call, task.lease.as_ref(), self.provision)?,
            inputs: places.inputs.clone(),
            out: places.out.clone(),
            log: Some(limits.log.to_owned()),
            env,
            sandbox: worker::grants(&call.access, &[&places.out, &places.scratch])?,
        };
        let is_timed = task.step.kind.is_timed(task.step);
        let one_shot = |program: PathBuf, args: &[&str]| {
            let mut command = worker::command(program);
            // Some SDKs leave files in the working directory.
            command.args(args).current_dir(&places.scratch);
            if !is_timed {
                command.envs([SHARED]);
            }
            worker::run_oneshot(command, &job, limits)
        };
        Ok(match call.worker {
            Worker::Orch(runtime) => one_shot(program::for_workers()?, &["worker", runtime]),
            Worker::Kept(runtime) => self.workers.run(runtime, &job, &call.access, limits)?,
            Worker::Torch => one_shot(self.provision.torch_worker()?, &[]),
            Worker::Python(env) => self.servers.run(env, is_timed, &job, limits)?,
        })
    }
}

/// How many threads the yardstick of a timed run has: as many as the run is given, which is as many as the machine has unless
/// its target says so; beside a device, one.
fn yardstick_threads(task: &Task<'_>) -> usize {
    if task.lease.is_some() {
        return 1;
    }
    let options = &task.step.run().options;
    let said = ["threads", "num_threads"]
        .iter()
        .find_map(|name| options.get(*name)?.as_u64());
    let own = || std::thread::available_parallelism().map_or(1, usize::from);
    said.map_or_else(own, |threads| threads as usize)
}

/// The parameters of a worker's job: the call's own, the paths of its libraries, and the device that was leased.
pub(super) fn worker_params(
    call: &WorkerCall,
    lease: Option<&Lease>,
    provision: &Provision,
) -> anyhow::Result<Value> {
    let mut params = call.params.clone();
    for (name, library) in &call.libraries {
        let path = provision.library(*library)?;
        params[*name] = path
            .to_str()
            .context("a library's path is not valid UTF-8")?
            .into();
    }
    if let Some(lease) = lease.filter(|lease| !lease.env.is_empty()) {
        params["lease"] = serde_json::to_value(lease)?;
    }
    Ok(params)
}

/// Records how the step's processes were confined.
fn confined(mut judged: Judged) -> Judged {
    if let Some(facts) = judged.facts.as_object_mut() {
        facts.insert("sandbox".into(), Enforced::here().to_string().into());
    }
    judged
}

/// A run about which its worker reports nothing did not run, nor did a timed one without times. Times that were not requested were
/// taken beside other steps, and must stand nowhere.
pub(super) fn check_measure(done: &mut Done, is_timed: bool) {
    let times = done
        .judged
        .measure
        .as_ref()
        .map(|measure| measure.times.as_ref());
    let wrong = match times {
        None => "the worker reported success and does not say where it ran",
        Some(times) if is_timed && times.is_none_or(|times| times.samples_ms.is_empty()) => {
            "the worker reported success without a single sample"
        }
        Some(Some(_)) if !is_timed => "the worker measured times although timing was off",
        Some(_) => return,
    };
    done.judged = Judged::failed(Outcome::Fail, wrong);
}

pub(super) struct Done {
    pub(super) judged: Judged,
    pub(super) numerics: Option<Numerics>,
    /// What it made: content that is in the store, and not part of a tree yet.
    pub(super) made: Option<Manifest>,
    /// Its files' names on the server, if it is not in the store but stayed there.
    pub(super) left: Option<Vec<ServerFile>>,
    /// Who made it, if that was not this machine.
    pub(super) origin: Option<Origin>,
}

impl Done {
    /// It made nothing.
    pub(super) fn only(judged: Judged) -> Self {
        Self {
            judged,
            numerics: None,
            made: None,
            left: None,
            origin: None,
        }
    }

    fn interrupted() -> Self {
        Self::only(Judged::failed(Outcome::Incomplete, "interrupted"))
    }
}

/// An error with its causes on one line.
pub(super) fn error_text(error: &anyhow::Error) -> String {
    format!("{error:#}")
}

/// The path of a step's log, unless it is empty or missing.
pub(super) fn log_if_any(path: &Path) -> Option<String> {
    let size = std::fs::metadata(path).ok()?.len();
    (size > 0).then(|| path.display().to_string())
}
