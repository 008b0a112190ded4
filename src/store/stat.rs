//! Digests of the user's own files, remembered by (size, mtime, inode) so that unchanged files are not read again.
//!
//! A stat never enters a key: it only decides whether the digest on record may be believed. A file changed within two
//! seconds of being hashed is hashed again, because a coarse clock could hide a second write.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::base::{Digest, fs as bfs};
use crate::store::{Manifest, StoreError};

#[derive(Debug)]
pub struct FileDigests {
    path: PathBuf,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    files: BTreeMap<PathBuf, Entry>,
    changed: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    stamp: Stamp,
    digest: Digest,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    size: u64,
    mtime_ns: u128,
    inode: u64,
}

impl Stamp {
    fn of(meta: &Metadata) -> Self {
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(meta);
        #[cfg(not(unix))]
        let inode = 0;
        let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Self { size: meta.len(), mtime_ns: meta.modified().map(since).unwrap_or_default(), inode }
    }

    fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        now.saturating_sub(self.mtime_ns) > 2_000_000_000
    }
}

impl FileDigests {
    /// A file that cannot be read as such a memory is an empty one: it only costs hashing.
    pub fn load(path: PathBuf) -> Self {
        let files = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        Self { path, known: Mutex::new(Known { files, changed: false }) }
    }

    /// The digest of a file's content, or of a folder's manifest.
    pub fn digest(&self, path: &Path) -> Result<Digest, StoreError> {
        let meta = fs::metadata(path).map_err(StoreError::io("read", path))?;
        if meta.is_dir() {
            return Ok(Manifest::of(path)?.digest());
        }
        let stamp = Stamp::of(&meta);
        let lock = || self.known.lock().expect("BUG: a thread panicked while it held the file digests");
        if let Some(entry) = lock().files.get(path)
            && entry.stamp == stamp
        {
            return Ok(entry.digest);
        }
        let digest = Digest::of_file(path).map_err(StoreError::io("read", path))?;
        if stamp.is_settled() {
            let mut known = lock();
            known.files.insert(path.to_owned(), Entry { stamp, digest });
            known.changed = true;
        }
        Ok(digest)
    }

    pub fn save(&self) -> Result<(), StoreError> {
        let known = self.known.lock().expect("BUG: a thread panicked while it held the file digests");
        if !known.changed {
            return Ok(());
        }
        let bytes = serde_json::to_vec(&known.files).expect("BUG: file digests serialise");
        bfs::write_atomic(&self.path, &bytes).map_err(StoreError::io("write", &self.path))
    }
}
