//! Results shared with other machines: what the store asks of a remote and what became of it. What is below `hub` is
//! built with the feature `remote` only.
//!
//! A remote costs speed and never truth: whatever it answers is verified before it is kept, and everything that is wrong
//! with it is a miss, counted and reported. Layout: `v2/results/ab/<key>`, one sealed result; `v2/blobs/ab/<digest>[.x]`, one
//! content. Use and trust: docs/remote.md.

#[cfg(feature = "remote")]
mod hub;

#[cfg(feature = "remote")]
pub use hub::{Hub, Reached};

use crate::base::Digest;
use crate::record::Record;
use crate::store::{Manifest, ManifestFile};

/// A source of other machines' results, to which own ones go. Nothing here waits for the network.
pub trait Remote: Send + Sync {
    /// Requests a result. `done` is called once all of it lies verified in the store, once its tree is known to stay on the
    /// remote ([`Remote::left`]), or once there is known to be none.
    fn fetch(&self, request: RecordRequest, done: Done);

    /// The files of a tree that stayed on the remote. None if it did not stay there, or has been fetched since.
    fn left(&self, tree: &Digest) -> Option<Manifest>;

    /// Fetches a tree that stayed on the remote, and keeps it with the records of the steps that made it. The error says
    /// why it cannot be had; its step's next result is then fetched with its tree.
    fn bring(&self, tree: &Digest) -> Result<(), String>;

    /// Fetches some files of a tree that stays on the remote. They lie in the store, verified, and belong to no tree.
    fn bring_files(&self, tree: &Digest, files: &[ManifestFile]) -> Result<(), String>;

    /// The store holds a new result of this key.
    fn offer(&self, key: &Digest);

    /// What the user should know now, once.
    fn news(&self) -> Option<String>;
}

pub type Done = Box<dyn FnOnce(Option<Box<Record>>) + Send>;

/// What is requested.
pub struct RecordRequest {
    pub key: Digest,
    /// What the asker calls the step, and how it is done again here: records of others may say otherwise.
    pub step: String,
    pub repro: String,
    /// Whether it was requested by name, or no other step reads what it makes.
    pub is_top: bool,
    /// A result that this does not take is a miss.
    pub takes: Box<dyn Fn(&Record) -> bool + Send>,
}
