//! Content by digest: one read-only file for each, whoever made it and however many trees hold it.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::base::{Digest, fs as bfs, lock};
use crate::store::stat::Stamp;
use crate::store::tree::Blob;
use crate::store::{ManifestFile, Result, StoreError};

#[derive(Debug)]
pub(super) struct Blobs {
    root: PathBuf,
    /// Blobs whose content this process has hashed and found right, as they were then. The stamp holds the time of the
    /// last change, which no writer can set back.
    verified: Mutex<HashMap<PathBuf, Stamp>>,
}

impl Blobs {
    pub(super) fn new(dir: &Path) -> Self {
        Self {
            root: dir.join("blobs"),
            verified: Mutex::default(),
        }
    }

    /// An executable file is a blob of its own: links share the permission with what they are linked to.
    pub(super) fn path(&self, blob: &Blob) -> PathBuf {
        let name = name(blob);
        self.root.join(&name[..2]).join(name)
    }

    pub(super) fn path_of(&self, file: &ManifestFile) -> PathBuf {
        self.path(&file.blob())
    }

    /// Moves a file, whose digest the caller has just computed, into its place. An older blob of the same name is
    /// replaced: it may be damaged, and this one is not.
    pub(super) fn take(&self, from: &Path, file: &ManifestFile) -> Result<()> {
        bfs::protect(from, file.executable).map_err(StoreError::io("protect", from))?;
        self.move_in(from, file)
    }

    /// Makes a blob of what is in memory: the file `path` of a tree. It is written at `by`, where nothing lies.
    pub(super) fn put(&self, path: String, content: &[u8], by: &Path) -> Result<ManifestFile> {
        let digest = Digest::of(content);
        let file = ManifestFile {
            path,
            size: content.len() as u64,
            digest,
            executable: false,
        };
        bfs::write_protected(by, content).map_err(StoreError::io("write", by))?;
        self.move_in(by, &file)?;
        Ok(file)
    }

    fn move_in(&self, from: &Path, file: &ManifestFile) -> Result<()> {
        let home = self.path_of(file);
        bfs::move_file(from, &home)
            .or_else(|e| match home.parent() {
                // Folders are made with what is first put into them, or again after a power failure or a hand took them.
                // Another thread may have made it since.
                Some(fan) if e.kind() == io::ErrorKind::NotFound => {
                    fs::create_dir_all(fan).and_then(|()| bfs::move_file(from, &home))
                }
                _ => Err(e),
            })
            .map_err(StoreError::io("publish", &home))?;
        let stamp = Stamp::of(&home).map_err(StoreError::io("read", &home))?;
        lock(&self.verified).insert(home, stamp);
        Ok(())
    }

    pub(super) fn has(&self, file: &ManifestFile) -> bool {
        fs::symlink_metadata(self.path_of(file)).is_ok_and(|meta| meta.len() == file.size)
    }

    /// Whether a blob is there as it was published.
    pub(super) fn has_whole(&self, file: &ManifestFile) -> bool {
        self.has(file) && self.check(file).is_ok()
    }

    /// Finds a blob as it was published: hashed, unless this process has done so and nothing happened to it since.
    pub(super) fn check(&self, file: &ManifestFile) -> Result<()> {
        let path = self.path_of(file);
        let failed = |e: io::Error| self.lost(path.clone(), "read", e);
        let meta = fs::symlink_metadata(&path).map_err(failed)?;
        let before = Stamp::from(&meta);
        if lock(&self.verified).get(&path) == Some(&before) {
            return Ok(());
        }
        if Digest::of_file(&path).map_err(failed)? != file.digest {
            lock(&self.verified).remove(&path);
            return Err(StoreError::Damaged {
                path,
                what: "it has other content than was published".into(),
            });
        }
        // Somebody opened it for writing, and wrote nothing yet.
        let opened = !meta.permissions().readonly();
        if opened {
            bfs::protect(&path, file.executable).map_err(failed)?;
        }
        let now = Stamp::of(&path).map_err(failed)?;
        // What changed while it was read is hashed again by whoever asks next.
        if opened || now == before {
            lock(&self.verified).insert(path, now);
        }
        Ok(())
    }

