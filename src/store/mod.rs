//! What steps made and what is known of how: content by digest, records by key.
//!
//! A store knows digests and records; it does not know what a step is or why it ran. Layout of the folder:
//! `cache/README.md`; why it is so: docs/design/store.md.

mod amount;
mod claim;
mod tree;
mod entry;
mod scan;
mod log;
mod blobs;
mod locks;
mod scratch;
pub mod sealed;
pub mod stat;
mod files;
pub mod snapshot;
mod disk;
mod gc;
mod pack;
mod count;
mod verify;
pub mod remote;

pub use amount::Amount;
pub use count::{OfSteps, Stats};
pub use disk::{DiskStore, Hit, LaidAs, LogExtent};
pub use files::{FileDigests, keyed};
pub use gc::{Collected, Gone, Layout, Limits};
pub use locks::KeyLock;
pub use pack::{Exported, Imported, Which};
pub use scratch::Scratch;
pub use tree::{Manifest, ManifestFile};
pub use verify::{Problem, Progress};

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::base::fs as bfs;

type Result<T, E = StoreError> = std::result::Result<T, E>;

/// What can go wrong with a store; each names the file.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("failed to {action} {path}")]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{path} is damaged: {what}")]
    Damaged { path: PathBuf, what: String },
    /// A folder that is to be a store, and is somebody's.
    #[error(
        "`{path}` is not empty and no store of orch's, so nothing is put there\n  hint: name a new or an empty folder, \
         e.g. --cache-dir {path}/cache"
    )]
    Foreign { path: PathBuf },
    #[error("the store `{path}` is read-only here: {what}")]
    ReadOnly { path: PathBuf, what: String },
    /// An archive that is not taken in.
    #[error("{path} was not imported: {what}; the store is as it was")]
    Refused { path: PathBuf, what: String },
    /// A file that a step made, and that no tree can hold.
    #[error("a file called {path:?} cannot be kept: {what}")]
    BadPath { path: PathBuf, what: String },
}

/// Opens a file of the store for reading and writing; for reading where the file system or its permissions allow no more.
fn open_or_read(path: &Path, how: &mut OpenOptions) -> io::Result<(File, bool)> {
    match how.read(true).open(path) {
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied
            ) =>
        {
            File::open(path).map(|file| (file, true)).map_err(|_| e)
        }
        other => other.map(|file| (file, false)),
    }
}

impl StoreError {
    fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source: bfs::with_remedy(source),
        }
    }
}
