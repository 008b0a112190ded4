//! Files that get their own name when they are whole. Each is locked while it is written, so that what a killed process
//! left can be told from what is being written.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use tempfile::NamedTempFile;

const PREFIX: &str = ".orch-tmp-";
/// Of orchs that locked none, and of folders that are being filled.
const OLDER: &str = ".tmp-";
/// What lies in a folder of orch's own for so long, and is locked by nobody, is no longer being written.
const LONG: Duration = Duration::from_secs(24 * 3600);

pub fn make(dir: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    // The user's umask decides who may read it, as for every other file; left alone, only its owner could.
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let file = builder.prefix(PREFIX).tempfile_in(dir)?;
    // A file system without locks has no sweeping by locks either.
    let _ = file.as_file().lock();
    Ok(file)
}

/// Whether a file of this name is one of these.
pub fn is_named(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(PREFIX.as_bytes()) || name.starts_with(OLDER.as_bytes())
}

/// Removes a file that was being written by a process that is gone, and nothing else. Gives its size.
pub fn remove_left(path: &Path) -> Option<u64> {
    let is_ours = path
        .file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    let meta = fs::symlink_metadata(path)
        .ok()
        .filter(|meta| is_ours && meta.is_file())?;
    is_free(path)
        .then(|| fs::remove_file(path).ok())?
        .map(|()| meta.len())
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
