//! Input trees in folders: each is laid out once for all steps of a run that read it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Mutex;

use crate::base::{Digest, lock};
use crate::confine::Enforced;
use crate::store::{DiskStore, LaidAs, Scratch, StoreError};

pub(super) struct LaidTrees<'a> {
    scratch: &'a Scratch,
    /// The folder of each tree. Its files are hard links where Landlock keeps steps from writing to them, else copies.
    folders: Mutex<HashMap<Digest, PathBuf>>,
}

impl<'a> LaidTrees<'a> {
    pub(super) fn new(scratch: &'a Scratch) -> Self {
        Self { scratch, folders: Mutex::default() }
    }

    /// The folder with a tree's files, which were verified. Garbage collection does not touch it.
    pub(super) fn folder(&self, store: &DiskStore, digest: &Digest) -> Result<PathBuf, StoreError> {
        if let Some(path) = lock(&self.folders).get(digest) {
            return Ok(path.clone());
        }
        let path = self.scratch.dir("tree")?;
        let laid = if Enforced::here().is_some() { LaidAs::Links } else { LaidAs::Copies };
        store.lay_out(digest, &path, laid)?;
        // Another thread may have laid out the same tree meanwhile.
        Ok(lock(&self.folders).entry(*digest).or_insert(path).clone())
    }

    /// Lets the next reader verify the tree and lay it out again.
    pub(super) fn forget(&self, digest: &Digest) {
        lock(&self.folders).remove(digest);
    }
}
