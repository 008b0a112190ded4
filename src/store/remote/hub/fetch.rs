//! A result from a remote into the store: verified first, with all its content, then kept.

use std::collections::HashSet;
use std::path::PathBuf;

use futures_util::{StreamExt as _, TryStreamExt as _};

use crate::base::{Digest, ensure, fs as bfs};
use crate::record::Record;
use crate::store::remote::RecordRequest;
use crate::store::remote::hub::actions::Held;
use crate::store::remote::hub::service::Service;
use crate::store::remote::hub::trouble::{Refusal, Trouble};
use crate::store::remote::hub::{Inner, Place, blob_path, result_path, sealed, turn};
use crate::store::{ManifestFile, StoreError};

/// Files of one result that are fetched at a time.
const FILES: usize = 8;

/// None if the remote does not have it.
pub(super) async fn fetch(
    inner: &Inner,
    request: RecordRequest,
) -> Result<Option<Record>, Trouble> {
    let Some(found) = find(inner, &request.key).await? else {
        return Ok(None);
    };
    let (mut record, manifest) = sealed::open(&found.sealed, &request.key, inner.secret.as_ref())?;
    if !(request.takes)(&record) {
        return Ok(None);
    }
    record.step = request.step;
    record.repro = Some(request.repro);
    if let Some((tree, manifest)) = record.output.zip(manifest.as_ref())
        && !inner.store.has_tree(&tree)
        && inner
            .stayed
            .may_stay(inner.download, request.is_top, &tree, manifest)
    {
        inner.tally.hit(found.sealed.len() as u64);
        let manifest = manifest.clone();
        inner
            .stayed
            .remember(tree, found, manifest, record.clone())
            .await;
        return Ok(Some(record));
    }
    let files = manifest.as_ref().map_or(&[][..], |tree| &tree.files);
    let bytes = inner.receive(&found, files).await?;
    inner.store.keep(&record, manifest.as_ref())?;
    inner.tally.hit(found.sealed.len() as u64 + bytes);
    Ok(Some(record))
}

impl Inner {
    /// Fetches those files of a result that the store lacks, verified; how many bytes arrived.
    pub(super) async fn receive(
        &self,
        found: &Held,
        files: &[ManifestFile],
    ) -> Result<u64, Trouble> {
        let mut known = HashSet::new();
        let distinct = files.iter().filter(|file| known.insert(file.blob()));
        // What the store has, verified, need not come.
        let needed: Vec<ManifestFile> = distinct
            .filter(|file| !self.store.blobs.has_whole(file))
            .cloned()
            .collect();
        let size: u64 = needed.iter().map(|file| file.size).sum();
        let dir = self.arrivals()?;
        ensure(
            bfs::free_bytes(&dir).is_none_or(|free| size <= free / 2),
            || Refusal::TooLarge,
        )?;
        let named = needed
            .into_iter()
            .map(|file| (dir.join(bfs::Nonce::next().to_string()), file));
        let arrived: Vec<(PathBuf, ManifestFile)> = named.collect();
        bring(self, found, &arrived).await.inspect_err(|trouble| {
            let _ = bfs::remove_dir(&dir);
            // What else it names was not looked at to the end, and is sent anew with what is wrong.
            if let Trouble::Refused(_) = trouble {
                files.iter().for_each(|file| self.see(file, false));
            }
        })?;
        let taken = arrived
            .iter()
            .try_for_each(|(path, file)| self.store.blobs.take(path, file));
        let _ = bfs::remove_dir(&dir);
        taken?;
        Ok(size)
    }
}

async fn find(inner: &Inner, key: &Digest) -> Result<Option<Held>, Trouble> {
    let _turn = turn(&inner.reads).await;
    match &inner.place {
        Place::Objects(service) => Ok(service.get(&result_path(key)).await?.map(Held::of)),
        Place::Actions(actions) => actions.find(key, || inner.arrivals()).await,
    }
}

async fn bring(
    inner: &Inner,
    found: &Held,
    files: &[(PathBuf, ManifestFile)],
) -> Result<(), Trouble> {
    match &inner.place {
        Place::Actions(actions) => {
            let _turn = turn(&inner.reads).await;
            actions.bring(found, files).await
        }
        Place::Objects(service) => {
            let each = futures_util::stream::iter(files.to_vec())
                .map(|(to, file)| object(inner, service, file, to));
            each.buffer_unordered(FILES).try_collect().await
        }
    }
}

async fn object(
    inner: &Inner,
    service: &Service,
    file: ManifestFile,
    to: PathBuf,
) -> Result<(), Trouble> {
    // Some servers refuse to send a part of nothing.
    if file.size == 0 && file.digest == Digest::of(b"") {
        bfs::write_new(&to, b"").map_err(StoreError::io("write", &to))?;
    } else {
        let _turn = turn(&inner.reads).await;
        service.download(&blob_path(&file), &file, &to).await?;
    }
    inner.see(&file, true);
    Ok(())
}
