//! What the store still holds of earlier executions. The one place here that knows how a store keeps it.

use std::path::PathBuf;

use crate::base::Digest;
use crate::record::Record;
use crate::store::{DiskStore, Manifest, ManifestFile};

/// Executions of one step that are looked at.
const MOST: usize = 1000;

/// Executions of a step that are still on record, newest first.
pub fn history(store: &DiskStore, step: &str) -> Vec<Record> {
    store.history(step, MOST).unwrap_or_default()
}

/// The files of a tree, as long as it is there.
pub(super) fn manifest(store: &DiskStore, tree: &Digest) -> Option<Manifest> {
    store
        .has_tree(tree)
        .then(|| store.manifest(tree).ok())
        .flatten()
}

/// The path of a tree's file, if its content is there as it was published.
pub(super) fn file(store: &DiskStore, file: &ManifestFile) -> Option<PathBuf> {
    store.content(file).ok()
}
