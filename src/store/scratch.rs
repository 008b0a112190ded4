//! Working folders that vanish: with their owner, or, if the owner was killed, with the next orch that starts.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::base::{Digest, fs as bfs, temporary};
use crate::store::{Amount, Result, StoreError};

/// The file of a working folder that names the temporary file which its process writes elsewhere.
const ELSEWHERE: &str = "elsewhere";
/// The file of a working folder that names the trees of the store that its process is going to read, a digest a line.
const READ: &str = "read";

/// This process's working folder, locked for as long as the process lives.
#[derive(Debug)]
pub struct Scratch {
    dir: PathBuf,
    lock_path: PathBuf,
    /// Held until drop; the operating system releases it when the process dies in any way.
    _lock: File,
    /// The folder around it, if that is nobody else's.
    home: Option<tempfile::TempDir>,
}

impl Scratch {
    /// Makes a folder below `parent`, after removing those whose owners are gone.
    pub fn create(parent: &Path) -> Result<Self> {
        fs::create_dir_all(parent).map_err(StoreError::io("create", parent))?;
        sweep(parent, true);
        loop {
            // The lock comes first and goes last, so a folder without one belongs to nobody.
            let fresh = tempfile::Builder::new()
                .prefix("orch-")
                .suffix(".lock")
                .tempfile_in(parent);
            let fresh = fresh.and_then(|file| file.keep().map_err(|e| e.error));
            let (lock, lock_path) =
                fresh.map_err(StoreError::io("create a working folder in", parent))?;
            lock.lock().map_err(StoreError::io("lock", &lock_path))?;
            // A sweeping process may have taken the file in the moment before it was locked.
            if !lock_path.exists() {
                continue;
            }
            let dir = lock_path.with_extension("");
            if let Err(e) = fs::create_dir(&dir) {
                let _ = bfs::remove_file(&lock_path);
                return Err(StoreError::io("create", dir)(e));
            }
            return Ok(Self {
                dir,
                lock_path,
                _lock: lock,
                home: None,
            });
        }
    }

    /// A working folder in the system's folder for temporary files, for processes that may not write to the store.
    pub(super) fn elsewhere() -> Result<Self> {
        let home = tempfile::Builder::new().prefix("orch-").tempdir();
        let home = home.map_err(StoreError::io(
            "create a working folder in",
            std::env::temp_dir(),
        ))?;
        let mut scratch = Self::create(home.path())?;
        scratch.home = Some(home);
        Ok(scratch)
    }

    /// A fresh, empty folder of its own.
    pub fn dir(&self, name: &str) -> Result<PathBuf> {
        let path = self.dir.join(format!("{}-{name}", bfs::Nonce::next()));
        fs::create_dir_all(&path).map_err(StoreError::io("create", &path))?;
        Ok(path)
    }

    /// Writes down a temporary file that lies elsewhere: who sweeps this folder removes that file as well.
    pub(super) fn note(&self, file: &Path) -> std::io::Result<()> {
        bfs::write_new(
            self.dir.join(ELSEWHERE),
            file.as_os_str().as_encoded_bytes(),
        )
    }

    /// Writes down trees that this process found in the store and is going to read, so that garbage collection leaves them.
    pub fn note_read(&self, trees: impl IntoIterator<Item = Digest>) -> Result<()> {
        let lines: Vec<String> = trees.into_iter().map(|tree| tree.to_string()).collect();
        let path = self.dir.join(READ);
        bfs::write_atomic(&path, lines.join("\n").as_bytes()).map_err(StoreError::io("write", path))
    }

