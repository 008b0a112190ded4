//! A step's inputs: verified before it executes, and checked again afterwards.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Mutex;

use crate::base::text::error_text;
use crate::base::{Digest, figures, lock};
use crate::confine::Enforced;
use crate::exec::perform::ended::InputLost;
use crate::exec::perform::performer::Performer;
use crate::exec::perform::task::{InputAt, Task};
use crate::step::StoredFile;
use crate::store::{DiskStore, LaidAs, Scratch, StoreError};

/// What a step is given, by name.
#[derive(Default)]
pub(in crate::exec) struct Given {
    pub(in crate::exec) paths: BTreeMap<String, PathBuf>,
    pub(in crate::exec) trees: BTreeMap<String, Vec<StoredFile>>,
}

/// Input trees in folders: each is laid out once for all steps of a run that read it.
pub(in crate::exec) struct LaidTrees<'a> {
    store: &'a DiskStore,
    scratch: &'a Scratch,
    /// The folder of each tree. Its files are hard links where Landlock keeps steps from writing to them, else copies.
    folders: Mutex<HashMap<Digest, PathBuf>>,
}

impl<'a> LaidTrees<'a> {
    pub(in crate::exec) fn new(store: &'a DiskStore, scratch: &'a Scratch) -> Self {
        Self {
            store,
            scratch,
            folders: Mutex::default(),
        }
    }

    /// The folder with a tree's files, which were verified. Garbage collection does not touch it.
    fn folder(&self, digest: &Digest) -> Result<PathBuf, StoreError> {
        if let Some(path) = lock(&self.folders).get(digest) {
            return Ok(path.clone());
        }
        let path = self.scratch.dir("tree")?;
        let laid = if Enforced::here().is_some() {
            LaidAs::Links
        } else {
            LaidAs::Copies
        };
        self.store.lay_out(digest, &path, laid)?;
        // Another thread may have laid out the same tree meanwhile.
        Ok(lock(&self.folders).entry(*digest).or_insert(path).clone())
    }

    /// Lets the next reader verify the tree and lay it out again.
    fn forget(&self, digest: &Digest) {
        lock(&self.folders).remove(digest);
    }
}

impl Performer<'_> {
    /// Fetches those of a step's inputs that stayed on the remote store.
    pub(in crate::exec) fn bring_from_remote(&self, task: &Task<'_>) -> anyhow::Result<()> {
        let Some(remote) = self.remote else {
            return Ok(());
        };
        for (name, at) in &task.inputs {
            let InputAt::Tree { from, digest } = at else {
                continue;
            };
            let Some(manifest) = remote.left(digest) else {
                continue;
            };
            let size = figures::bytes(manifest.size());
            self.tell(task, &format!("fetches its input `{name}` ({size})"));
            remote.bring(digest).map_err(|why| InputLost {
                from: *from,
                digest: *digest,
                what: format!("it stayed on the remote store, and cannot be fetched: {why}"),
            })?;
        }
        Ok(())
    }

    /// Verifies the trees that a step reads and puts them where it finds them.
    pub(in crate::exec) fn given(&self, task: &Task<'_>) -> anyhow::Result<Given> {
        let mut given = Given::default();
        for (name, at) in &task.inputs {
            let path = match at {
                InputAt::File(path, _) => path.clone(),
                InputAt::Tree { from, digest } if task.step.kind.lays_in() => {
                    let files = self
                        .stored(digest, task.step.is_lent(name))
                        .map_err(InputLost::or(*from, *digest))?;
                    given.trees.insert(name.clone(), files);
                    continue;
                }
                InputAt::Tree { from, digest } => self
                    .laid
                    .folder(digest)
                    .map_err(InputLost::or(*from, *digest))?,
            };
            given.paths.insert(name.clone(), path);
        }
        Ok(given)
    }

    /// The verified files of a tree for a step that has its inputs in its working folder: lent ones lie in a folder that
    /// all its readers share.
    fn stored(&self, digest: &Digest, is_lent: bool) -> Result<Vec<StoredFile>, StoreError> {
        let files = self.store.check_tree(digest)?.files;
        let is_shared = is_lent && Enforced::here().is_some();
        let shared = is_shared.then(|| self.laid.folder(digest)).transpose()?;
        let stored = files.into_iter().map(|file| StoredFile {
            at: match &shared {
                Some(folder) => folder.join(&file.path),
                None => self.store.blob(&file),
            },
            path: file.path,
            is_lent,
        });
        Ok(stored.collect())
    }

    /// An error if an input changed while the step executed: then the output is of unknown content.
    pub(in crate::exec) fn trees_are_the_same(&self, task: &Task<'_>) -> Result<(), InputLost> {
        for (_, at) in &task.inputs {
            if let InputAt::Tree { from, digest } = at
                && let Err(e) = self.store.check_tree(digest)
            {
                self.laid.forget(digest);
                return Err(InputLost {
                    from: *from,
                    digest: *digest,
                    what: error_text(&e.into()),
                });
            }
        }
        Ok(())
    }
}
