//! Workers that are kept for other jobs: each does one job at a time, and goes when it fails, is worn or has nothing to do.
//!
//! A job never answers for another one. What fails in a worker that has done other jobs may be their doing, so it is
//! tried once more in a fresh one, whose word counts.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::base::fs as bfs;
use crate::base::lock;
use crate::base::program;
use crate::runtime::{Job, JobOutput, JobStatus};
use crate::step::Access;
use crate::store::Scratch;
use crate::worker::{self, Ended, Kept, Limits};

/// One with nothing to do gives its memory back after so long.
pub(in crate::exec) const IDLE: Duration = Duration::from_secs(5);
/// One that has done so many jobs gives way to a fresh one: by then its start is nothing beside the jobs.
const MOST_JOBS: u32 = 100;
/// And one that holds so much when it has nothing to do, bytes.
const MOST_HELD: u64 = 2 << 30;

/// A variable for work that shares the cores: an OpenMP thread that spins while it waits takes the core that another
/// one computes on. What is timed has the cores to itself and waits as its libraries choose: PyTorch takes three to
/// eight times as long if its threads sleep.
pub(in crate::exec) const SHARED: (&str, &str) = ("OMP_WAIT_POLICY", "PASSIVE");

pub(in crate::exec) struct Workers<'a> {
    scratch: &'a Scratch,
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    worker: Kept,
    does: String,
    since: Instant,
}

impl<'a> Workers<'a> {
    pub(in crate::exec) fn new(scratch: &'a Scratch) -> Self {
        Self {
            scratch,
            idle: Mutex::default(),
        }
    }

    /// Runs a job in a worker of this runtime that is kept for jobs of its parameters. Must be called from a thread that
    /// lives as long as the run: the kernel ends a child together with the thread that started it.
    pub(in crate::exec) fn run(
        &self,
        runtime: &str,
        job: &Job,
        access: &Access,
        limits: &Limits<'_>,
    ) -> anyhow::Result<Ended> {
        let mut job = job.clone();
        job.params["kept"] = true.into();
        let does = format!("{runtime} {}", job.params);
        if let Some(mut worker) = self.take(&does) {
            let ended = worker.run(&job, limits);
            // Of these other jobs cannot be the cause.
            if has_done_well(&ended) || matches!(ended, Ended::Interrupted) {
                self.give_back(worker, does, &ended);
                return Ok(ended);
            }
            let others = worker.jobs() - 1;
            drop(worker);
            let why = words(&ended);
            (limits.progress)(&format!(
                "{why}, after {others} others in this process; tried again in a fresh one"
            ));
            bfs::make_empty(&job.out)?;
        }
        let mut worker = fresh(runtime, &job, access, self.scratch)?;
        let ended = worker.run(&job, limits);
        self.give_back(worker, does, &ended);
        Ok(ended)
    }

    /// Ends those with nothing to do for so long.
    pub(in crate::exec) fn close(&self, patience: Duration) {
        let over: Vec<_> = lock(&self.idle)
            .extract_if(.., |idle| idle.since.elapsed() >= patience)
            .collect();
        drop(over); // nobody waits for the lock meanwhile
    }

    fn take(&self, does: &str) -> Option<Kept> {
        let mut idle = lock(&self.idle);
        let at = idle.iter().position(|idle| idle.does == does)?;
        Some(idle.swap_remove(at).worker)
    }

    fn give_back(&self, worker: Kept, does: String, ended: &Ended) {
        let is_worn = || {
            worker.jobs() >= MOST_JOBS || worker.held_bytes().is_none_or(|bytes| bytes > MOST_HELD)
        };
        if has_done_well(ended) && !is_worn() {
            lock(&self.idle).push(Idle {
                worker,
                does,
                since: Instant::now(),
            });
        }
    }
}

/// One that works in a folder of its own, and is held to it.
fn fresh(runtime: &str, job: &Job, access: &Access, scratch: &Scratch) -> anyhow::Result<Kept> {
    let folder = scratch.dir("kept")?;
    let own = folder.join("scratch");
    std::fs::create_dir(&own)?;
    let mut command = worker::command(program::for_workers()?);
    command
        .args(["worker", &format!("kept:{runtime}")])
        .envs(&job.env)
        .current_dir(&own);
    command
        .env("TMPDIR", &own)
        .env("HOME", &own)
        .env(SHARED.0, SHARED.1);
    let grants = worker::grants(access, &[&folder])?;
    Ok(Kept::start(command, folder, &grants)?)
}

/// It answered, by a result or the vendor's refusal of the model.
fn has_done_well(ended: &Ended) -> bool {
    matches!(
        ended,
        Ended::Answered(JobOutput {
            status: JobStatus::Ok | JobStatus::Unsupported,
            ..
        })
    )
}

/// The sentence for people who wait.
fn words(ended: &Ended) -> String {
    match ended {
        Ended::Answered(output) => output.reason.clone().unwrap_or_else(|| "it failed".into()),
        Ended::OutOfMemory(why) | Ended::ServerDied(why) | Ended::Broken(why) => why.clone(),
        Ended::TimedOut | Ended::DownloadTimedOut => "it took too long".into(),
        Ended::Died { .. } | Ended::Interrupted => "its process died".into(),
    }
}
