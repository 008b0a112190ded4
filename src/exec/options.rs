//! The options of a run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::base::shell;
use crate::config::ExecutorOverride;
use crate::exec::age::MaxAge;
use crate::exec::backoff::Backoff;
use crate::exec::routing::Routing;
use crate::plan::Plan;
use crate::step::StepId;

/// The folder for generated tests, artefacts and pages, unless the user names another.
pub const OUT_DIR: &str = "orch-out";

/// What the user chose of how a plan is performed. A new option of `run` is a field here: the command line fills it, and
/// the code that goes by it reads it from [`Options::settings`]. The memo of a run that leaves nothing to do
/// (`session/memo.rs`) lists each field, as one that changes what such a run shows or one that does not.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How many steps may execute at a time; None for as many as the machine has cores.
    pub jobs: Option<u32>,
    /// How much memory they may take in all, bytes; None for what is free.
    pub memory: Option<u64>,
    /// How much memory one step may take, bytes; None for what the machine has, less a reserve.
    pub job_memory: Option<u64>,
    pub keep_going: KeepGoing,
    /// How often a step is tried again after a transient failure; None leaves it to the spec.
    pub retries: Option<u32>,
    pub backoff: Backoff,
    /// How many seconds may go into measuring again what is not quiet; None leaves it to the spec.
    pub remeasure_seconds: Option<u64>,
    /// The seed of the order in which rounds follow each other; None chooses one.
    pub seed: Option<u64>,
    /// Begin even if a step is expected to hold more memory than this machine has, or all to write more than is free.
    pub oversized: bool,
    /// Ask no remote store, and send it nothing.
    pub no_remote: bool,
    /// A server that executes steps; what is None is as it is configured.
    pub executor: ExecutorOverride,
    /// The folder in which generated tests and pages are linked for people.
    pub out_dir: PathBuf,
    /// The file to which a trace of the run is written.
    pub trace: Option<PathBuf>,
    /// Search for what makes failed cases wrong, once all else is done.
    pub blame: bool,
    /// What the journal calls this run, and what it is resumed by.
    pub command: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            jobs: None,
            memory: None,
            job_memory: None,
            keep_going: KeepGoing::default(),
            retries: None,
            backoff: Backoff::default(),
            remeasure_seconds: None,
            seed: None,
            oversized: false,
            no_remote: false,
            executor: ExecutorOverride::default(),
            out_dir: OUT_DIR.into(),
            trace: None,
            blame: false,
            command: "orch".into(),
        }
    }
}

impl Settings {
    /// Words of a shell line, each after a space: the settings that a reproducer must repeat.
    pub fn flags(&self) -> String {
        let is_usual = self.out_dir == Path::new(OUT_DIR);
        let mut flags = String::new();
        flags.extend((!is_usual).then(|| shell::path_option("--out-dir", &self.out_dir)));
        flags.extend(
            self.executor
                .url
                .as_ref()
                .map(|url| format!(" --executor {}", shell::word(url))),
        );
        flags.extend(
            self.executor
                .whereabouts
                .map(|place| format!(" --where {}", place.word())),
        );
        flags.extend(self.job_memory.map(|size| format!(" --job-memory {size}")));
        flags
    }
}

/// How a plan is performed: the user's settings, and what a session adds for this plan on this machine.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub settings: Settings,
    /// How many cores steps may take, and so how many may execute at a time.
    pub jobs: u32,
    /// How much memory they may take, bytes.
    pub memory: u64,
    /// The seed of the order in which rounds follow each other.
    pub seed: u64,
    /// Steps that execute even if the store holds their result.
    pub rerun: BTreeSet<StepId>,
    /// Standing failures are executed again.
    pub rerun_failed: bool,
    /// Steps that are not executed again if they failed with the same key: those that failed in the run that is
    /// resumed.
    pub stands: BTreeSet<StepId>,
    /// What is to be done; None means everything.
    pub wanted: Option<BTreeSet<StepId>>,
    /// Backends that the environment pretends to have. Nothing runs on them.
    pub mocked: BTreeSet<String>,
    /// Measurements older than this are made again.
    pub max_age: Option<MaxAge>,
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
    pub routing: Option<Routing>,
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
    pub(super) fn is_top(&self, plan: &Plan, id: StepId) -> bool {
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
