//! Large trees that stay on the remote until something here reads them.
//!
//! The store holds neither such a tree nor the records of the steps that made it, so no later run can take it for one that
//! is here: the next run requests it again.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use crate::base::{Digest, lock};
use crate::config::Download;
use crate::record::Record;
use crate::store::remote::hub::Inner;
use crate::store::remote::hub::actions::Held;
use crate::store::remote::hub::trouble::Trouble;
use crate::store::{Manifest, ManifestFile};

/// The size in bytes from which a tree stays. Smaller ones are fetched at once: another request would take longer than
/// their contents do.
const LARGE: u64 = 16 << 20;

/// The error of a tree that did not stay on the remote.
pub(super) const NOT_THERE: &str = "no result of the remote's has this tree";

#[derive(Default)]
pub(super) struct LeftTrees {
    trees: Mutex<HashMap<Digest, Arc<LeftTree>>>,
    /// Trees that could not be fetched when they were read. They do not stay a second time.
    lost: Mutex<HashSet<Digest>>,
}

struct LeftTree {
    result: Held,
    manifest: Manifest,
    /// Held while the tree is fetched, so that of several steps that read it one fetches it.
    state: tokio::sync::Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The records of the steps that made the tree.
    records: Vec<Record>,
    is_here: bool,
}

impl LeftTrees {
    /// Whether a tree may stay on the remote.
    pub(super) fn may_stay(
        &self,
        download: Download,
        is_top: bool,
        tree: &Digest,
        manifest: &Manifest,
    ) -> bool {
        download.leaves(is_top) && manifest.size() >= LARGE && !lock(&self.lost).contains(tree)
    }

    /// Remembers a tree that stays on the remote, and a step that made it.
    pub(super) async fn remember(
        &self,
        tree: Digest,
        result: Held,
        manifest: Manifest,
        record: Record,
    ) {
        let new = || {
            Arc::new(LeftTree {
                result,
                manifest,
                state: tokio::sync::Mutex::default(),
            })
        };
        let left = lock(&self.trees).entry(tree).or_insert_with(new).clone();
        let mut state = left.state.lock().await;
        if state.records.iter().all(|known| known.step != record.step) {
            state.records.push(record);
        }
    }

    pub(super) fn manifest(&self, tree: &Digest) -> Option<Manifest> {
        self.get(tree).map(|left| left.manifest.clone())
    }

    fn get(&self, tree: &Digest) -> Option<Arc<LeftTree>> {
        lock(&self.trees).get(tree).cloned()
    }
}

impl Inner {
    /// Fetches a tree that stayed on the remote, and keeps it with the records of the steps that made it.
    pub(super) async fn bring_left(&self, tree: &Digest) -> Result<(), String> {
        let Some(left) = self.stayed.get(tree) else {
            // Another step that reads it may have fetched it meanwhile.
            return match self.store.has_tree(tree) {
                true => Ok(()),
                false => Err(NOT_THERE.into()),
            };
        };
        let mut state = left.state.lock().await;
        if state.is_here {
            return Ok(());
        }
        let brought = self.bring_and_keep(&left, &state.records).await;
        lock(&self.stayed.trees).remove(tree);
        match brought {
            Ok(()) => {
                state.is_here = true;
                Ok(())
            }
            Err(trouble) => {
                lock(&self.stayed.lost).insert(*tree);
                self.tally.trouble(&trouble);
                Err(trouble.to_string())
            }
        }
    }

    async fn bring_and_keep(&self, left: &LeftTree, records: &[Record]) -> Result<(), Trouble> {
        let bytes = self.receive(&left.result, &left.manifest.files).await?;
        for record in records {
            self.store.keep(record, Some(&left.manifest))?;
        }
        self.tally.received(bytes);
        Ok(())
    }

    /// Fetches some files of a tree that stays on the remote.
    pub(super) async fn bring_left_files(
        &self,
        tree: &Digest,
        files: &[ManifestFile],
    ) -> Result<(), String> {
        let left = self.stayed.get(tree).ok_or(NOT_THERE)?;
        match self.receive(&left.result, files).await {
            Ok(bytes) => {
                self.tally.received(bytes);
                Ok(())
            }
            Err(trouble) => {
                self.tally.trouble(&trouble);
                Err(trouble.to_string())
            }
        }
    }
}
