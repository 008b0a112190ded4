//! Removes the files that nothing names any more: content, logs of steps, stores of earlier versions.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rayon::prelude::*;

use crate::base::{fs as bfs, mark, temporary};
use crate::store::blobs::listed;
use crate::store::gc::{Horizon, Layout};
use crate::store::tree::Blob;
use crate::store::{Amount, DiskStore, Result, StoreError, blobs};

#[derive(Default)]
pub(super) struct Swept {
    pub(super) gone: Amount,
    pub(super) too_new: Amount,
}

impl DiskStore {
    pub(super) fn is_newer(&self, blob: &Blob, than: SystemTime) -> bool {
        let meta = fs::symlink_metadata(self.blobs.path(blob));
        meta.is_ok_and(|meta| bfs::changed(&meta) >= than)
    }

    /// Removes blobs. Between the look at a blob's age and its removal lie microseconds. Should another process publish
    /// the same content just then, it is found missing where it is read next, and made again.
    pub(super) fn sweep_blobs(
        &self,
        kept: &HashMap<Blob, u64>,
        named: &HashMap<Blob, u64>,
        horizon: Horizon,
        dry_run: bool,
    ) -> Result<Swept> {
        let fans = self.blobs.fans()?;
        let swept = fans.into_par_iter().map(|fan| {
            let mut swept = Swept::default();
            for (path, blob) in blobs::names(&fan)? {
                let Some(blob) = blob.filter(|blob| !kept.contains_key(blob)) else {
                    continue;
                };
                let Ok(meta) = fs::symlink_metadata(&path) else {
                    continue;
                };
                let limit = if named.contains_key(&blob) {
                    horizon.named
                } else {
                    horizon.unnamed
                };
                if bfs::changed(&meta) >= limit {
                    swept.too_new.add(Amount::one(meta.len()));
                    continue;
                }
                if !dry_run {
                    blobs::remove(&path)?;
                }
                swept.gone.add(Amount::one(meta.len()));
            }
            Ok(swept)
        });
        swept.try_reduce(Swept::default, |mut all, more| {
            all.gone.add(more.gone);
            all.too_new.add(more.too_new);
            Ok(all)
        })
    }

    pub(super) fn sweep_logs(
        &self,
        steps: &HashSet<String>,
        horizon: Horizon,
        dry_run: bool,
    ) -> Result<Amount> {
        let kept: HashSet<_> = steps.iter().map(|step| self.log_path(step)).collect();
        let mut gone = Amount::default();
        for path in listed(&self.root().join("logs"))? {
            let is_log = match path.extension().and_then(|extension| extension.to_str()) {
                Some("log") => !kept.contains(&path),
                // Of an attempt before the last one: `step.1.attempt` goes with `step.log`.
                Some("attempt") => !kept.contains(&path.with_extension("").with_extension("log")),
                _ => false,
            };
            let Some(meta) = is_log.then(|| fs::symlink_metadata(&path).ok()).flatten() else {
                continue;
            };
            // A step that is executing has a log before it has a record.
            if bfs::changed(&meta) >= horizon.named || !meta.is_file() {
                continue;
            }
            if !dry_run {
                blobs::remove(&path)?;
            }
            gone.add(Amount::one(meta.len()));
        }
        Ok(gone)
    }

    /// What was being written when its writer was killed, in any folder of the store.
    pub(super) fn sweep_unfinished(&self, dry_run: bool) -> Result<Amount> {
        let mut gone = Amount::default();
        let folders = listed(self.root())?
            .into_iter()
            .filter(|path| path.is_dir() && !path.is_symlink());
        let parent = self.root().parent().map(Path::to_owned);
        for dir in folders.chain([self.root().to_owned()]).chain(parent) {
            for left in temporary::left_in(&dir) {
                let path = left.path();
                if !left.file_type().is_ok_and(|kind| kind.is_file()) {
                    continue;
                }
                gone.add(Amount::below(&path));
                if !dry_run {
                    blobs::remove(&path)?;
                }
            }
        }
        Ok(gone)
    }

    /// Folders of earlier layouts, beside this one's. No orch of this version reads them. Those without a mark may be
    /// anybody's: they stay, and are given as the second.
    pub(super) fn sweep_layouts(&self, dry_run: bool) -> Result<(Vec<Layout>, Vec<PathBuf>)> {
        let number = |path: &Path| {
            path.file_name()?
                .to_str()?
                .strip_prefix('v')?
                .parse::<u32>()
                .ok()
        };
        let (Some(parent), Some(own)) = (self.root().parent(), number(self.root())) else {
            return Ok(Default::default());
        };
        let mut gone = Vec::new();
        let mut unmarked = Vec::new();
        for path in listed(parent)? {
            if number(&path).is_none_or(|number| number >= own)
                || !path.is_dir()
                || path.is_symlink()
            {
                continue;
            }
            if !mark::is_on(&path) {
                unmarked.push(path);
                continue;
            }
            let bytes = Amount::below(&path).bytes;
            if !dry_run {
                bfs::remove_dir(&path).map_err(StoreError::io("remove", &path))?;
            }
            gone.push(Layout { path, bytes });
        }
        Ok((gone, unmarked))
    }

    /// Memos speak of records. Whatever went or is no longer what happened last, they are made again by the next run.
    pub fn forget_memos(&self) -> Result<()> {
        blobs::remove(&self.root().join("log.index"))?; // of an older orch
        let dir = self.root().join("memos");
        if dir.is_dir() {
            for path in listed(&dir)?.into_iter().filter(|path| path.is_file()) {
                blobs::remove(&path)?;
            }
        }
        Ok(())
    }
}
