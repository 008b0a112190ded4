//! Lets a run without changes end after comparing files with those of an earlier run that left nothing to do.
//!
//! A run in which every wanted step was a hit, or passed, or failed in a way that stands, or lacks its device, writes a
//! *memo*. A later run with the same command line and the same orch reads it and compares stamps with the disk. If none
//! differs, it prints what an ordinary run would print, without reading specs, keys or records. If anything changed or
//! cannot be read, the ordinary run follows, which is always right. `docs/design/memo.md`.

mod file;

use std::fmt::Debug;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::base::fs as bfs;
use crate::base::{Digest, program, temporary};
use crate::cases::{self, Finished};
use crate::device::Backend;
use crate::exec::{Context, HostFacts, How, StepResult};
use crate::record::Outcome;
use crate::report::ReportDoc;
use crate::spec::SourceFile;
use crate::store::DiskStore;
use crate::store::stat::Stamp;

pub use file::Memo;

/// Memos of this many command lines are kept, the newest, as long as they are no larger together than this.
const KEPT: usize = 16;
const KEPT_BYTES: u64 = 1 << 30;

/// The file of the memo of one command line.
#[derive(Debug)]
pub struct MemoPath(PathBuf);

/// What a memo depends on besides files: the machine, for plans that measure, or whose pages describe it.
#[derive(Debug, Clone, Copy)]
pub struct Here<'a> {
    pub host: &'a HostFacts,
    /// Empty where nothing is measured.
    pub inventory: &'a [Backend],
    /// The interpreters that reproducers name.
    pub pythons: &'a [Option<PathBuf>],
}

impl Here<'_> {
    fn digest(&self) -> Digest {
        let backends = self.inventory.iter().map(crate::report::stable_backend);
        let drivers = self
            .inventory
            .iter()
            .map(|backend| [backend.facts.get("driver"), backend.facts.get("rocm")]);
        let document = json!([
            self.host.fingerprint,
            self.host.variables,
            self.host.report,
            backends.collect::<Vec<_>>(),
            drivers.collect::<Vec<_>>(),
            self.pythons
                .iter()
                .map(|path| path.as_ref().map(|path| path.display().to_string()))
                .collect::<Vec<_>>(),
        ]);
        Digest::of(document.to_string().as_bytes())
    }
}

impl MemoPath {
    /// `command_line` is everything that changes what is done or shown; the executable and the folder that relative paths
    /// start from are added to it.
    pub fn new(root: PathBuf, command_line: &impl Debug) -> io::Result<Self> {
        let exe = fs::metadata(program::path()?)?;
        let Stamp {
            size,
            modified,
            inode,
            ..
        } = Stamp::from(&exe);
        let here = std::env::current_dir()?;
        // Without the change time, which hard links change that cargo makes of executables.
        let text = format!(
            "{} {size} {modified} {inode}\n{here:?}\n{command_line:?}",
            file::KIND
        );
        let name = Digest::of(text.as_bytes());
        Ok(Self(root.join("memos").join(name.to_string())))
    }

    /// The store's folder.
    fn root(&self) -> &Path {
        self.dir().parent().expect("BUG: memos lie in the store")
    }

    fn dir(&self) -> &Path {
        self.0.parent().expect("BUG: a memo lies in a folder")
    }

    /// Removes all but the newest memos, and unfinished files of writers that were killed.
    fn prune(&self) -> io::Result<()> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.dir())?.flatten() {
            if let Ok(meta) = entry.metadata() {
                found.push((meta.modified()?, entry.path(), meta.len()));
            }
        }
        found.sort();
        let mut kept = 0;
        let mut bytes = 0;
        for (modified, path, size) in found.into_iter().rev() {
            bytes += size;
            let stays = if path.file_name().is_some_and(temporary::is_named) {
                modified.elapsed().map_or(true, |age| age.as_secs() <= 3600)
            } else {
                kept += 1;
                path == self.0 || (kept <= KEPT && bytes < KEPT_BYTES)
            };
            if !stays {
                let _ = bfs::remove_file(&path);
            }
        }
        Ok(())
    }
}

/// What a run knows that may leave a memo.
pub struct Ended<'a> {
    pub context: &'a Context<'a>,
    pub finished: Finished,
    /// The specs, as they were read.
    pub specs: &'a [SourceFile],
    pub here: Here<'a>,
    /// What the run put where people look for it.
    pub out: &'a [PathBuf],
    /// The store as it was before the first step was looked up.
    pub before: Removals,
    pub recorded: Option<Recorded>,
}

/// What the history has of the run that wrote a memo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Its name there.
    pub run: String,
    /// The git revision that it, or the last run like it, stands for.
    pub revision: Option<String>,
}

/// The stamp of the file that is written when something is removed from the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removals(Option<Stamp>);

impl Removals {
    pub fn of(store: &DiskStore) -> Self {
        Self(Stamp::of(&store.removals()).ok())
    }
}

impl MemoPath {
    /// Writes the memo of a run that left nothing to do. False if something is left, or may have changed since.
    pub fn keep(&self, ended: Ended<'_>) -> io::Result<bool> {
        let Ended {
            context,
            mut finished,
            specs,
            here,
            out,
            before,
            recorded,
        } = ended;
        if finished.interrupted || !finished.results.iter().all(leaves_nothing) {
            return Ok(false);
        }
        let Some(found) = finished.files.found() else {
            return Ok(false);
        };
        // The next run will find all of it up to date.
        for result in finished
            .results
            .iter_mut()
            .filter(|result| result.how == How::Executed)
        {
            result.how = How::Hit;
        }
        for result in finished
            .results
            .iter_mut()
            .filter(|result| result.how == How::Hit)
        {
            result.failed_before = result.outcome.is_failure();
        }
        let results = &finished.results;
        let doc: ReportDoc = cases::report_doc(context, results, 0.0);
        let head = file::Head::of(context, &doc.summary, here, recorded);
        let Some([specs, files]) = file::files(context, results, specs, found, out)? else {
            return Ok(false);
        };
        let held = |digest: Digest| context.store.has_tree(&digest);
        if Removals::of(context.store) != before
            || !results.iter().filter_map(|r| r.output()).all(held)
        {
            return Ok(false);
        }
        self.write(&head, [&specs, &files], &doc)?;
        self.prune()?;
        Ok(true)
    }
}

/// Whether a step that ended so would not be executed by the same run again.
fn leaves_nothing(result: &StepResult) -> bool {
    let stands = || {
        result
            .record
            .as_ref()
            .is_some_and(|record| record.stands.is_some())
    };
    match result.how {
        // A refusal by a vendor's tool is kept, and so is what depends on it.
        How::Hit | How::Executed => {
            let is_kept = matches!(
                result.outcome,
                Outcome::Pass | Outcome::Flaky | Outcome::Indecisive | Outcome::SkipUnsupported
            );
            is_kept || stands()
        }
        // The step above it reports what failed there.
        How::Skipped if result.blamed.is_some() => true,
        How::Skipped => matches!(
            result.outcome,
            Outcome::SkipUnavailable | Outcome::SkipUnsupported
        ),
        How::NotNeeded => true,
    }
}
