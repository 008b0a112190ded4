//! The last use of what is installed: a file beside each folder, whose time is that of the use, and which its users hold
//! locked. A folder that cannot be written to has none, and nothing is removed from it either.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::base::fs as bfs;
use crate::provision::env;

/// How often a mark is opened anew that somebody removed meanwhile.
const TRIES: u32 = 8;

fn mark(home: &Path) -> PathBuf {
    home.with_extension("used")
}

/// Notes a use that lasts as long as the file is open; waits while the folder is being removed. None where it cannot be noted.
pub(super) fn note(home: &Path) -> Option<File> {
    let file = held(home, |file| file.lock_shared().ok())?;
    file.set_modified(SystemTime::now()).ok()?;
    Some(file)
}

/// Keeps others from using a folder for as long as the file is open. None while somebody uses it.
pub(super) fn seize(home: &Path) -> Option<File> {
    held(home, |file| file.try_lock().ok())
}

/// The mark, locked. One that was removed before the lock was had keeps nobody away, so the new one is taken.
fn held(home: &Path, lock: impl Fn(&File) -> Option<()>) -> Option<File> {
    let path = mark(home);
    for _ in 0..TRIES {
        let file = File::options().create(true).append(true).open(&path).ok()?;
        lock(&file)?;
        let same = |there: Metadata, ours: Metadata| {
            there.ino() == ours.ino() && there.dev() == ours.dev()
        };
        if let (Ok(there), Ok(ours)) = (std::fs::metadata(&path), file.metadata())
            && same(there, ours)
        {
            return Some(file);
        }
    }
    None
}

/// Takes the mark of a removed folder away.
pub(super) fn forget(home: &Path) {
    let _ = bfs::remove_file(mark(home));
}

/// When a folder was last used; one without a mark counts from its installation.
pub(super) fn last(home: &Path) -> SystemTime {
    let at = |path: &Path| std::fs::metadata(path).and_then(|found| found.modified());
    at(&mark(home))
        .or_else(|_| at(&home.join(env::MARKER)))
        .or_else(|_| at(home))
        .unwrap_or_else(|_| SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_is_not_seized_and_what_is_seized_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("ort-0123456789ab");
        std::fs::create_dir(&home).unwrap();
        let one = note(&home).unwrap();
        let other = note(&home).unwrap();
        assert!(seize(&home).is_none());
        drop(one);
        assert!(seize(&home).is_none());
        drop(other);
        let seized = seize(&home).unwrap();
        let waiting = std::thread::spawn({
            let home = home.clone();
            move || note(&home).is_some()
        });
        forget(&home);
        drop(seized);
        assert!(waiting.join().unwrap());
        // The waiting one did not keep the removed mark: there is a new one.
        assert!(mark(&home).is_file());
    }

    #[test]
    fn a_use_moves_the_time() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("ort-0123456789ab");
        std::fs::create_dir(&home).unwrap();
        drop(note(&home).unwrap());
        let long_ago = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        let file = File::options().append(true).open(mark(&home)).unwrap();
        file.set_modified(long_ago).unwrap();
        assert_eq!(last(&home), long_ago);
        drop(note(&home).unwrap());
        assert!(last(&home) > long_ago);
    }
}
