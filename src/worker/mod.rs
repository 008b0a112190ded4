//! Child processes: one job each, one job after another, or a Python server that forks for each job.
//!
//! A worker takes a job and answers how it ended; what the job is for is not known here. Every child leads a process
//! group of its own, is ended with all of its group, and dies with orch (docs/design/jobs.md).

#[cfg(target_os = "linux")]
mod cgroup;
mod command;
mod environment;
mod family;
mod guard;
mod inputs;
mod kept;
mod lines;
mod logged;
mod oneshot;
mod output_log;
mod outputs;
mod oversee;
mod process;
mod project;
mod redact;
#[cfg(target_os = "linux")]
pub mod resident;
mod sandbox;
mod server;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::runtime::JobOutput;

pub use command::{Workplace, left_behind, run_command};
pub use environment::{ARITHMETIC, DIVISION, TIMING, command};
pub use guard::kill_all;
pub use inputs::Gone;
pub use kept::Kept;
pub use logged::run_logged;
pub use oneshot::run_oneshot;
pub use process::tail;
pub use project::Project;
pub use sandbox::grants;
pub use server::Server;

#[expect(
    clippy::large_enum_variant,
    reason = "one exists per job, and only until it is judged"
)]
#[derive(Debug)]
pub enum Ended {
    Answered(JobOutput),
    /// It ended without an answer.
    Died {
        signal: Option<i32>,
        code: Option<i32>,
    },
    /// It took more memory than it may, by the sentence that says how much.
    OutOfMemory(String),
    TimedOut,
    /// Its downloads took longer than [`DOWNLOAD`].
    DownloadTimedOut,
    Interrupted,
    /// The server that forked it died, by nobody's known doing, with this last word. It may be tried again.
    ServerDied(String),
    /// It could not be started, or broke the protocol.
    Broken(String),
}

impl Ended {
    /// Adds a fact to the answer, if there is one.
    pub fn note_fact(&mut self, name: &str, value: serde_json::Value) {
        if let Self::Answered(output) = self {
            if output.facts.is_null() {
                output.facts = serde_json::json!({});
            }
            if let Some(facts) = output.facts.as_object_mut() {
                facts.insert(name.into(), value);
            }
        }
    }

    /// Allocators that nobody catches end their process by SIGABRT, and say why in its log before.
    fn with_last_words(self, log: &Path) -> Self {
        const GIVING_UP: [&str; 4] = [
            "std::bad_alloc",
            "memory allocation of",
            "out of memory",
            "Cannot allocate memory",
        ];
        if matches!(
            self,
            Self::Died {
                signal: Some(libc::SIGABRT),
                ..
            }
        ) {
            let lines = tail(log, 10);
            if let Some(line) = lines
                .lines()
                .find(|line| GIVING_UP.iter().any(|words| line.contains(words)))
            {
                return Self::OutOfMemory(format!(
                    "it gave up for want of memory: {}",
                    line.trim()
                ));
            }
        }
        self
    }
}

/// Set once, when the user interrupts.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// What the fork servers of a daemon may take.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// One that nobody has used for so long ends.
    pub idle: Duration,
    /// So many live at a time.
    pub most: usize,
    /// Bytes that all of them hold together. Those that were idle for longest end when they hold more.
    pub memory: u64,
}

/// What every kind of worker is given besides its job.
pub struct Limits<'a> {
    pub timeout: Duration,
    /// Bytes that all processes of the job may hold; None for what the machine has, less a reserve. Watched on Linux.
    pub memory: Option<u64>,
    pub cancel: &'a Cancel,
    pub log: &'a Path,
    pub progress: &'a dyn Fn(&str),
}

impl<'a> Limits<'a> {
    /// No more than a time, for a job whose progress nobody waits for.
    pub fn of_time(timeout: Duration, cancel: &'a Cancel, log: &'a Path) -> Self {
        Self {
            timeout,
            memory: None,
            cancel,
            log,
            progress: &|_| {},
        }
    }

    /// Why a job that began at `start` must end now, if it must.
    fn exceeded(&self, start: Instant) -> Option<Ended> {
        if self.cancel.is_cancelled() {
            return Some(Ended::Interrupted);
        }
        (start.elapsed() >= self.timeout).then_some(Ended::TimedOut)
    }
}

/// The time that all downloads of a job may take, beside the job's own. What stalls ends sooner, by the Hub's client.
pub const DOWNLOAD: Duration = Duration::from_secs(6 * 60 * 60);

/// How often a waiting job looks whether it must end.
const TICK: Duration = Duration::from_millis(50);

#[cfg(test)]
mod testing {
    use super::*;

    /// Neither gone nor a zombie.
    pub(super) fn is_alive(pid: i32) -> bool {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // SAFETY: signal 0 only asks whether the process exists.
        unsafe { libc::kill(pid, 0) == 0 && !state.contains(") Z") }
    }

    #[track_caller]
    pub(super) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "waited in vain until {what}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
