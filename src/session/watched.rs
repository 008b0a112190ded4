//! Files whose change is waited for: the system's notifications wake, stamps decide.
//!
//! Whether something changed, and what, is known by snapshots of all watched files that were taken before the run. So nothing that happens during a run is missed, whatever the system notifies of. The only home of notify.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use notify::{RecursiveMode, Watcher};

use crate::base::fs::normal;
use crate::base::lock;
use crate::session::Tell;
use crate::store::snapshot::Snapshot;
use crate::worker::Cancel;

/// Quiet for so long, a burst of writes is over.
const QUIET: Duration = Duration::from_millis(200);
/// Who writes for longer than this is not waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often to look where the system does not notify.
const LOOK: Duration = Duration::from_secs(2);

/// Files, what they were like before the run, and the system's notifications about their folders.
pub struct Watched {
    /// Files and folders, absolute.
    roots: BTreeSet<PathBuf>,
    /// What they were like when they were added.
    before: Vec<Snapshot>,
    /// The store and the folder of the report: orch writes there itself.
    ignored: Vec<PathBuf>,
    watcher: Option<notify::RecommendedWatcher>,
    /// Folders that are watched, and whether with all below them.
    folders: BTreeSet<(PathBuf, bool)>,
    sender: Sender<()>,
    /// Names that matter in the watched folders, where other files may be written without end.
    names: Arc<Mutex<Names>>,
    /// Whether the system reported why it cannot notify.
    has_warned: bool,
}

#[derive(Default)]
struct Names {
    files: BTreeSet<OsString>,
    /// Whether any name below a watched folder matters.
    all: bool,
}

impl Watched {
    pub fn new(sender: Sender<()>, ignored: Vec<PathBuf>) -> Self {
        Self {
            roots: Default::default(),
            before: Default::default(),
            ignored,
            watcher: None,
            folders: Default::default(),
            sender,
            names: Default::default(),
            has_warned: false,
        }
    }

    /// Watches these files, and forgets about all others.
    pub fn set(&mut self, files: &[PathBuf], tell: Tell<'_>) {
        self.roots.clear();
        self.before.clear();
        self.folders.clear();
        self.watcher = None;
        self.names = Arc::default();
        self.add(files, tell);
    }

    pub fn add(&mut self, files: &[PathBuf], tell: Tell<'_>) {
        let absolute = files
            .iter()
            .filter_map(|path| std::path::absolute(path).ok());
        let new: Vec<PathBuf> = absolute
            .filter(|path| !self.is_ignored(path) && !self.roots.contains(path))
            .collect();
        if let Err(error) = self.listen(&new)
            && !std::mem::replace(&mut self.has_warned, true)
        {
            let every = LOOK.as_secs();
            tell(&format!(
                "warning: the system reports no changes ({error:#}); checking every {every} s"
            ));
        }
        self.before.push(Snapshot::of(&new, &self.ignored));
        self.roots.extend(new);
    }

    /// A file's folder is watched and not the file, because editors put another file in its place.
    fn listen(&mut self, roots: &[PathBuf]) -> anyhow::Result<()> {
        if self.watcher.is_none() {
            let sender = self.sender.clone();
            let names = self.names.clone();
            let ignored = self.ignored.clone();
            let tell = move |event: notify::Result<notify::Event>| {
                // An error, and an event that names no file, may stand for any.
                if event.map_or(true, |event| matters(&event, &names, &ignored)) {
                    let _ = sender.send(());
                }
            };
            self.watcher = Some(notify::recommended_watcher(tell)?);
        }
        let watcher = self.watcher.as_mut().expect("BUG: made above");
        let (deep, flat): (Vec<_>, Vec<_>) = roots.iter().partition(|root| root.is_dir());
        for root in deep.into_iter().chain(flat) {
            let mut folders = Vec::new();
            if root.is_dir() {
                folders.push((root.as_path(), RecursiveMode::Recursive));
            }
            let mut names = lock(&self.names);
            names.all |= root.is_dir();
            // Where the folder is not there, its own coming is watched for.
            let mut below = root.as_path();
            for above in root.ancestors().skip(1) {
                names.files.extend(below.file_name().map(ToOwned::to_owned));
                below = above;
                if above.is_dir() {
                    folders.push((above, RecursiveMode::NonRecursive));
                    break;
                }
            }
            drop(names);
            for (folder, mode) in folders {
                let recursive = mode == RecursiveMode::Recursive;
                // To watch a folder again without what is below it would take that away.
                let covered = folder
                    .ancestors()
                    .any(|above| self.folders.contains(&(above.to_owned(), true)));
                if !covered && self.folders.insert((folder.to_owned(), recursive)) {
                    watcher
                        .watch(folder, mode)
                        .with_context(|| format!("failed to watch {}", folder.display()))?;
                }
            }
        }
        Ok(())
    }

    /// How many files there are to change.
    pub fn count(&self) -> usize {
        self.before
            .iter()
            .flat_map(Snapshot::files)
            .collect::<BTreeSet<_>>()
            .len()
    }

    fn is_ignored(&self, path: &Path) -> bool {
        self.ignored.iter().any(|ignored| path.starts_with(ignored))
    }

    /// Files that are not what they were before the run, for people.
    pub fn changed(&mut self) -> Vec<String> {
        let here = std::env::current_dir().unwrap_or_default();
        let changed: BTreeSet<PathBuf> = self
            .before
            .iter_mut()
            .flat_map(|before| before.changes().paths)
            .collect();
        let shown = |path: PathBuf| {
            let path = normal(&path);
            path.strip_prefix(&here)
                .unwrap_or(&path)
                .display()
                .to_string()
        };
        changed.into_iter().map(shown).collect()
    }

    /// Waits for a change, or for an interrupt.
    pub fn wait(&mut self, receiver: &Receiver<()>, cancel: &Cancel) -> Vec<String> {
        // The system reports a new folder before it watches it, and never what was put into it in between:
        // so this looks once more after a notification.
        let mut was_notified = false;
        while !cancel.is_cancelled() {
            let woken = match (was_notified, self.has_warned) {
                (true, _) => receiver.recv_timeout(QUIET),
                (false, true) => receiver.recv_timeout(LOOK),
                (false, false) => receiver.recv().map_err(Into::into),
            };
            if woken == Err(RecvTimeoutError::Disconnected) {
                break;
            }
            was_notified = woken.is_ok();
            // A folder that was not there may be by now.
            let roots: Vec<PathBuf> = self.roots.iter().cloned().collect();
            let listened = self.listen(&roots);
            let changed = self.changed();
            if !changed.is_empty() {
                return changed;
            }
            self.has_warned |= listened.is_err();
        }
        Vec::new()
    }

    /// Waits until nothing has been written for a while.
    pub fn debounce(&self, receiver: &Receiver<()>, cancel: &Cancel) {
        let start = Instant::now();
        while !cancel.is_cancelled()
            && start.elapsed() < PATIENCE
            && receiver.recv_timeout(QUIET).is_ok()
        {}
    }
}

/// Whether an event may be a change of a watched file. Reading is none.
fn matters(event: &notify::Event, names: &Mutex<Names>, ignored: &[PathBuf]) -> bool {
    if event.kind.is_access() {
        return false;
    }
    let names = lock(names);
    let is_ours = |path: &PathBuf| {
        (names.all
            || path
                .file_name()
                .is_some_and(|name| names.files.contains(name)))
            && !ignored.iter().any(|ignored| path.starts_with(ignored))
    };
    event.paths.is_empty() || event.need_rescan() || event.paths.iter().any(is_ours)
}
