//! One job outside of any plan: no record, no cache, no queue. For questions to a device.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::base::Bug;
use crate::base::fs as bfs;
use crate::base::program;
use crate::catalogue::{Needs, Places, RunParams, Worker, WorkerCall};
use crate::device::lease::lend_first;
use crate::device::machine_lock::{DeviceUse, MachineLock, Share};
use crate::device::{Backend, Lease};
use crate::exec::perform::occupy::{occupy, uses};
use crate::exec::perform::outcome::judge;
use crate::exec::perform::servers::{ServerOf, Servers};
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
    /// Hears that another orch process is waited for. Without it a device that another one uses is an error.
    pub waits: Option<&'a dyn Fn(&str)>,
}

/// Keeps other orch processes from measuring on the processor, for a program that executes a model there and is not one of
/// orch's workers.
pub fn share_cpu(cancel: &Cancel, waits: &dyn Fn(&str)) -> anyhow::Result<MachineLock> {
    occupied(uses(None, Share::Together), cancel, Some(waits))
}

fn occupied(
    uses: Vec<DeviceUse>,
    cancel: &Cancel,
    waits: Option<&dyn Fn(&str)>,
) -> anyhow::Result<MachineLock> {
    let tell = |text: &str| waits.iter().for_each(|waits| waits(text));
    let lock = occupy(
        uses,
        || cancel.is_cancelled() || waits.is_none(),
        tell,
        |_| {},
    );
    ensure!(lock.is_some() || !cancel.is_cancelled(), "interrupted");
    let lock = lock
        .context("another orch process uses the device, and this command does not wait for it")?;
    lock.note.iter().for_each(|note| tell(note));
    Ok(lock)
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

    /// Performs a job on the first device that a run may mean. `timeout`: seconds, without the wait for other processes.
    pub fn perform(
        &self,
        call: &WorkerCall,
        places: Places,
        (run, share): (&RunParams, Share),
        timeout: u64,
    ) -> anyhow::Result<Answer> {
        let lent = lend_first(self.inventory, run.backend.name, &run.device);
        let _devices = self.occupy(run, lent.as_ref(), share)?;
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
                let server = ServerOf::untimed(env);
                servers.start(&server)?;
                servers.run(&server, &job, &limits)?
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

    fn occupy(
        &self,
        run: &RunParams,
        lent: Option<&Lease>,
        share: Share,
    ) -> anyhow::Result<MachineLock> {
        let is_device = matches!((run.runtime.needs)(run), Needs::Device { .. });
        let uses = uses(lent.filter(|_| is_device), share);
        occupied(uses, self.cancel, self.waits)
    }

    /// [`Self::perform`], beside no other orch process, for a job of which nothing but success is an answer; any other end is
    /// an error with its reason.
    pub(super) fn succeed(
        &self,
        call: &WorkerCall,
        places: Places,
        run: &RunParams,
        timeout: u64,
    ) -> anyhow::Result<()> {
        let answer = self.perform(call, places, (run, Share::Alone), timeout)?;
        let reason = answer.reason.as_deref().unwrap_or("no reason was given");
        ensure!(
            answer.outcome == Outcome::Pass,
            "{}: {reason}",
            answer.outcome.label()
        );
        Ok(())
    }
}
