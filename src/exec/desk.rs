//! Working folders of executions, used again where a step left them empty: making and removing folders is what
//! a trivial step would spend its time on.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::base::{Digest, fs as bfs};
use crate::store::{DiskStore, LaidAs, Scratch, StoreError};

pub(super) struct Desks<'a> {
    scratch: &'a Scratch,
    free: Mutex<Vec<Desk>>,
    /// Trees that were laid out as inputs, by digest. They are links, so all steps that read a tree share one folder.
    trees: Mutex<HashMap<Digest, PathBuf>>,
}

pub(super) struct Desk {
    /// Where a step's output goes: an empty folder.
    pub(super) out: PathBuf,
    /// For what is not part of it; made by those that need it.
    pub(super) scratch: PathBuf,
}

impl<'a> Desks<'a> {
    pub(super) fn new(scratch: &'a Scratch) -> Self {
        Self { scratch, free: Mutex::default(), trees: Mutex::default() }
    }

    pub(super) fn take(&self) -> Result<Desk, StoreError> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let fresh = || {
            let out = self.scratch.dir("out")?;
            Ok(Desk { scratch: out.with_extension("scratch"), out })
        };
        free.map_or_else(fresh, Ok)
    }

    /// Takes a desk back. One that is not empty is removed; `is_empty` says that it is known to be.
    pub(super) fn give_back(&self, desk: Desk, is_empty: bool) -> std::io::Result<()> {
        if !is_empty && !has_nothing(&desk.out) {
            return bfs::remove_dir(&desk.out);
        }
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(desk);
        Ok(())
    }

    /// Whoever reads a tree next gets it laid out, and verified, anew.
    pub(super) fn forget(&self, digest: &Digest) {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner).remove(digest);
    }

    /// The folder in which a tree's files lie, verified. Collecting garbage does not touch it.
    pub(super) fn tree(&self, store: &DiskStore, digest: &Digest) -> Result<PathBuf, StoreError> {
        let known = || self.trees.lock().unwrap_or_else(PoisonError::into_inner).get(digest).cloned();
        if let Some(path) = known() {
            return Ok(path);
        }
        let path = self.scratch.dir("tree")?;
        store.lay_out(digest, &path, LaidAs::Links)?;
        // Whoever was faster has laid out the same.
        let mut trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(trees.entry(*digest).or_insert(path).clone())
    }
}

fn has_nothing(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}
