//! A folder that may become, or is, a store. One that holds files of somebody else's is refused before anything is written.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use crate::base::{ensure, mark, temporary};
use crate::store::{Result, StoreError};

/// What lies in folders that people call empty: files that keep one in git, a disk's own folder, and orch's environments,
/// which may have been installed before the first step ran.
const OF_NOBODY: [&str; 6] = [
    ".gitignore",
    ".gitkeep",
    ".gitattributes",
    ".DS_Store",
    "lost+found",
    "envs",
];

/// Marks `dir`, and in it the folder `root` of this version, as orch's.
pub(super) fn claim(dir: &Path, root: &Path) -> Result<()> {
    if mark::is_on(root) && mark::is_on(dir) {
        return Ok(());
    }
    let is_free = |path: &Path, ours: &dyn Fn(&OsStr) -> bool| match fs::read_dir(path) {
        Ok(mut entries) => {
            Ok(entries.all(|entry| entry.is_ok_and(|entry| ours(&entry.file_name()))))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(e) => Err(StoreError::io("list", path)(e)),
    };
    // Another process may be marking it at this moment.
    let is_mark = |name: &OsStr| name == mark::NAME || temporary::is_named(name);
    // Another process marks a folder before it puts anything there, so a mark that is looked for after the contents is
    // found where they are its.
    let is_root_free = is_free(root, &is_mark)?;
    let is_ours = mark::is_on(root) || is_older(root);
    ensure(is_ours || is_root_free, || StoreError::Foreign {
        path: root.to_owned(),
    })?;
    let expected = |name: &OsStr| {
        is_mark(name) || root.file_name() == Some(name) || OF_NOBODY.iter().any(|of| name == *of)
    };
    let is_dir_free = is_free(dir, &expected)?;
    let may_be = is_ours || mark::is_on(dir) || is_dir_free;
    ensure(may_be, || StoreError::Foreign {
        path: dir.to_owned(),
    })?;
    let version = root.file_name().unwrap_or_default().to_string_lossy();
    let marked = mark::put(root, &format!("its store, layout {version}"))
        .map_err(StoreError::io("mark", root))
        .and_then(|()| mark::put(dir, "its store").map_err(StoreError::io("mark", dir)));
    // Whoever may only read a store marks nothing.
    if is_ours { Ok(()) } else { marked }
}

/// The store of an orch that left no marks yet. What no other program makes is recognised: the file in which keys are
/// locked, and the last of the folders for content.
fn is_older(root: &Path) -> bool {
    root.join("keys.lock").is_file() && root.join("blobs/ff").is_dir()
}
