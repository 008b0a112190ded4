//! The Python servers of environments.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Context as _;

use crate::base::Bug;
use crate::base::fs as bfs;
use crate::base::lock;
use crate::exec::perform::workers::SHARED;
use crate::provision::Provision;
use crate::runtime::Job;
use crate::step::Step;
use crate::toolchain::{EnvName, Toolchain};
#[cfg(target_os = "linux")]
use crate::worker::resident::Place;
use crate::worker::{self, Ended, Limits, Server};

/// The fact of a step that was performed by a server of the daemon's.
const RESIDENT: &str = "resident";

/// A variable of Python servers whose work is not timed: the GNU C library gets large allocations as huge pages, and keeps
/// those below the thresholds (bytes) for the next allocation. By default each copy of a weight is made of fresh pages of
/// 4 KiB: exporting 2.2 GB of weights faults ten million times, which is a third of its time.
///
/// Programs that bring an allocator and a sandbox of their own, such as browsers, are not made for it.
const LARGE_PAGES: (&str, &str) = (
    "GLIBC_TUNABLES",
    "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=1073741824:glibc.malloc.trim_threshold=1073741824",
);

/// One Python server per environment, and one more for what is timed, since libraries read how their threads wait when
/// they are loaded. Each is started for its first job, and replaced when it has died or served its time. What is not timed is
/// done by a server that the user's daemon forks, where one runs.
pub(in crate::exec) struct Servers<'a> {
    provision: &'a Provision,
    /// The folder in which servers work and leave their logs.
    dir: &'a Path,
    /// A server of the daemon's has died, or none was to be had: no more are tried.
    is_alone: AtomicBool,
    started: Mutex<BTreeMap<ServerOf, Arc<Server>>>,
}

/// The server that a job needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::exec) struct ServerOf {
    pub(in crate::exec) env: EnvName,
    /// The toolchain that the environment is of; None means orch's own locks.
    pub(in crate::exec) toolchain: Option<Arc<Toolchain>>,
    pub(in crate::exec) is_timed: bool,
}

impl ServerOf {
    /// The server of an environment that does the work of a step.
    pub(in crate::exec) fn step(step: &Step, env: EnvName) -> Self {
        Self {
            env,
            toolchain: step.toolchain_of(env),
            is_timed: step.kind.is_timed(step),
        }
    }

    /// The server of an environment for what is not timed.
    pub(in crate::exec) fn untimed(env: EnvName) -> Self {
        Self {
            env,
            toolchain: None,
            is_timed: false,
        }
    }
}

impl<'a> Servers<'a> {
    pub(in crate::exec) fn new(provision: &'a Provision, dir: &'a Path) -> Self {
        Self {
            provision,
            dir,
            is_alone: AtomicBool::new(false),
            started: Mutex::default(),
        }
    }

    /// Starts a server unless a good one runs. Must be called from a thread that outlives the run: the kernel ends a child
    /// together with the thread that started it.
    pub(in crate::exec) fn start(&self, of: &ServerOf) -> anyhow::Result<()> {
        let mut started = lock(&self.started);
        let why = match started.get(of).map(|server| server.why_replace()) {
            Some(None) => return Ok(()),
            why => why.flatten(),
        };
        // The jobs of the one before hold it until they are done.
        started.insert(of.clone(), Arc::new(self.fresh(of, None, why)?));
        Ok(())
    }

    /// Runs a job. If the server dies, any of its jobs may be the cause, so each is tried once more on a server of its
    /// own. If that one dies too, this job is the cause.
    pub(in crate::exec) fn run(
        &self,
        of: &ServerOf,
        job: &Job,
        limits: &Limits<'_>,
    ) -> anyhow::Result<Ended> {
        let shared = lock(&self.started).get(of).cloned();
        let shared = shared.with_context(|| {
            Bug::new(format!(
                "the Python server of `{}` is used before it is started",
                of.env
            ))
        })?;
        if shared.is_resident() {
            (limits.progress)("in a resident process of `orch worker daemon`");
        }
        let why = match shared.run(job, limits) {
            Ended::ServerDied(why) => why,
            mut ended => {
                if shared.is_resident() {
                    ended.note_fact(RESIDENT, true.into());
                }
                return Ok(ended);
            }
        };
        if shared.is_resident() {
            self.is_alone.store(true, Ordering::Relaxed);
        }
        (limits.progress)(&format!("{why}; tried again on a server of its own"));
        bfs::make_empty(&job.out)?;
        Ok(self.fresh(of, Some(job.id), Some(why))?.run(job, limits))
    }

    /// `again` is the job that alone it is for; `before` says why it replaces another server, which is written to the log,
    /// and the log goes on.
    fn fresh(
        &self,
        of: &ServerOf,
        again: Option<u32>,
        before: Option<String>,
    ) -> anyhow::Result<Server> {
        let ServerOf {
            env,
            toolchain,
            is_timed,
        } = of;
        let provision = self.provision.with(toolchain.as_ref());
        let python = provision.env(*env)?;
        let mut command = worker::command(&python.python);
        command
            .args(["-m", "orch_py.worker.server"])
            .current_dir(self.dir)
            .env("PYTHONPATH", self.provision.python_package()?)
            .env("PYTHONNOUSERSITE", "1")
            .env("PYTHONUNBUFFERED", "1")
            // Iteration over sets must not differ from run to run.
            .env("PYTHONHASHSEED", "0");
        if !*is_timed {
            command.envs([SHARED, LARGE_PAGES]);
        }
        let named = toolchain.as_ref().map(|own| format!("@{}", own.name()));
        let named = named.unwrap_or_default();
        let timed = if *is_timed { "-timed" } else { "" };
        let suffix = again.map(|job| format!("-again-{job}")).unwrap_or_default();
        let log = self
            .dir
            .join(format!("server-{env}{named}{timed}{suffix}.log"));
        if before.is_none() || again.is_some() {
            let _ = bfs::remove_file(&log);
        }
        if let Some(why) = before {
            let mut file = std::fs::File::options()
                .create(true)
                .append(true)
                .open(&log)?;
            writeln!(file, "orch: another server takes over: {why}")?;
        }
        if again.is_none()
            && !is_timed
            && let Some(server) = self.resident(&provision, *env, &command, &log)
        {
            return Ok(server);
        }
        Server::start(command, env.preload(), &log).with_context(|| {
            format!(
                "failed to start the Python server of `{env}` ({})",
                python.python.display()
            )
        })
    }

    /// A server that the user's daemon forks. The log holds why there is none, if a daemon runs.
    #[cfg(target_os = "linux")]
    fn resident(
        &self,
        provision: &Provision,
        env: EnvName,
        command: &Command,
        log: &Path,
    ) -> Option<Server> {
        if self.is_alone.load(Ordering::Relaxed) {
            return None;
        }
        let place = Place::of_user()?;
        let installations = provision.installations(env)?;
        match Server::call(&place, command, env.preload(), &installations, log) {
            Ok(server) => server,
            Err(error) => {
                self.is_alone.store(true, Ordering::Relaxed);
                let line = format!("orch: no resident process: {error:#}\n");
                if let Ok(mut file) = std::fs::File::options().append(true).create(true).open(log) {
                    let _ = file.write_all(line.as_bytes());
                }
                None
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn resident(&self, _: &Provision, _: EnvName, _: &Command, _: &Path) -> Option<Server> {
        None
    }
}
