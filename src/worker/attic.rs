//! Sandboxes between two runs. The next run of a step with a thousand inputs finds them where it wants them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::base::fs as bfs;
use crate::worker::leftovers::{Leftovers, remove_all};
use crate::worker::sandbox::Sandbox;

/// Smaller ones are made as fast as found, larger ones hold too much.
const WORTH: std::ops::RangeInclusive<usize> = 16..=16 * 1024;
/// So many wait; the youngest stay.
const MOST: usize = 6;

/// A folder of sandboxes, each named by how many entries it holds. Whoever uses one, or removes it, has renamed it away
/// before, so it is nobody else's.
#[derive(Debug)]
pub(super) struct Attic {
    dir: PathBuf,
    /// What lay there when it was first asked.
    found: Mutex<Option<Vec<(usize, PathBuf)>>>,
}

impl Attic {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir, found: Mutex::default() }
    }

    /// Moves one that suits a program with so many inputs to `to`, if there is one.
    pub(super) fn take(&self, inputs: usize, to: &Path) -> Option<Sandbox> {
        if !WORTH.contains(&inputs) {
            return None;
        }
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let found = found.get_or_insert_with(|| list(&self.dir));
        let best = (0..found.len()).min_by_key(|at| found[*at].0.abs_diff(inputs))?;
        let is_near = found[best].0.abs_diff(inputs) <= inputs / 2;
        let (_, path) = is_near.then(|| found.swap_remove(best))?;
        // Another orch may have been quicker.
        fs::rename(path, to).ok()?;
        let again = Sandbox::again(to.to_owned()).ok().flatten();
        if again.is_none() {
            let _ = remove_all(to);
        }
        again
    }

    /// Keeps sandboxes for the next run. What goes wrong with that costs only time.
    pub(super) fn keep(&self, sandboxes: impl Iterator<Item = (PathBuf, Leftovers)>) {
        let mut worth: Vec<_> = sandboxes.filter(|(_, left)| WORTH.contains(&left.entries())).collect();
        if worth.is_empty() {
            return;
        }
        worth.sort_by_key(|(_, left)| std::cmp::Reverse(left.entries()));
        let _ = fs::create_dir_all(&self.dir);
        for (path, left) in worth.into_iter().take(MOST) {
            let name = format!("{}-{}-{}", left.entries(), std::process::id(), bfs::Nonce::next());
            let _ = fs::rename(path, self.dir.join(name));
        }
        let changed = |path: &Path| fs::metadata(path).map(|meta| bfs::changed(&meta)).ok();
        let mut all: Vec<_> = list(&self.dir).into_iter().map(|(_, path)| (changed(&path), path)).collect();
        all.sort();
        for (_, path) in all.iter().rev().skip(MOST) {
            let away = path.with_extension(format!("gone-{}", std::process::id()));
            let _ = fs::rename(path, &away).and_then(|()| remove_all(&away));
        }
    }
}

fn list(dir: &Path) -> Vec<(usize, PathBuf)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let counted = entries.filter_map(|entry| {
        let count = entry.file_name().to_str()?.split_once('-')?.0.parse().ok()?;
        Some((count, entry.path()))
    });
    counted.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::worker::sandbox::Sandboxes;

    #[test]
    fn a_sandbox_waits_for_the_next_run_unless_it_was_tampered_with() {
        let dir = tempfile::tempdir().unwrap();
        let run = |name: &str| {
            fs::create_dir_all(dir.path().join(name)).unwrap();
            Sandboxes::new(dir.path().join(name), dir.path().join("attic"))
        };
        let first = run("one");
        let lent = first.lend(20).unwrap();
        (0..20).for_each(|n| fs::write(lent.cwd.join(n.to_string()), "x").unwrap());
        let inode = fs::metadata(lent.cwd.join("7")).unwrap().ino();
        first.take_back(lent, true).unwrap();
        drop(first);

        let second = run("two");
        assert_eq!(second.lend(3).unwrap().left.entries(), 0, "it does not suit so few inputs");
        let lent = second.lend(25).unwrap();
        assert_eq!((lent.left.entries(), fs::metadata(lent.cwd.join("7")).unwrap().ino()), (20, inode));
        assert_eq!(list(&dir.path().join("attic")), []);
        second.take_back(lent, true).unwrap();
        drop(second);

        let [(20, kept)] = &list(&dir.path().join("attic"))[..] else { panic!("it was not kept") };
        fs::write(kept.join("another"), "x").unwrap();
        assert_eq!(run("three").lend(20).unwrap().left.entries(), 0);
        assert!(!kept.exists());
    }
}
