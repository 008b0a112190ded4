//! Folders for programs to work in, lent again and again: making and removing them costs more than many a program.
//!
//! A sandbox is lent again only when nobody is left who could still write into it, and with nothing in it but files and
//! folders that can become the next inputs ([`Leftovers`]).
//! Whatever is in doubt is removed, and a fresh one made.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::base::fs as bfs;
use crate::worker::attic::Attic;
use crate::worker::leftovers::{Leftovers, remove_all};

/// So many wait before one is made to suit that does not.
const MOST: usize = 16;

const ROOT: usize = 0;
const CWD: usize = 1;

/// The sandboxes of one run, below a folder that is removed with it.
#[derive(Debug)]
pub struct Sandboxes {
    root: PathBuf,
    free: Mutex<Vec<Sandbox>>,
    attic: Attic,
}

/// A working folder, a home and a place for temporary files. All are empty, but for what is `left` in the first.
#[derive(Debug)]
pub(super) struct Sandbox {
    root: PathBuf,
    pub(super) cwd: PathBuf,
    pub(super) home: PathBuf,
    pub(super) tmp: PathBuf,
    /// What lies in the working folder: whoever lays in the inputs makes them of it, and removes the rest.
    pub(super) left: Leftovers,
    /// Of the folders, in the order of [`Sandbox::folders`], when they were last empty.
    made: [Option<Stamp>; 4],
}

/// What a folder is, and when its entries last changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    mode: u32,
    changed: (i64, i64),
}

impl Sandboxes {
    /// `attic` is where sandboxes wait for the next run.
    pub fn new(root: PathBuf, attic: PathBuf) -> Self {
        Self { root, free: Mutex::default(), attic: Attic::new(attic) }
    }

    /// The one whose leftovers suit best a program with so many inputs.
    pub(super) fn lend(&self, inputs: usize) -> io::Result<Sandbox> {
        let mut free = self.free();
        let best = (0..free.len()).min_by_key(|at| free[*at].left.distance(inputs));
        match best {
            Some(at) if free[at].left.distance(inputs) <= inputs / 2 || free.len() >= MOST => Ok(free.swap_remove(at)),
            _ => {
                drop(free);
                let root = self.root.join(bfs::Nonce::next().to_string());
                self.attic.take(inputs, &root).map_or_else(|| Sandbox::make(root), Ok)
            }
        }
    }

    /// Takes a sandbox back. `is_over` says that every process that knew it has ended.
    pub(super) fn take_back(&self, mut sandbox: Sandbox, is_over: bool) -> io::Result<()> {
        if is_over && sandbox.empty().is_ok_and(|same| same) {
            self.free().push(sandbox);
            return Ok(());
        }
        remove_all(&sandbox.root)
    }

    fn free(&self) -> MutexGuard<'_, Vec<Sandbox>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Sandboxes {
    fn drop(&mut self) {
        self.attic.keep(self.free().drain(..).map(|sandbox| (sandbox.root, sandbox.left)));
    }
}

impl Sandbox {
    fn at(root: PathBuf) -> Self {
        let [cwd, home, tmp] = ["cwd", "home", "tmp"].map(|name| root.join(name));
        Self { root, cwd, home, tmp, left: Leftovers::default(), made: [None; 4] }
    }

    fn make(root: PathBuf) -> io::Result<Self> {
        let mut sandbox = Self::at(root);
        for folder in sandbox.folders() {
            fs::create_dir_all(folder)?;
        }
        sandbox.made = sandbox.stamps();
        Ok(sandbox)
    }

    /// One that lies at `root` already. None if it is not as it would be made here and now.
    pub(super) fn again(root: PathBuf) -> io::Result<Option<Self>> {
        let like = fs::symlink_metadata(root.parent().unwrap_or(Path::new("/")))?;
        let mut sandbox = Self::at(root);
        sandbox.made = sandbox.stamps();
        for folder in sandbox.folders() {
            let meta = fs::symlink_metadata(folder)?;
            if (meta.mode(), meta.uid(), meta.gid()) != (like.mode(), like.uid(), like.gid()) {
                return Ok(None);
            }
        }
        // Whatever happened to it meanwhile, each of its folders is looked into.
        sandbox.made.iter_mut().flatten().for_each(|stamp| stamp.changed = (0, 0));
        Ok(sandbox.empty()?.then_some(sandbox))
    }

    /// In the order of [`ROOT`] and [`CWD`].
    fn folders(&self) -> [&Path; 4] {
        [&self.root, &self.cwd, &self.home, &self.tmp]
    }

