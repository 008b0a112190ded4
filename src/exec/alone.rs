//! One job outside of any plan: no record, no cache, no queue. For questions to a device.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use crate::catalogue::{Places, Worker, WorkerCall};
use crate::device::{Backend, candidates, lease};
use crate::exec::outcome::{Judged, judge};
use crate::exec::setup::Servers;
use crate::provision::Provision;
use crate::runtime::Job;
use crate::worker::{self, Cancel, Limits, grants};

/// What a job needs besides its call. Everything that it requires must be installed.
pub(super) struct Alone<'a> {
    pub(super) provision: &'a Provision,
    pub(super) inventory: &'a [Backend],
    pub(super) cancel: &'a Cancel,
    pub(super) log: &'a Path,
    /// Seconds.
    pub(super) timeout: u64,
}

impl Alone<'_> {
    /// Performs it on the first device of the backend that is this one.
    pub(super) fn perform(&self, call: WorkerCall, places: Places, on: (&str, &str)) -> anyhow::Result<Judged> {
        let lent = candidates::candidates(self.inventory, on.0, on.1);
        let lent = lent.first().map(|device| lease::lend(device, |name| std::env::var(name).ok()));
        let mut params = call.params;
        for (name, library) in &call.libraries {
            let path: PathBuf = self.provision.library(*library)?;
            params[*name] = path.to_str().context("a library's path is not valid UTF-8")?.into();
        }
        if let Some(lease) = lent.as_ref().filter(|lease| !lease.env.is_empty()) {
            params["lease"] = serde_json::to_value(lease)?;
        }
        let env = lent.map(|lease| lease.env).unwrap_or_default();
        let Places { inputs, out, scratch, .. } = places;
        let sandbox = grants(&call.access, &[&out, &scratch])?;
        let job = Job { id: 1, op: call.op.into(), params, inputs, sandbox, out, log: Some(self.log.to_owned()), env };
        let timeout = Duration::from_secs(self.timeout);
        let limits = Limits::of_time(timeout, self.cancel, self.log);
        let ended = match call.worker {
            Worker::Orch(runtime) | Worker::Kept(runtime) => {
                let mut command = Command::new(worker::own_program()?);
                command.args(["worker", runtime]).current_dir(&scratch);
                worker::run_oneshot(command, &job, &limits)
            }
            Worker::Python(env) => {
                let servers = Servers::default();
                servers.start(env, self.provision, self.provision.dir())?;
                servers.run(env, &job, &limits, self.provision, self.provision.dir())?
            }
            Worker::Torch => anyhow::bail!("BUG: the tch worker answers no questions"),
        };
        Ok(judge(ended, self.timeout, &[]))
    }
}
