//! What steps made and what is known of how: content by digest, records by key.
//!
//! A store knows digests and records; it does not know what a step is or why it ran. Layout of the folder:
//! `cache/README.md`; why it is so: docs/design.md, "The store".

mod tree;
mod entry;
mod scan;
mod log;
mod blobs;
mod locks;
mod scratch;
mod stat;
mod disk;
mod verify;
pub mod remote;

pub use disk::{DiskStore, Hit};
pub use locks::KeyLock;
pub use scratch::Scratch;
pub use stat::FileDigests;
pub use tree::{Manifest, ManifestFile};
pub use verify::{Problem, Stats};

use std::path::PathBuf;

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
}

impl StoreError {
    fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}
