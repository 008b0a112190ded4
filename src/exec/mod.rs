//! Performs a plan: consults the store, schedules what is missing, and keeps a record of everything that happened.
//!
//! One loop on the calling thread owns all state; job threads execute steps and send back results. Listeners show
//! events to the user; kinds of steps say what a step does.

mod age;
mod alone;
pub mod away;
mod bug;
mod case;
mod driver;
mod given;
pub mod half;
mod keep;
mod keys;
mod outcome;
mod perform;
mod pool;
mod preview;
mod probe;
pub mod profile;
mod reporting;
mod schedule;
mod setup;
mod standing;
mod state;
mod task;
mod workers;

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::base::Digest;
use crate::device::Backend;
use crate::event::Listener;
use crate::key::{KeyDoc, MissReason};
use crate::plan::Plan;
use crate::provision::Provision;
use crate::record::{Outcome, Record};
use crate::report::ReportDoc;
use crate::step::StepId;
use crate::store::{DiskStore, FileDigests};
use crate::worker::{Cancel, Project, Workplace};

pub use age::MaxAge;
pub use alone::Bench;
pub use driver::run;
pub use keys::{HostFacts, variable_digest};
pub use preview::{held, preview};
pub use probe::Probe;
pub use reporting::report_doc;
pub use schedule::retry::Backoff;
pub use schedule::steps::usually_wanted;
pub use state::{How, StepResult};

/// Everything a run is given.
pub struct Context<'a> {
    pub plan: &'a Plan,
    pub store: &'a DiskStore,
    pub provision: &'a Provision,
    pub listener: &'a dyn Listener,
    /// The probers' answers about this host.
    pub inventory: &'a [Backend],
    /// Asks native libraries for what files do not say.
    pub probe: &'a dyn Probe,
    pub host: &'a HostFacts,
    pub options: &'a Options,
    pub cancel: &'a Cancel,
    /// The store that is shared with other machines.
    pub remote: Option<&'a dyn crate::store::remote::Remote>,
    /// Who executes what [`Options::routing`] sends away.
    pub away: Option<&'a dyn away::Elsewhere>,
}

impl Context<'_> {
    /// The places where commands work: in folders below `dir`, and with files of the project.
    fn workplace(&self, dir: PathBuf) -> Workplace {
        let shown = [self.store.root(), self.provision.dir()];
        Workplace {
            sandboxes: dir.canonicalize().unwrap_or(dir),
            project: Project::new(&self.options.project, &shown),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How many cores steps may take, and so how many may execute at a time.
    pub jobs: u32,
    /// How much memory they may take, bytes.
    pub memory: u64,
    /// How much memory one step may take, bytes; None for what the machine has, less a reserve.
    pub job_memory: Option<u64>,
    pub keep_going: KeepGoing,
    /// Steps that execute even if the store holds their result.
    pub rerun: BTreeSet<StepId>,
    /// Standing failures are executed again.
    pub rerun_failed: bool,
    /// Steps that are not executed again if they failed with the same key: those that failed in the run that is
    /// resumed.
    pub stands: BTreeSet<StepId>,
    /// What is to be done; None means everything.
    pub wanted: Option<BTreeSet<StepId>>,
    /// How often a step is tried again after a transient failure; None leaves it to the spec.
    pub retries: Option<u32>,
    pub backoff: Backoff,
    /// Backends that the environment pretends to have. Nothing runs on them.
    pub mocked: BTreeSet<String>,
    /// Measurements older than this are made again.
    pub max_age: Option<MaxAge>,
    /// How many seconds of the run may go into measuring again what is not quiet; None leaves it to the spec.
    pub remeasure_seconds: Option<u64>,
    /// The seed of the order in which rounds follow each other.
    pub seed: u64,
    /// What part of the spec the plan is, for pages; None for all of it.
    pub scope: Option<String>,
    /// The spec as the user named it, for pages and reproducers.
    pub spec: String,
    /// The folder whose files commands may read, absolute.
    pub project: PathBuf,
    /// Options of the user's that a reproducer must repeat, e.g. ` --cache-dir /tmp/x`: quoted for a shell, and empty or
    /// with a leading space.
    pub flags: String,
    /// The steps that execute elsewhere; None for none.
    pub routing: Option<away::Routing>,
    /// The folder in which generated tests and pages are linked for people.
    pub out_dir: PathBuf,
}

/// What goes on after a step has failed. What depends on it never does: its input is not there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KeepGoing {
    /// Every other step.
    #[default]
    Always,
    /// Only steps that something which can still pass depends on.
    Dependencies,
    /// Nothing new.
    Never,
}

impl Options {
    /// The beginning of every reproducer: this run again, without its selection.
    pub fn again(&self) -> String {
        format!(
            "orch run {}{}",
            crate::base::shell::word(&self.spec),
            self.flags
        )
    }

    /// Whether a step was requested by name, or no other step reads what it makes.
    fn is_top(&self, plan: &Plan, id: StepId) -> bool {
        let is_named = self
            .wanted
            .as_ref()
            .is_some_and(|wanted| wanted.contains(&id));
        is_named || plan.dependents(id).next().is_none()
    }
}

/// One shell line that does a step's work again, whatever the store holds. A step has the same name and key under every
/// selection, so none is repeated.
pub fn reproducer(again: &str, step: &str) -> String {
    let step = crate::base::shell::quoted(step);
    format!("{again} --step {step} --rerun {step}")
}

/// How a run ended.
pub struct Finished {
    /// Results by step.
    pub results: Vec<StepResult>,
    pub interrupted: bool,
    /// A bug of orch's own ended a step, an installation or a probe.
    pub met_bug: bool,
    pub doc: ReportDoc,
    /// The user's files as the keys saw them.
    pub files: FileDigests,
    /// Trees that stayed where they were made.
    pub absent: BTreeSet<Digest>,
}

/// What would happen to a step.
pub enum Preview {
    Hit {
        record: Box<Record>,
    },
    WouldRun {
        key: Option<KeyDoc>,
        reason: MissReason,
    },
    Skipped {
        outcome: Outcome,
        reason: String,
        /// The step at which things went wrong, when that is another one.
        blamed: Option<StepId>,
    },
    /// Nothing that is wanted needs it.
    NotNeeded,
}

#[cfg(test)]
mod tests;
