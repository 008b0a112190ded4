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

/// A source of other machines' results, to which own ones go. Nothing here waits for the network.
pub trait Remote: Send + Sync {
    /// Requests a result; `done` is called once all of it lies verified in the store, or that there is none.
    fn fetch(&self, ask: Ask, done: Done);

    /// The store holds a new result of this key.
    fn offer(&self, key: &Digest);

    /// What the user should know now, once.
    fn news(&self) -> Option<String>;
}

pub type Done = Box<dyn FnOnce(Option<Box<Record>>) + Send>;

/// What is requested.
pub struct Ask {
    pub key: Digest,
    /// What the asker calls the step, and how it is done again here: records of others may say otherwise.
    pub step: String,
    pub repro: String,
    /// A result that this does not take is a miss.
    pub takes: Box<dyn Fn(&Record) -> bool + Send>,
}
