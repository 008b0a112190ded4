//! What each run executed: one file of JSON lines per run, written while the run goes on, so that a run that was killed
//! shows too how far it came. It lies beside the file that the run leaves in the history when it ends, under the same name.
//!
//! A run that executes nothing leaves none. A journal is a run_log: it knows no plan, and nothing is ever decided by it.

mod follow;
mod read;
mod write;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::base::Digest;
use crate::event::Holds;
use crate::record::Outcome;

pub use follow::{Ended, Follow};
pub use read::{Run, files, name_of, path, read, runs};
pub use write::Journal;

/// How many runs are kept, and how many bytes of them; the newest stays in any case.
const KEPT: usize = 50;
const KEPT_BYTES: u64 = 256 << 20;

/// A line of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Line {
    Run(Head),
    /// A step began. Without a later line of the same name, the run ended first.
    Began(String),
    Step(ExecutedStep),
    Setup(Installed),
    End(End),
}

/// The first line.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Head {
    /// The version of the file's shape.
    pub version: u32,
    /// RFC 3339, UTC.
    pub started: String,
    /// The command line, quoted for a shell.
    pub command: String,
    /// The folder in which the command was given.
    pub folder: String,
    pub host: String,
    pub jobs: u32,
    /// The beginning of its steps' reproducers.
    pub again: String,
}

/// One execution of a step. Times are seconds since the run began.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecutedStep {
    pub step: String,
    /// None if it could not even start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Digest>,
    pub outcome: Outcome,
    /// Why it did not pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why it was executed.
    pub why: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    pub at: f64,
    pub seconds: f64,
    /// How long it was ready and had no slot.
    pub waited: f64,
    /// What it lacked last, if it had to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_for: Option<String>,
    /// What it had for itself; left out where that was one core.
    #[serde(default = "one_core", skip_serializing_if = "is_one_core")]
    pub holds: Holds,
}

fn one_core() -> Holds {
    Holds::ONE_CORE
}

fn is_one_core(holds: &Holds) -> bool {
    *holds == Holds::ONE_CORE
}

/// Something that was installed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Installed {
    pub what: String,
    pub at: f64,
    pub seconds: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The last line; absent if the run was killed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct End {
    pub seconds: f64,
    pub interrupted: bool,
    /// Executed steps by outcome.
    pub outcomes: BTreeMap<Outcome, u32>,
    /// Steps that were up to date.
    pub hits: u32,
}

#[cfg(test)]
mod tests;
