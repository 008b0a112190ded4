//! Files that get their own name when they are whole. Each is locked while it is written, so that what a killed process
//! left is distinct from what is being written.

#![expect(
    clippy::disallowed_methods,
    reason = "removes temporary files that a dead orch left"
)]

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use tempfile::NamedTempFile;

const PREFIX: &str = ".orch-tmp-";
/// The beginning of names of earlier versions, which locked none, and of folders that are being filled.
const OLDER: &str = ".tmp-";
/// What lies in a folder of orch's own for so long, and is locked by nobody, is no longer being written.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// Younger ones may be about to be locked.
const MOMENT: Duration = Duration::from_secs(10);

pub fn make(dir: &Path) -> io::Result<NamedTempFile> {
    make_ending(dir, "")
}

/// [`make`] with a name that ends in `suffix`.
pub fn make_ending(dir: &Path, suffix: &str) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    // The user's umask decides who may read it, as for every other file; left alone, only its owner could.
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let file = builder.prefix(PREFIX).suffix(suffix).tempfile_in(dir)?;
    // A file system without locks has no sweeping by locks either.
    let _ = file.as_file().lock();
    Ok(file)
}

/// A folder with such a name, which goes with this value.
#[derive(Debug)]
pub struct Folder {
    dir: tempfile::TempDir,
    _lock: fs::File,
}

impl Folder {
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Makes a folder for files that are tried before they are published.
pub fn make_folder(dir: &Path) -> io::Result<Folder> {
    let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(dir)?;
    let lock = fs::File::open(dir.path())?;
    let _ = lock.lock();
    Ok(Folder { dir, _lock: lock })
}

/// Removes what killed processes left in a folder of the user's, where nobody collects garbage.
pub fn sweep(dir: &Path) {
    let is_settled = |meta: fs::Metadata| {
        let age = meta.modified().map(|time| time.elapsed());
        age.is_ok_and(|age| age.is_ok_and(|age| age > MOMENT))
    };
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.metadata().is_ok_and(is_settled) {
            remove_left(&entry.path());
        }
    }
}

/// Whether a file of this name is one of these.
pub fn is_named(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(PREFIX.as_bytes()) || name.starts_with(OLDER.as_bytes())
}

/// Removes a file or folder that was being written by a process that is gone, and nothing else. Gives a file's size.
pub fn remove_left(path: &Path) -> Option<u64> {
    let is_ours = path
        .file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    let meta = fs::symlink_metadata(path)
        .ok()
        .filter(|meta| is_ours && (meta.is_file() || meta.is_dir()))?;
    if !is_free(path) {
        return None;
    }
    if meta.is_dir() {
        fs::remove_dir_all(path).ok()?;
        return Some(0);
    }
    fs::remove_file(path).ok().map(|()| meta.len())
}

fn is_free(path: &Path) -> bool {
    fs::File::open(path).is_ok_and(|file| file.try_lock().is_ok())
}

/// What killed processes left in a folder of orch's own, not in those below it.
pub fn left_in(dir: &Path) -> Vec<fs::DirEntry> {
    let is_old = |meta: fs::Metadata| {
        meta.modified()
            .is_ok_and(|time| time.elapsed().is_ok_and(|age| age > LONG))
    };
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter(|e| {
            is_named(&e.file_name()) && e.metadata().is_ok_and(is_old) && is_free(&e.path())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_killed_processes_left_goes_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at(".orch-tmp-left.yaml"), "x").unwrap();
        fs::create_dir(at(".orch-tmp-folder")).unwrap();
        fs::write(at(".orch-tmp-folder/all.yaml"), "x").unwrap();
        fs::write(at("all.yaml"), "x").unwrap();
        fs::write(at(".orch-tmp-young"), "x").unwrap();
        let past = std::time::SystemTime::now() - 2 * MOMENT;
        for name in [".orch-tmp-left.yaml", ".orch-tmp-folder", "all.yaml"] {
            let file = fs::File::open(at(name)).unwrap();
            file.set_modified(past).unwrap();
        }
        let written = make_ending(dir.path(), ".yaml").unwrap();
        let tried = make_folder(dir.path()).unwrap();
        sweep(dir.path());
        assert!(!at(".orch-tmp-left.yaml").exists() && !at(".orch-tmp-folder").exists());
        assert!(at("all.yaml").exists() && at(".orch-tmp-young").exists());
        assert!(written.path().exists() && tried.path().exists());
    }
}
