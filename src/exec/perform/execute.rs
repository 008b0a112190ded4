//! Executes a step on this machine: its work, in a worker, a server, a command or this process.

#![expect(
    clippy::disallowed_methods,
    reason = "removes the empty output folder of a step"
)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use crate::base::fs as bfs;
use crate::base::program;
use crate::confine::Enforced;
use crate::device::conditions::Watch;
use crate::device::{Host, Lease};
use crate::event::Event;
use crate::exec::perform::attempts;
use crate::exec::perform::ended::Done;
use crate::exec::perform::inputs::Given;
use crate::exec::perform::outcome::{Judged, judge};
use crate::exec::perform::performer::Performer;
use crate::exec::perform::servers::ServerOf;
use crate::exec::perform::task::{Task, placed};
use crate::exec::perform::workers::SHARED;
use crate::judge::Verdict;
use crate::provision::Provision;
use crate::record::Outcome;
use crate::runtime::Job;
use crate::step::{CommandCall, Judgement, Places, Work, Worker, WorkerCall};
use crate::worker::{self, Ended, Limits};

impl Performer<'_> {
    pub(in crate::exec) fn execute(&self, task: &Task<'_>, given: Given) -> anyhow::Result<Done> {
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
            memory: self.options.settings.job_memory,
            cancel: self.cancel,
            log: &log,
            progress: &progress,
        };
        let work = match task.step.kind.lower(task.step, places) {
            Ok(work) => work,
            Err(e) => return Ok(Done::only(Judged::of_itself(e)?)),
        };
        if !matches!(work, Work::Pure(_) | Work::Judge(_) | Work::Files(_)) {
            attempts::clear_logs(&log, &task.attempts);
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
        let provision = self.provision.with(task.step.toolchain.as_ref());
        let job = worker_job(
            task.id.0,
            &call,
            task.lease.as_ref(),
            places,
            limits.log,
            &provision,
        )?;
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
            Worker::Torch => one_shot(provision.torch_worker()?, &[]),
            Worker::Python(env) => {
                let server = ServerOf::step(task.step, env);
                self.servers.run(&server, &job, limits)?
            }
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
    let stated = ["threads", "num_threads"]
        .iter()
        .find_map(|name| options.get(*name)?.as_u64());
    let own = || std::thread::available_parallelism().map_or(1, usize::from);
    stated.map_or_else(own, |threads| threads as usize)
}

/// The job of a worker's call: its folders, its parameters, what it may touch, and variables that lead libraries to its own
/// scratch folder.
pub(in crate::exec) fn worker_job(
    id: u32,
    call: &WorkerCall,
    lease: Option<&Lease>,
    places: &Places,
    log: &Path,
    provision: &Provision,
) -> anyhow::Result<Job> {
    let mut env = lease.map(|lease| lease.env.clone()).unwrap_or_default();
    // Libraries keep caches and settings in HOME; they get one that lasts as long as the step.
    let own = if call.access.home {
        &["TMPDIR"][..]
    } else {
        &["TMPDIR", "HOME"]
    };
    let scratch = places.scratch.display().to_string();
    env.extend(own.iter().map(|name| ((*name).to_owned(), scratch.clone())));
    Ok(Job {
        id,
        op: call.op.into(),
        params: worker_params(call, lease, provision)?,
        inputs: places.inputs.clone(),
        out: places.out.clone(),
        log: Some(log.to_owned()),
        env,
        sandbox: worker::grants(&call.access, &[&places.out, &places.scratch])?,
    })
}

/// The parameters of a worker's job: the call's own, the paths of its libraries, and the device that was leased.
fn worker_params(
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
pub(in crate::exec) fn check_measure(done: &mut Done, is_timed: bool) {
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
