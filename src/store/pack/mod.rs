//! Archives: records with everything that they made, in one file, to be taken to another machine.
//!
//! An archive is an uncompressed tar with these entries, in this order:
//!
//! | entry | holds |
//! |---|---|
//! | `orch-archive.json` | [`Head`]: version, counts, sizes, digests of the two lists |
//! | `trees.jsonl` | the manifest of each tree, a line each, by digest |
//! | `records.jsonl` | each record as the store keeps it, a line each, by date and key |
//! | `blobs/<digest>` | each content once, by digest; `.x` behind that of an executable file |
//!
//! Tar, because any machine can look into it and every entry can be streamed. Not compressed: weights do not get smaller, and
//! whoever moves the file compresses it anyway. Nothing in it depends on when or by whom it was written.

mod check;
mod read;
mod write;

use std::io::{self, Read};

use serde::{Deserialize, Serialize};

use crate::base::{Digest, Hasher};
use crate::store::Amount;

pub use write::Which;

const FORMAT: &str = "orch-archive";
/// A change of the meaning of anything in an archive gets a new number.
const VERSION: u32 = 1;
const HEAD: &str = "orch-archive.json";
const TREES: &str = "trees.jsonl";
const RECORDS: &str = "records.jsonl";
const BLOBS: &str = "blobs/";

#[derive(Debug, Serialize, Deserialize)]
struct Head {
    format: String,
    version: u32,
    trees: List,
    records: List,
    blobs: Amount,
}

/// One of the lists: how many lines, how many bytes, which.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct List {
    lines: u64,
    bytes: u64,
    digest: Digest,
}

/// What was written into an archive.
#[derive(Debug, Default, Serialize)]
pub struct Exported {
    pub records: u64,
    pub trees: u64,
    pub blobs: Amount,
    /// Records that were left out because what they made is gone.
    pub lost: u64,
}

/// What an archive held, and how much of it the store did not hold already.
#[derive(Debug, Default, Serialize)]
pub struct Imported {
    pub records: u64,
    pub new_records: u64,
    pub trees: u64,
    pub new_trees: u64,
    pub blobs: Amount,
    pub new_blobs: Amount,
}

/// Hashes and counts what is read.
struct Through<R> {
    inner: R,
    hasher: Hasher,
    bytes: u64,
}

impl<R> Through<R> {
    fn new(inner: R) -> Self {
        Self {
            inner,
            hasher: Hasher::default(),
            bytes: 0,
        }
    }
}

impl<R: Read> Read for Through<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}
