//! Steps that execute elsewhere: which these are, what a worker must have, and what is believed of what comes back.
//!
//! A step travels as an [`Order`] with its inputs; orch itself is what a worker executes (`serve`), so a step is performed
//! and judged there by the same code as here. What comes back is an [`Answer`] and files. Files are taken for what they
//! hash to, and the answer for the word of a worker that the user trusts (docs/remote-execution.md, "Trust").

mod absent;
mod order;
mod perform;
#[cfg(feature = "remote")]
mod send;
mod serve;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::device::Backend;
use crate::exec::routing::Routing;
use crate::store::ManifestFile;
use crate::worker::Cancel;

pub use crate::exec::perform::ended::{Origin, ServerFile};
pub(in crate::exec) use absent::Absent;
pub use order::{Answer, Order};
#[cfg(feature = "remote")]
pub use send::Away;
pub use serve::{Site, offered, serve};

/// The steps of a run that go away, and the server that executes them.
#[derive(Clone, Copy)]
pub(in crate::exec) struct Departing<'a> {
    pub(in crate::exec) executor: &'a dyn RemoteExecutor,
    pub(in crate::exec) routing: &'a Routing,
    /// The probers' answers about this host.
    pub(in crate::exec) inventory: &'a [Backend],
    /// The trees that stayed on the server.
    pub(in crate::exec) absent: &'a Absent,
}

/// One step that is to be done elsewhere.
pub struct Submission<'a> {
    pub order: Order,
    pub inputs: Vec<Given>,
    pub properties: BTreeMap<String, String>,
    /// An older result of the same action will not do.
    pub is_anew: bool,
    /// What it makes stays there, and only its name comes back.
    pub leaves: bool,
    pub timeout: Duration,
    /// An empty folder for what comes back.
    pub out: &'a Path,
    pub log: &'a Path,
    pub cancel: &'a Cancel,
    pub progress: &'a (dyn Fn(&str) + Sync),
    /// Hears what went wrong and was made good.
    pub warn: &'a (dyn Fn(&str) + Sync),
}

/// A file that a step reads.
pub struct Given {
    /// The path at which the step finds it.
    pub path: String,
    pub content: Content,
    pub is_executable: bool,
}

#[derive(Clone)]
pub enum Content {
    /// `is_fixed`: its content is that of its name.
    Here {
        at: PathBuf,
        is_fixed: bool,
    },
    There(ServerFile),
}

/// What came of a submission.
pub enum Returned {
    /// A worker performed it, now or before this run. What it made lies in the folder `out`, unless it is `left` on the
    /// server: then these are its files, in the order of the answer.
    Performed {
        answer: Box<Answer>,
        is_remembered: bool,
        left: Option<Vec<ServerFile>>,
    },
    /// An input that was to be on the server is not there any more.
    InputGone,
    /// No worker did, or could, for this reason.
    Unavailable(String),
    TooLong(Duration),
    Interrupted,
    /// A reason, and whether another attempt may succeed.
    Failed(String, bool),
}

/// A server with workers.
pub trait RemoteExecutor: Sync {
    fn perform(&self, submission: Submission<'_>) -> Returned;

    /// Fetches what was left there to the folder `out`. Each file is what the tree's manifest says, or there is an error.
    fn fetch(&self, files: &[(ServerFile, ManifestFile)], out: &Path) -> Result<(), String>;

    /// The name as it may be shown.
    fn name(&self) -> &str;
}
