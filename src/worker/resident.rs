//! The daemon of a user, whose fork servers have imported what servers of environments import: a caller gets a server that is
//! forked from one of them in milliseconds, and starts its own where it gets none.
//!
//! The daemon is a service, and never a descendant of a run: a run ends all that it started. It listens on a socket in a
//! private folder. A caller passes the descriptors of a server's orders, log and answers, and all else that a process of its
//! own would have from it. Whoever is confined gets nothing, because the daemon is not: a caller proves that it is free by
//! reading a secret from the daemon's descriptors, which Landlock refuses (docs/design/workers.md).

mod caller;
mod daemon;
mod fork_server;
mod socket;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::base::variable;
use crate::device::{Host, whole_memory};

pub(super) use caller::{Call, Resident, call};
pub use daemon::serve;

/// Of the messages between daemon, callers and fork servers; `python/orch_py/worker/resident.py` has the same number.
const PROTOCOL: u32 = 1;
/// The variable that names another folder for the socket, or is `off`.
const VARIABLE: &str = "ORCH_DAEMON";
const SOCKET: &str = "daemon.sock";

/// The private folder of a user's daemon.
#[derive(Debug, Clone)]
pub struct Place {
    folder: PathBuf,
}

impl Place {
    /// The folder that the user's ORCH_DAEMON names, or else the usual one. None where the variable is `off`.
    pub fn of_user() -> Option<Self> {
        let named = variable::os(VARIABLE).filter(|value| !value.is_empty());
        match named {
            Some(value) if value == "off" => None,
            Some(folder) => Some(Self::at(folder)),
            None => Some(Self::usual()),
        }
    }

    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// No variable but ORCH_DAEMON decides, because a remote action has few.
    fn usual() -> Self {
        let user = own_user();
        let runtime = PathBuf::from(format!("/run/user/{user}"));
        let is_own = fs::metadata(&runtime).is_ok_and(|meta| meta.is_dir() && meta.uid() == user);
        Self::at(match is_own {
            true => runtime.join("orch"),
            false => PathBuf::from(format!("/tmp/orch-{user}")),
        })
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.join(SOCKET)
    }

    /// Why the folder cannot be trusted, if it cannot: others could have put the socket there.
    fn must_be_private(&self) -> io::Result<()> {
        let meta = fs::symlink_metadata(&self.folder)?;
        let folder = self.folder.display();
        if !meta.is_dir() || meta.uid() != own_user() {
            return Err(io::Error::other(format!(
                "`{folder}` is no folder of this user"
            )));
        }
        match meta.mode() & 0o077 {
            0 => Ok(()),
            _ => Err(io::Error::other(format!(
                "`{folder}` is open to other users; hint: chmod 700 {folder}"
            ))),
        }
    }
}

fn own_user() -> u32 {
    rustix::process::getuid().as_raw()
}

/// The daemon's first message: where its secret is.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    protocol: u32,
    /// The number of the descriptor from which the secret can be read.
    secret: i32,
}

/// What a caller wants; the three descriptors are with it.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    secret: String,
    origin: Origin,
    machine: Machine,
    start: Start,
}

/// All that decides what a process is once it has imported its packages: callers with equal ones share a fork server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Origin {
    program: String,
    args: Vec<String>,
    /// Variables that libraries may read while they are imported: all but those of [`PER_CALLER`].
    environment: BTreeMap<String, String>,
    preload: Vec<String>,
    /// Which installations these are: an environment that was installed anew is another one in the same folder.
    installations: Vec<String>,
}

/// What a server has from who starts it, and can be given after a fork.
#[derive(Debug, Serialize, Deserialize)]
struct Start {
    env: BTreeMap<String, String>,
    cwd: String,
    umask: u32,
    nice: i32,
    /// Soft and hard limits by the kernel's number of each; -1 for none.
    limits: Vec<(i64, i64)>,
}

/// What a process may use of the machine. Libraries size their pools of threads by it, and a fork cannot be given another.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Machine {
    memory: Option<u64>,
    cores: Option<usize>,
    cpus: Option<String>,
}

impl Machine {
    fn here() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let cpus = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        Self {
            memory: whole_memory(&Host::real()),
            cores: std::thread::available_parallelism().ok().map(Into::into),
            cpus: cpus.map(|list| list.trim().to_owned()),
        }
    }
}

/// What a caller hears, in this order. `Taken` may come late or not at all.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Refused(String),
    /// A fork server has the request, and may still be importing.
    Taken,
    /// The process of the server.
    Forked(i32),
    /// How the server ended.
    Ended(String),
}

/// Variables that no library reads while it is imported: the fork gets the caller's. What ends with `*` stands for all that
/// begin so.
const PER_CALLER: &[&str] = &[
    "DISPLAY",
    "ORCH_*",
    "TMPDIR",
    "WAYLAND_DISPLAY",
    "XDG_SESSION_*",
];

fn is_per_caller(name: &str) -> bool {
    PER_CALLER.iter().any(|pattern| {
        pattern
            .strip_suffix('*')
            .map_or(*pattern == name, |prefix| name.starts_with(prefix))
    })
}

#[cfg(test)]
#[path = "resident/resident_tests.rs"]
mod tests;
