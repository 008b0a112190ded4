//! One job outside of any plan: no record, no cache, no queue. For questions to a device.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;

use crate::base::Bug;
use crate::base::fs as bfs;
use crate::base::program;
use crate::catalogue::{Places, RunParams, Worker, WorkerCall};
use crate::device::Backend;
use crate::device::lease::lend_first;
use crate::exec::perform::outcome::judge;
use crate::exec::perform::servers::Servers;
use crate::exec::perform::worker_job;
use crate::provision::Provision;
use crate::record::Outcome;
use crate::worker::{self, Cancel, Limits};

/// What a question needs besides its call. Everything that the call requires must be installed.
pub struct Bench<'a> {
    pub provision: &'a Provision,
    pub inventory: &'a [Backend],
    pub cancel: &'a Cancel,
    /// An empty folder.
    pub scratch: &'a Path,
}

/// The end of a job outside of any plan.
pub struct Answer {
    pub outcome: Outcome,
    /// The explanation of every outcome but a pass.
    pub reason: Option<String>,
    /// What the job reported, as its operation lays it out.
    pub facts: serde_json::Value,
}

impl Bench<'_> {
    /// Empty folders in that folder.
    pub fn folders<const N: usize>(&self, names: [&str; N]) -> std::io::Result<[PathBuf; N]> {
        let folders = names.map(|name| self.scratch.join(name));
        folders
            .iter()
            .try_for_each(|folder| bfs::make_empty(folder))?;
        Ok(folders)
    }

    /// Performs a job on the first device that a run may mean. `timeout`: seconds.
    pub fn perform(
        &self,
        call: &WorkerCall,
        places: Places,
        run: &RunParams,
        timeout: u64,
    ) -> anyhow::Result<Answer> {
        let lent = lend_first(self.inventory, run.backend.name, &run.device);
        let log = self.scratch.join("log");
        let job = worker_job(1, call, lent.as_ref(), &places, &log, self.provision)?;
        let limits = Limits::of_time(Duration::from_secs(timeout), self.cancel, &log);
        let ended = match call.worker {
            Worker::Orch(runtime) | Worker::Kept(runtime) => {
                let mut command = worker::command(program::for_workers()?);
                command
                    .args(["worker", runtime])
                    .current_dir(&places.scratch);
                worker::run_oneshot(command, &job, &limits)
            }
            Worker::Python(env) => {
                let servers = Servers::new(self.provision, self.provision.dir());
                servers.start(env, false)?;
                servers.run(env, false, &job, &limits)?
            }
            Worker::Torch => anyhow::bail!(Bug::new("the tch worker answers no questions")),
        };
        let judged = judge(ended, timeout, &[]);
        Ok(Answer {
            outcome: judged.outcome,
            reason: judged.reason,
            facts: judged.facts,
        })
    }

    /// [`Self::perform`] for a job of which nothing but success is an answer; any other end is an error with its reason.
    pub(super) fn succeed(
        &self,
        call: &WorkerCall,
        places: Places,
        run: &RunParams,
        timeout: u64,
    ) -> anyhow::Result<()> {
        let answer = self.perform(call, places, run, timeout)?;
        let reason = answer.reason.as_deref().unwrap_or("no reason was given");
        ensure!(
            answer.outcome == Outcome::Pass,
            "{}: {reason}",
            answer.outcome.label()
        );
        Ok(())
    }
}
