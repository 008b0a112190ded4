//! Trees that stayed on the server: known by their files' names there, for this run alone, and fetched when something here
//! reads them.
//!
//! The store never hears of such a tree, so nothing later can take it for one that is here: the next run asks the server.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use crate::base::{Digest, figures, fs as bfs, lock};
use crate::exec::away::RemoteExecutor;
use crate::exec::perform::ended::{InputLost, ServerFile};
use crate::exec::perform::performer::Performer;
use crate::exec::perform::task::{InputAt, Task};
use crate::record::Record;
use crate::step::StepId;
use crate::store::{Manifest, ManifestFile};

#[derive(Default)]
pub(in crate::exec) struct Absent {
    /// Each of them behind a lock of its own, which whoever fetches it holds.
    trees: Mutex<HashMap<Digest, Arc<Mutex<Tree>>>>,
    /// Steps whose trees could not be fetched when they were needed. What they make next time is fetched at once.
    lost: Mutex<BTreeSet<StepId>>,
}

struct Tree {
    files: Vec<(ServerFile, ManifestFile)>,
    /// The records of the steps that made it, to be kept with it.
    records: Vec<Record>,
    is_here: bool,
}

impl Absent {
    /// Takes note of what a step left on the server.
    pub(in crate::exec) fn note(&self, record: &Record, made: Manifest, files: Vec<ServerFile>) {
        let files = files.into_iter().zip(made.files).collect();
        let tree = || {
            Arc::new(Mutex::new(Tree {
                files,
                records: Vec::new(),
                is_here: false,
            }))
        };
        let tree = lock(&self.trees)
            .entry(record.output.expect("BUG: it made a tree"))
            .or_insert_with(tree)
            .clone();
        lock(&tree).records.push(record.clone());
    }

    /// The files of a tree that is not here.
    pub(super) fn files(&self, digest: &Digest) -> Option<Vec<(ServerFile, ManifestFile)>> {
        let tree = lock(&self.trees).get(digest)?.clone();
        let files = lock(&tree).files.clone();
        Some(files)
    }

    pub(super) fn was_lost(&self, id: StepId) -> bool {
        lock(&self.lost).contains(&id)
    }

    /// Those that nothing here has read.
    pub(in crate::exec) fn into_digests(self) -> BTreeSet<Digest> {
        let trees = self
            .trees
            .into_inner()
            .unwrap_or_else(|broken| broken.into_inner());
        trees.into_keys().collect()
    }

    /// Fetches those of a step's inputs that stayed on the server.
    pub(super) fn bring_inputs(
        &self,
        executor: &dyn RemoteExecutor,
        performer: &Performer<'_>,
        task: &Task<'_>,
    ) -> anyhow::Result<()> {
        for (name, at) in &task.inputs {
            let InputAt::Tree { from, digest } = at else {
                continue;
            };
            let Some(tree) = lock(&self.trees).get(digest).cloned() else {
                continue;
            };
            let mut tree = lock(&tree);
            // Another thread may have fetched it meanwhile.
            if tree.is_here {
                continue;
            }
            let size = tree.files.iter().map(|(_, file)| file.size).sum();
            performer.tell(
                task,
                &format!("fetches its input `{name}` ({})", figures::bytes(size)),
            );
            let fetched = bring(executor, performer, &tree)?;
            lock(&self.trees).remove(digest);
            tree.is_here = fetched.is_ok();
            if let Err(why) = fetched {
                lock(&self.lost).insert(*from);
                let what = format!("it was left on {}: {why}", executor.name());
                return Err(InputLost {
                    from: *from,
                    digest: *digest,
                    what,
                }
                .into());
            }
        }
        Ok(())
    }
}

/// Fetches a tree, and keeps it as if it had been fetched when it was made. The inner error is the server's.
fn bring(
    executor: &dyn RemoteExecutor,
    performer: &Performer<'_>,
    tree: &Tree,
) -> anyhow::Result<Result<(), String>> {
    let out = performer.scratch.dir("out")?;
    let fetched = executor.fetch(&tree.files, &out);
    if fetched.is_ok() {
        let made = performer.store.place(&out)?;
        for record in &tree.records {
            anyhow::ensure!(
                record.output == Some(made.digest()),
                "what arrived is not what was requested"
            );
            performer.publish(record, Some(&made))?;
        }
    }
    bfs::remove_dir(&out)?;
    Ok(fetched)
}
