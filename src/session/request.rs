//! What is asked for: where things are kept, which part of which spec, and how it is run.

use std::path::{Path, PathBuf};

use crate::base::shell;
use crate::exec::{Backoff, KeepGoing, MaxAge};
use crate::matrix::{AUTO, Fallback, Partition, Selection};

/// Where generated tests, artefacts and pages are put, unless the caller says otherwise.
pub(super) const OUT_DIR: &str = "orch-out";

/// Where things are kept and installed.
#[derive(Debug, Clone, Default)]
pub struct Locations {
    pub cache_dir: PathBuf,
    /// Environments; None for those below `cache_dir`.
    pub env_dir: Option<PathBuf>,
    /// An interpreter that has all packages.
    pub python: Option<PathBuf>,
}

impl Locations {
    /// Words of a shell line, each after a space: what is not where it usually is.
    pub fn flags(&self) -> String {
        let cache_dir = (self.cache_dir != Path::new("cache")).then_some(&self.cache_dir);
        let given =
            [("--cache-dir", cache_dir), ("--env-dir", self.env_dir.as_ref()), ("--python", self.python.as_ref())];
        given.into_iter().filter_map(|(name, path)| Some(flag(name, path?))).collect()
    }
}

/// Which steps of which spec.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub spec: PathBuf,
    pub selection: Selection,
    pub fallback: Fallback,
    /// Whether runs are checked only, and none is timed.
    pub check: bool,
    /// Only what differs from this git revision.
    pub affected: Option<String>,
    pub partition: Option<Partition>,
    /// Measurements older than this are made again.
    pub max_age: Option<MaxAge>,
    /// Globs of steps, `failed` and `flaky`: only these; none means all.
    pub steps: Vec<String>,
    /// Globs of steps, `failed` and `flaky`: executed although nothing changed.
    pub rerun: Vec<String>,
}

impl Request {
    /// All of a spec.
    pub fn all(spec: &Path) -> Self {
        Self { spec: spec.to_owned(), ..Self::default() }
    }

    /// Whether orch is to choose targets.
    pub(super) fn chooses(&self) -> bool {
        self.selection.targets.iter().any(|target| target == AUTO)
    }

    /// Whether all of a plan is asked for, so that the run may leave a memo for the next one.
    pub(super) fn is_whole(&self) -> bool {
        // What is best may be another target tomorrow.
        let is_part = self.chooses() || self.affected.is_some() || self.partition.is_some() || self.max_age.is_some();
        !is_part && self.steps.is_empty()
    }
}

/// How a plan is run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How many steps may execute at a time; None for as many as the machine has cores.
    pub jobs: Option<u32>,
    /// How much memory they may take, bytes; None for what is free.
    pub memory: Option<u64>,
    /// How much one of them may take.
    pub job_memory: Option<u64>,
    pub keep_going: KeepGoing,
    pub retries: Option<u32>,
    pub backoff: Backoff,
    /// Ask no remote store, and send it nothing.
    pub no_remote: bool,
    pub out_dir: PathBuf,
    /// Where a trace of the run is written.
    pub trace: Option<PathBuf>,
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
            no_remote: false,
            out_dir: OUT_DIR.into(),
            trace: None,
            command: "orch".into(),
        }
    }
}

impl Settings {
    /// What a reproducer must repeat, as words of a shell line.
    pub fn flags(&self, locations: &Locations, fallback: Fallback, check: bool) -> String {
        let mut flags = locations.flags();
        flags.extend((self.out_dir != Path::new(OUT_DIR)).then(|| flag("--out-dir", &self.out_dir)));
        if fallback == Fallback::Usual {
            flags.push_str(" --fallback");
        }
        if check {
            flags.push_str(" --check");
        }
        if let Some(size) = self.job_memory {
            flags.push_str(&format!(" --job-memory {size}"));
        }
        flags
    }
}

fn flag(name: &str, path: &Path) -> String {
    format!(" {name} {}", shell::word(&path.display().to_string()))
}
