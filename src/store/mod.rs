//! What steps made and what is known of how: content by digest, records by key.
//!
//! A store knows digests and records; it does not know what a step is or why it ran. Layout of the folder:
//! `cache/README.md`; why it is so: docs/design.md, "The store".

mod amount;
mod tree;
mod entry;
mod scan;
mod log;
mod blobs;
mod locks;
mod scratch;
pub mod sealed;
pub mod stat;
pub mod table;
mod files;
mod disk;
mod gc;
mod pack;
mod count;
mod verify;
pub mod remote;

pub use amount::Amount;
pub use count::{OfSteps, Stats};
pub use disk::{DiskStore, Hit, LaidAs, LogExtent};
pub use files::{FileDigests, Hashed};
pub use gc::{Collected, Gone, Layout, Limits};
pub use locks::KeyLock;
pub use pack::{Exported, Imported, Which};
pub use scratch::Scratch;
pub use tree::{Manifest, ManifestFile};
pub use verify::{Problem, Progress};

use std::path::PathBuf;

use crate::base::fs as bfs;

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
    /// An archive that is not taken in.
    #[error("{path} was not imported: {what}; the store is as it was")]
    Refused { path: PathBuf, what: String },
    /// A file that a step made, and that no tree can hold.
    #[error("a file called {path:?} cannot be kept: {what}")]
    BadPath { path: PathBuf, what: String },
}

impl StoreError {
    fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source: bfs::with_remedy(source) }
    }
}