    fn stamps(&self) -> [Option<Stamp>; 4] {
        self.folders().map(|path| fs::symlink_metadata(path).ok().map(|meta| Stamp::of(&meta)))
    }

    /// Removes what a program left, except in the working folder what can be used again. False if the folders themselves
    /// are not those that were lent.
    fn empty(&mut self) -> io::Result<bool> {
        let mut made = self.made;
        let folders = self.folders().map(Path::to_owned);
        for (at, (folder, made)) in folders.iter().zip(&mut made).enumerate() {
            let meta = fs::symlink_metadata(folder)?;
            let now = Stamp::of(&meta);
            if !made.is_some_and(|made| (now.inode, now.mode) == (made.inode, made.mode)) {
                return Ok(false);
            }
            if at == CWD {
                self.left = Leftovers::of(folder, &meta)?;
            } else if made.is_none_or(|made| now.changed != made.changed || !is_past(made.changed)) {
                if at == ROOT && fs::read_dir(folder)?.count() != 3 {
                    return Ok(false);
                } else if at != ROOT {
                    clear(folder)?;
                }
                *made = fs::symlink_metadata(folder).ok().map(|meta| Stamp::of(&meta));
            }
        }
        self.made = made;
        Ok(true)
    }
}

impl Stamp {
    fn of(meta: &fs::Metadata) -> Self {
        Self { inode: meta.ino(), mode: meta.mode(), changed: (meta.ctime(), meta.ctime_nsec()) }
    }
}

fn clear(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() { remove_all(&entry.path())? } else { fs::remove_file(entry.path())? }
    }
    Ok(())
}

/// Whether a time is so far back that no change since can have left the same time behind. File systems that count parts
/// of a second stamp with the kernel's clock, whose tick is at most 10 ms.
fn is_past((seconds, nanos): (i64, i64)) -> bool {
    let (tick, nanos) =
        if nanos == 0 { (Duration::from_secs(2), 0) } else { (Duration::from_millis(50), nanos as u32) };
    let changed = UNIX_EPOCH + Duration::new(seconds.max(0) as u64, nanos);
    SystemTime::now().duration_since(changed).is_ok_and(|age| age > tick)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn after(left: impl Fn(&Sandbox), is_over: bool) -> (PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let sandboxes = Sandboxes::new(dir.path().join("boxes"), dir.path().join("attic"));
        let first = sandboxes.lend(0).unwrap();
        let root = first.root.clone();
        left(&first);
        sandboxes.take_back(first, is_over).unwrap();
        let entries = sandboxes.free().first().map_or(0, |free| free.left.entries());
        let mut second = sandboxes.lend(entries).unwrap();
        std::mem::take(&mut second.left).remove(&second.cwd).unwrap();
        for folder in &second.folders()[1..] {
            assert_eq!(fs::read_dir(folder).unwrap().count(), 0, "{}", folder.display());
        }
        assert_eq!(fs::read_dir(&second.root).unwrap().count(), 3);
        assert!(second.root == root || !root.exists());
        (root, second.root)
    }

    #[test]
    fn it_is_lent_again_without_what_was_left_in_it() {
        let (first, second) = after(|_| {}, true);
        assert_eq!(first, second);
        let (first, second) = after(
            |lent| {
                fs::create_dir_all(lent.cwd.join("a/b")).unwrap();
                fs::write(lent.home.join(".rc"), "x").unwrap();
                std::os::unix::fs::symlink("/nowhere", lent.tmp.join("link")).unwrap();
            },
            true,
        );
        assert_eq!(first, second);
    }

    #[test]
    fn one_in_doubt_is_not_lent_again() {
        type Case = (&'static str, fn(&Sandbox), bool);
        let cases: [Case; 4] = [
            ("somebody may still write", |_| {}, false),
            ("another file beside the folders", |lent| fs::write(lent.root.join("x"), "x").unwrap(), true),
            ("other rights", |lent| fs::set_permissions(&lent.home, fs::Permissions::from_mode(0o500)).unwrap(), true),
            (
                "another folder",
                |lent| {
                    fs::rename(&lent.tmp, lent.root.join("old")).unwrap();
                    fs::create_dir(&lent.tmp).unwrap();
                },
                true,
            ),
        ];
        for (what, left, is_over) in cases {
            let (first, second) = after(left, is_over);
            assert_ne!(first, second, "{what}");
        }
    }
}