    /// Gives a blob the name `to` as well: for readers that the kernel keeps from writing.
    pub(super) fn link(&self, file: &ManifestFile, to: &Path) -> Result<()> {
        let path = self.path_of(file);
        let mut verified = lock(&self.verified);
        // A new name is a change of the file. This one is known.
        let is_known = Stamp::of(&path).is_ok_and(|stamp| verified.get(&path) == Some(&stamp));
        let linked = bfs::link_or_copy(&path, to);
        if let Some(stamp) = is_known.then(|| Stamp::of(&path).ok()).flatten() {
            verified.insert(path.clone(), stamp);
        }
        drop(verified);
        linked.map_err(|e| self.lost(path, "link", e))
    }

    /// Copies a blob to `to`; where the file system can, that takes no space.
    pub(super) fn copy(&self, file: &ManifestFile, to: &Path) -> Result<()> {
        let path = self.path_of(file);
        bfs::copy_file(&path, to).map_err(|e| self.lost(path, "copy", e))
    }

    pub(super) fn read(&self, file: &ManifestFile) -> Result<Vec<u8>> {
        let path = self.path_of(file);
        fs::read(&path).map_err(|e| self.lost(path, "read", e))
    }

    /// A blob that was verified may have been collected by another process since. It is no longer taken for verified, so
    /// that whoever made it does so again.
    fn lost(&self, path: PathBuf, action: &'static str, error: io::Error) -> StoreError {
        lock(&self.verified).remove(&path);
        match error.kind() {
            io::ErrorKind::NotFound => StoreError::Damaged {
                path,
                what: "it is missing".into(),
            },
            _ => StoreError::io(action, path)(error),
        }
    }

    /// Removes a blob, so that it is made again.
    pub(super) fn discard(&self, file: &ManifestFile) -> Result<()> {
        let path = self.path_of(file);
        lock(&self.verified).remove(&path);
        remove(&path)
    }

    /// The folders that blobs lie in.
    pub(super) fn fans(&self) -> Result<Vec<PathBuf>> {
        Ok(listed(&self.root)?
            .into_iter()
            .filter(|path| path.is_dir())
            .collect())
    }

    /// Every file with what its name says.
    pub(super) fn list(&self) -> Result<Vec<Named>> {
        let mut found = Vec::new();
        for fan in self.fans()? {
            found.extend(names(&fan)?);
        }
        Ok(found)
    }
}

/// A path, and the blob that its name says, or None if no blob has such a name.
pub(super) type Named = (PathBuf, Option<Blob>);

pub(super) fn names(fan: &Path) -> Result<Vec<Named>> {
    let blob = |path: &Path| parse_name(path.file_name()?.to_str()?);
    Ok(listed(fan)?
        .into_iter()
        .map(|path| (path.clone(), blob(&path)))
        .collect())
}

/// What lies in a folder, sorted.
pub(super) fn listed(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).map_err(StoreError::io("list", dir))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// How the file of a blob is called, here and wherever it is sent.
pub(super) fn name((digest, executable): &Blob) -> String {
    format!("{digest}{}", if *executable { ".x" } else { "" })
}

/// The blob that [`name`] gave this name.
pub(super) fn parse_name(name: &str) -> Option<Blob> {
    let hex = name.strip_suffix(".x").unwrap_or(name);
    // Only as it would be written: a digest is read in capitals, too.
    let digest: Digest = hex.parse().ok()?;
    (digest.to_string() == hex).then_some((digest, hex.len() < name.len()))
}

pub(super) fn remove(path: &Path) -> Result<()> {
    bfs::remove_file(path).map_err(StoreError::io("remove", path))
}
