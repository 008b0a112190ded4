//! What programs left in a working folder, made into what the next one is given.
//!
//! Where a program runs for a millisecond, making its inputs and removing them costs as much; and ext4 passes over what
//! was freed in the last minutes, so each removal makes the next files dearer. Writing over a file costs a tenth.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::base::fs as bfs;

/// Larger files are not kept: they hold their space.
pub(super) const LARGEST: u64 = 64 * 1024;

/// Of one folder.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    files: BTreeMap<OsString, LeftFile>,
    folders: BTreeMap<OsString, Leftovers>,
}

#[derive(Debug)]
pub(super) struct LeftFile {
    size: u64,
    mode: u32,
}

impl Leftovers {
    /// Looks into a folder whose users have all ended, and removes what is not as if it had just been made. `like` is
    /// what a fresh folder is like.
    pub(super) fn of(folder: &Path, like: &Metadata) -> io::Result<Self> {
        let mut left = Self::default();
        for entry in fs::read_dir(folder)? {
            let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
            let meta = fs::symlink_metadata(&path)?;
            let is_like_new = (meta.uid(), meta.gid()) == (like.uid(), like.gid()) && !has_attributes(&path);
            if !meta.is_dir() {
                let may_stay = is_like_new && meta.is_file() && meta.nlink() == 1 && meta.len() <= LARGEST;
                match may_stay {
                    true => drop(left.files.insert(name, LeftFile { size: meta.len(), mode: meta.mode() & 0o7777 })),
                    false => fs::remove_file(&path)?,
                }
            } else if is_like_new && meta.mode() == like.mode() {
                left.folders.insert(name, Self::of(&path, like)?);
            } else {
                remove_all(&path)?;
            }
        }
        Ok(left)
    }

    /// The file of this name, out of the list.
    pub(super) fn file(&mut self, name: &OsStr) -> Option<LeftFile> {
        self.files.remove(name)
    }

    /// The folder of this name, out of the list.
    pub(super) fn folder(&mut self, name: &OsStr) -> Option<Self> {
        self.folders.remove(name)
    }

    pub(super) fn any_file(&mut self) -> Option<(OsString, LeftFile)> {
        self.files.pop_first()
    }

    pub(super) fn any_folder(&mut self) -> Option<(OsString, Self)> {
        self.folders.pop_first()
    }

    pub(super) fn entries(&self) -> usize {
        self.files.len() + self.folders.len()
    }

    /// How many more entries there are than `wanted`, or fewer.
    pub(super) fn distance(&self, wanted: usize) -> usize {
        self.entries().abs_diff(wanted)
    }

    /// Removes all that is still listed.
    pub(super) fn remove(self, folder: &Path) -> io::Result<()> {
        self.files.keys().try_for_each(|name| fs::remove_file(folder.join(name)))?;
        self.folders.keys().try_for_each(|name| remove_all(&folder.join(name)))
    }
}

impl LeftFile {
    /// Gives the file, which lies at `path`, another content. It is written over: cutting it to nothing first would free
    /// its space only to ask for it again.
    pub(super) fn fill(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        let is_closed = self.mode & 0o200 == 0;
        if is_closed {
            fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        }
        let mut file = File::options().write(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
        file.write_all(bytes)?;
        if self.size > bytes.len() as u64 {
            file.set_len(bytes.len() as u64)?;
        }
        if is_closed || self.mode != mode {
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        Ok(())
    }
}

/// Removes a folder, also one in which a program has made folders read-only, as some package managers do.
pub(super) fn remove_all(path: &Path) -> io::Result<()> {
    if bfs::remove_dir(path).is_ok() {
        return Ok(());
    }
    for entry in walkdir::WalkDir::new(path).into_iter().flatten().filter(|entry| entry.file_type().is_dir()) {
        let _ = fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o700));
    }
    bfs::remove_dir(path)
}

/// Extended attributes, access control lists among them. Where it cannot be told, there are some.
fn has_attributes(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return true };
    #[cfg(target_os = "macos")]
    // SAFETY: the path ends in NUL; without a buffer only the size is asked for.
    let size = unsafe { libc::listxattr(path.as_ptr(), std::ptr::null_mut(), 0, libc::XATTR_NOFOLLOW) };
    #[cfg(not(target_os = "macos"))]
    // SAFETY: the path ends in NUL; without a buffer only the size is asked for.
    let size = unsafe { libc::llistxattr(path.as_ptr(), std::ptr::null_mut(), 0) };
    size != 0 && (size > 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EOPNOTSUPP))
}
