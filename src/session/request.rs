//! What is requested: where things are kept, which part of which spec, and how it is run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use indexmap::IndexSet;

use crate::base::{named, shell};
use crate::exec::{MaxAge, Settings};
use crate::matrix::{AUTO, Fallback, Partition, Selection};
use crate::plan::Clock;
use crate::session::{UsageError, absolute};
use crate::spec::Spec;
use crate::store::DiskStore;

/// The folders in which things are kept and installed.
#[derive(Debug, Clone, Default)]
pub struct Locations {
    pub cache_dir: PathBuf,
    /// Environments; None for those below `cache_dir`.
    pub env_dir: Option<PathBuf>,
    /// An interpreter that has all packages.
    pub python: Option<PathBuf>,
    /// A folder with locks that stand for orch's own.
    pub locks: Option<PathBuf>,
}

impl Locations {
    pub fn store(&self) -> anyhow::Result<DiskStore> {
        DiskStore::open(&absolute(&self.cache_dir)?).context("failed to open the store")
    }

    /// The store for a command that only looks, which makes none.
    pub fn store_to_look(&self) -> anyhow::Result<DiskStore> {
        DiskStore::open_to_look(&absolute(&self.cache_dir)?).context("failed to open the store")
    }

    /// Words of a shell line, each after a space: what is not where it usually is.
    pub fn flags(&self) -> String {
        let cache_dir = (self.cache_dir != Path::new("cache")).then_some(&self.cache_dir);
        let given = [
            ("--cache-dir", cache_dir),
            ("--env-dir", self.env_dir.as_ref()),
            ("--python", self.python.as_ref()),
            ("--locks", self.locks.as_ref()),
        ];
        given
            .into_iter()
            .filter_map(|(name, path)| Some(shell::path_option(name, path?)))
            .collect()
    }
}

/// Steps of a spec.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub spec: PathBuf,
    pub selection: Selection,
    pub fallback: Fallback,
    /// Whether runs are checked only, and none is timed.
    pub check: bool,
    /// Sizes that replace the spec's.
    pub sweep: Sweep,
    /// How many rounds each timed case has, whatever the spec says.
    pub rounds: Option<u32>,
    /// Cases of which a round samples for longer than usual: short ones that are compared.
    pub longer: BTreeSet<String>,
    /// Whether everything that is timed is measured again, whatever the store holds.
    pub anew: bool,
    /// Only what differs from this git revision.
    pub affected: Option<String>,
    pub partition: Option<Partition>,
    /// The report of an earlier run, whose durations a partition by model goes by.
    pub durations: Option<PathBuf>,
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
        Self {
            spec: spec.to_owned(),
            ..Self::default()
        }
    }

    /// The part of the spec's cases that it is about, for pages; None for all of them, at the spec's sizes.
    pub fn part(&self) -> Option<String> {
        let part = format!("{}{}", self.selection, self.sweep.flags());
        (!part.is_empty()).then(|| part.trim_start().to_owned())
    }

    /// What it says of times, whatever the host is.
    pub(super) fn clock(&self) -> Clock {
        Clock {
            is_stopped: self.check,
            rounds: self.rounds,
            longer: self.longer.clone(),
            ..Clock::default()
        }
    }

    /// Whether orch is to choose targets.
    pub(super) fn chooses(&self) -> bool {
        self.selection.targets.iter().any(|target| target == AUTO)
    }

    /// Whether all of a plan is requested, so that the run may leave a memo for the next one.
    pub(super) fn is_whole(&self) -> bool {
        // What is best may be another target tomorrow.
        let is_part = self.chooses()
            || self.affected.is_some()
            || self.partition.is_some()
            || self.max_age.is_some();
        !is_part && self.steps.is_empty()
    }
}

/// Sizes that multiply the cases, as `batch` and `seq` of the spec's matrix do. None where the spec's count.
#[derive(Debug, Clone, Default)]
pub struct Sweep {
    pub batch: Vec<u64>,
    pub seq: Vec<u64>,
}

impl Sweep {
    fn given(&self) -> impl Iterator<Item = (&'static str, &Vec<u64>)> {
        [("batch", &self.batch), ("seq", &self.seq)]
            .into_iter()
            .filter(|(_, sizes)| !sizes.is_empty())
    }

    pub(super) fn apply(&self, spec: &mut Spec) {
        // A size that is named twice makes one case.
        let once = |sizes: &[u64]| {
            sizes
                .iter()
                .copied()
                .collect::<IndexSet<_>>()
                .into_iter()
                .collect()
        };
        spec.matrix.axes.extend(
            self.given()
                .map(|(name, sizes)| (name.to_owned(), once(sizes))),
        );
    }

    /// Words of a shell line, each after a space.
    pub(super) fn flags(&self) -> String {
        let listed = |sizes: &[u64]| {
            sizes
                .iter()
                .map(u64::to_string)
                .collect::<Vec<_>>()
                .join(",")
        };
        self.given()
            .map(|(name, sizes)| format!(" --{name} {}", listed(sizes)))
            .collect()
    }
}

/// Words of a shell line, each after a space, for what a request changes of what a spec measures.
pub(super) fn measuring_flags(fallback: Fallback, clock: &Clock) -> String {
    let mut flags = String::new();
    flags.extend((fallback == Fallback::Usual).then_some(" --fallback"));
    flags.extend(clock.is_stopped.then_some(" --check"));
    // Without it there are no such steps.
    flags.extend(clock.rounds.map(|rounds| format!(" --rounds {rounds}")));
    flags.extend(
        clock
            .longer
            .iter()
            .map(|case| format!(" --longer {}", shell::word(case))),
    );
    flags
}

/// Makes sure, before anything runs, that what a run leaves can be written, and what it installs.
pub fn can_be_written(settings: &Settings, locations: &Locations) -> anyhow::Result<()> {
    let folder = named::try_folder(&settings.out_dir)
        .map_err(|error| ("--out-dir", &settings.out_dir, error));
    let trace = settings
        .trace
        .as_ref()
        .map(|path| named::try_named(path).map_err(|error| ("--trace", path, error)));
    // What is there already may hold all that is needed.
    let missing = locations.env_dir.as_ref().filter(|path| !path.exists());
    let environments =
        missing.map(|path| named::try_folder(path).map_err(|error| ("--env-dir", path, error)));
    folder
        .and(trace.unwrap_or(Ok(())))
        .and(environments.unwrap_or(Ok(())))
        .map_err(|(option, path, error)| {
            let hint = format!("hint: name another place with {option}");
            UsageError(format!(
                "`{}` cannot be written: {error}\n  {hint}",
                path.display()
            ))
            .into()
        })
}