    /// The moment when it was made, by the clock of its file system: what this process makes later has a later time of
    /// change.
    pub(super) fn born(&self) -> Result<SystemTime> {
        fs::metadata(&self.lock_path)
            .map(|meta| bfs::changed(&meta))
            .map_err(StoreError::io("read", &self.lock_path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = bfs::remove_dir(&self.dir);
        let _ = bfs::remove_file(&self.lock_path);
    }
}

/// The moment when the oldest of the living processes, `except` this one, made its folder, if there is one. Each that
/// puts something into the store has such a folder until all of that is named by the log.
pub(super) fn oldest_running(parent: &Path, except: Option<&Scratch>) -> Option<SystemTime> {
    let changed = |(_, lock): (PathBuf, File)| {
        let meta = lock.metadata().ok()?;
        Some(bfs::changed(&meta))
    };
    running(parent, except).filter_map(changed).min()
}

/// The trees that the living processes, `except` this one, are going to read ([`Scratch::note_read`]).
pub(super) fn read_by_running(parent: &Path, except: Option<&Scratch>) -> HashSet<Digest> {
    let text = |(path, _): (PathBuf, File)| {
        fs::read_to_string(path.with_extension("").join(READ)).unwrap_or_default()
    };
    let texts: Vec<String> = running(parent, except).map(text).collect();
    let digests = texts.iter().flat_map(|text| text.lines());
    digests.filter_map(|line| line.parse().ok()).collect()
}

/// The locks of living processes, `except` this one, with their paths.
fn running<'a>(
    parent: &Path,
    except: Option<&'a Scratch>,
) -> impl Iterator<Item = (PathBuf, File)> + 'a {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let is_own = move |path: &Path| except.is_some_and(|own| own.lock_path == path);
    let others =
        paths.filter(move |path| path.extension().is_some_and(|e| e == "lock") && !is_own(path));
    others.filter_map(|path| {
        let lock = File::open(&path).ok()?;
        let is_free = lock.try_lock().is_ok();
        (!is_free).then_some((path, lock))
    })
}

/// Removes the folders whose lock nobody holds, if it may; gives how many there were and their size.
pub(super) fn sweep(parent: &Path, remove: bool) -> Amount {
    let mut swept = Amount::default();
    let Ok(entries) = fs::read_dir(parent) else {
        return swept;
    };
    let is_named = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"orch-"))
    };
    for path in entries.flatten().map(|entry| entry.path()).filter(is_named) {
        let lock_path = path.with_extension("lock");
        if !path.is_dir()
            && path.extension().is_some_and(|e| e == "lock")
            && path.with_extension("").is_dir()
        {
            continue; // its folder's own turn decides
        }
        // Held until the folder is gone: its maker may be about to lock it.
        let lock = File::open(&lock_path);
        let free = match &lock {
            Ok(lock) => lock.try_lock().is_ok(),
            Err(e) => e.kind() == std::io::ErrorKind::NotFound,
        };
        if free {
            swept.add(Amount::below(&path));
            if remove && let Ok(file) = fs::read(path.join(ELSEWHERE)) {
                swept.bytes +=
                    temporary::remove_left(Path::new(OsStr::from_bytes(&file))).unwrap_or_default();
            }
            // What a dying child of the dead owner still writes to is for the next one who sweeps.
            if remove && (!path.is_dir() || bfs::remove_dir(&path).is_ok()) {
                let _ = bfs::remove_file(&lock_path);
            }
        }
    }
    swept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_owners_folder_is_swept_and_a_living_ones_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let dead = Scratch::create(parent.path()).unwrap();
        let dead_dir = dead.dir("x").unwrap();
        let Scratch { _lock: lock, .. } = &dead;
        lock.unlock().unwrap(); // what the kernel does when the owner is killed
        std::mem::forget(dead);
        let alive = Scratch::create(parent.path()).unwrap();
        assert!(!dead_dir.exists());
        let half_removed = parent.path().join("orch-x");
        fs::create_dir(&half_removed).unwrap();
        let half_made = parent.path().join("orch-y.lock");
        fs::write(&half_made, "").unwrap();
        let _third = Scratch::create(parent.path()).unwrap();
        assert!(!half_removed.exists() && !half_made.exists());
        assert!(alive.dir.exists());
    }

    #[test]
    fn what_a_living_process_is_going_to_read_is_known_until_it_ends() {
        let parent = tempfile::tempdir().unwrap();
        let own = Scratch::create(parent.path()).unwrap();
        let other = Scratch::create(parent.path()).unwrap();
        let trees = [Digest::of(b"a"), Digest::of(b"b")];
        other.note_read(trees).unwrap();
        own.note_read([Digest::of(b"own")]).unwrap();
        let read = || read_by_running(parent.path(), Some(&own));
        assert_eq!(read(), HashSet::from(trees));
        drop(other);
        assert_eq!(read(), HashSet::new());
    }
}
