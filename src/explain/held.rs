//! What the store still holds of earlier executions. The one place here that knows how a store keeps it.

use std::path::PathBuf;

use crate::base::Digest;
use crate::record::Record;
use crate::store::{DiskStore, Manifest, ManifestFile};

/// Executions of a step that are still on record, newest first.
pub fn history(store: &DiskStore, step: &str) -> Vec<Record> {
    store.latest(step).ok().flatten().into_iter().collect()
}

/// Where the journals of runs lie.
pub fn runs_dir(store: &DiskStore) -> PathBuf {
    store.root().join("runs")
}

/// The files of a tree, as long as it is there.
pub(super) fn manifest(store: &DiskStore, tree: &Digest) -> Option<Manifest> {
    store.has_tree(tree).then(|| store.manifest(tree).ok()).flatten()
}

/// Where a file of a tree lies, if its content is there as it was published.
pub(super) fn file(store: &DiskStore, tree: &Digest, file: &ManifestFile) -> Option<PathBuf> {
    let path = store.tree_path(tree).join(&file.path);
    Digest::of_file(&path).is_ok_and(|digest| digest == file.digest).then_some(path)
}

/// The record of a success that made this tree: the newest one.
pub(super) fn maker(store: &DiskStore, step: &str, tree: &Digest) -> Option<Record> {
    history(store, step).into_iter().find(|record| record.output == Some(*tree))
}
