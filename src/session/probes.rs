//! Questions to native libraries, each in a child of its own: a driver that crashes or hangs is an answer too.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use crate::base::program;
use crate::confine::Grants;
use crate::device::Backend;
use crate::provision::Provision;
use crate::runtime::Job;
use crate::session::probed;
use crate::store::{DiskStore, Scratch};
use crate::worker::{self, Cancel, Ended, Limits, run_oneshot};

/// Longer than any driver takes that works.
const PATIENCE: Duration = Duration::from_secs(10);

pub struct Probes {
    exe: PathBuf,
    scratch: Scratch,
    /// The folder in which answers are kept.
    kept: PathBuf,
    cancel: Cancel,
}

impl Probes {
    pub fn new(store: &DiskStore, provision: &Provision, cancel: Cancel) -> anyhow::Result<Self> {
        let exe = program::path().context("failed to find orch's own executable")?;
        let scratch = store.scratch()?;
        Ok(Self {
            exe,
            scratch,
            kept: provision.dir().join("probes"),
            cancel,
        })
    }

    /// The answer of the prober's library, now or a short while ago; or why there is no answer.
    pub fn query(&self, name: &str, params: Value) -> Result<Backend, String> {
        probed::or_query(&probed::place(&self.kept, name, &params), || {
            self.query_now(name, params)
        })
    }

    fn query_now(&self, name: &str, params: Value) -> Result<Backend, String> {
        let out = self.scratch.dir("probe").map_err(|e| e.to_string())?;
        let sandbox = Grants::everything();
        let job = Job {
            id: 0,
            op: name.into(),
            params,
            inputs: Default::default(),
            out: out.clone(),
            log: None,
            env: Default::default(),
            sandbox,
        };
        let mut command = worker::command(&self.exe);
        // Browsers leave their profile there.
        command.args(["worker", "probe"]).current_dir(&out);
        let log = out.join("log");
        let limits = Limits::of_time(PATIENCE, &self.cancel, &log);
        match run_oneshot(command, &job, &limits) {
            Ended::Answered(output) => {
                serde_json::from_value(output.facts).map_err(|e| e.to_string())
            }
            Ended::Died {
                signal: Some(signal),
                ..
            } => Err(format!("the probe was ended by signal {signal}")),
            Ended::Died { code, .. } => Err(format!("the probe ended with code {code:?}")),
            Ended::TimedOut | Ended::DownloadTimedOut => Err(format!(
                "the probe did not answer within {} s",
                PATIENCE.as_secs()
            )),
            Ended::Interrupted => Err("interrupted".into()),
            Ended::Broken(what) | Ended::OutOfMemory(what) | Ended::ServerDied(what) => Err(what),
        }
    }
}
