//! Files that the user named: one that is there may be a device, a pipe or a link, and stays what it is.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};

use crate::base::fs::{parent, persist};
use crate::base::temporary;

/// Lets `write` fill a file that the user named: [`Named`] says how.
pub fn write_named<T, E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut fs::File) -> Result<T, E>,
) -> Result<T, E> {
    match Named::of(path)? {
        Named::Whole(path) => {
            let file = path.temporary()?;
            persist(file, &path.0, write)
        }
        Named::Open(mut file) => write(&mut file),
    }
}

/// What becomes of a file that the user named.
pub enum Named {
    /// It is replaced when all is written.
    Whole(Target),
    /// No regular file, a device or a pipe: it is written to and never replaced.
    Open(fs::File),
}

/// The place where a regular file is to lie. A link was followed: it stays one.
pub struct Target(pub PathBuf, Option<fs::Metadata>);

impl Named {
    pub fn of(path: &Path) -> io::Result<Self> {
        match fs::metadata(path) {
            Ok(meta) if meta.is_file() => {
                Ok(Self::Whole(Target(fs::canonicalize(path)?, Some(meta))))
            }
            Ok(_) => Ok(Self::Open(fs::File::options().write(true).open(path)?)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Self::Whole(Target(
                std::path::absolute(link_target(path)?)?,
                None,
            ))),
            Err(e) => Err(e),
        }
    }
}

impl Target {
    /// A file beside it, with the owner and the permissions of the one that it will replace. What killed processes left there
    /// goes.
    pub fn temporary(&self) -> io::Result<tempfile::NamedTempFile> {
        let folder = parent(&self.0);
        temporary::sweep(folder);
        let file = temporary::make(folder)?;
        if let Some(meta) = &self.1 {
            // Only root may give a file away; for others it is theirs already, or was not.
            let _ = fchown(file.as_file(), Some(meta.uid()), Some(meta.gid()));
            file.as_file().set_permissions(meta.permissions())?;
            copy_attributes(&self.0, file.as_file());
        }
        Ok(file)
    }
}

/// Gives `to` the extended attributes of the file at `from`, as far as the file system and the user's rights allow.
#[cfg(target_os = "linux")]
fn copy_attributes(from: &Path, to: &fs::File) {
    use rustix::fs::{XattrFlags, fsetxattr, getxattr, listxattr};
    // The kernel's bound for a list of names and for a value.
    const LARGEST: usize = 1 << 16;
    let mut names = vec![0; LARGEST];
    let Ok(length) = listxattr(from, &mut names) else {
        return;
    };
    let mut value = vec![0; LARGEST];
    for name in names[..length].split(|byte| *byte == 0) {
        if !name.is_empty()
            && let Ok(size) = getxattr(from, name, &mut value)
        {
            let _ = fsetxattr(to, name, &value[..size], XattrFlags::empty());
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn copy_attributes(_from: &Path, _to: &fs::File) {}

/// Writes `bytes` to `path` as [`write_named`] does, and creates its folder if needed.
pub fn save_named(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(parent(path))?;
    write_named(path, |file| file.write_all(bytes))
}

/// Replaces a file of the user's as a whole, with its owner, mode and extended attributes.
///
/// A file that has several names (hard links) is an error and stays: under the others it would be what it was.
pub fn edit_named(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_file() && meta.nlink() > 1 => Err(io::Error::other(format!(
            "the file has {} names (hard links), which an edit would part; put a copy in its place",
            meta.nlink()
        ))),
        _ => save_named(path, bytes),
    }
}

/// Finds out whether files can be put into a folder, which need not be there yet; leaves nothing behind.
pub fn try_folder(folder: &Path) -> io::Result<()> {
    let folder = std::path::absolute(folder)?;
    let there = folder
        .ancestors()
        .find(|above| fs::symlink_metadata(above).is_ok())
        .unwrap_or(&folder);
    if !fs::metadata(there)?.is_dir() {
        return Err(io::Error::other(format!(
            "`{}` is no folder",
            there.display()
        )));
    }
    temporary::make(there).map(drop)
}

/// Finds out whether a file that the user named can be written; leaves nothing behind.
pub fn try_named(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::Error::other("it is a folder"));
    }
    match fs::metadata(path) {
        // To open a pipe would wait for its reader.
        Ok(meta) if !meta.is_file() => Ok(()),
        Ok(_) => fs::File::options()
            .append(true)
            .open(path)
            .and_then(|_| try_folder(parent(&fs::canonicalize(path)?))),
        Err(_) => try_folder(parent(&link_target(path)?)),
    }
}

/// The end of a chain of links of which the last leads to nothing; any other path is its own end.
fn link_target(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_owned();
    // As many as the kernel follows.
    for _ in 0..40 {
        match fs::read_link(&target) {
            Ok(next) => target = parent(&target).join(next),
            Err(_) => return Ok(target),
        }
    }
    Err(io::Error::other("it is a link to a link without end"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_keeps_attributes_and_parts_no_names() {
        let dir = tempfile::tempdir().unwrap();
        let [file, other] = ["spec.yaml", "other"].map(|name| dir.path().join(name));
        fs::write(&file, "old").unwrap();
        #[cfg(target_os = "linux")]
        let has_attributes = {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(&file, "user.mine", b"kept", flags).is_ok()
        };
        edit_named(&file, b"new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        #[cfg(target_os = "linux")]
        if has_attributes {
            let mut value = [0; 16];
            let size = rustix::fs::getxattr(&file, "user.mine", &mut value).unwrap();
            assert_eq!(&value[..size], b"kept");
        }
        fs::hard_link(&file, &other).unwrap();
        let error = edit_named(&file, b"newer").unwrap_err().to_string();
        assert!(error.contains("has 2 names (hard links)"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    }
}
