//! A result from a remote into the store: verified first, with all its content, then kept.

use std::collections::HashSet;
use std::path::PathBuf;

use futures_util::{StreamExt as _, TryStreamExt as _};

use crate::base::{Digest, ensure, fs as bfs};
use crate::record::Record;
use crate::store::remote::Ask;
use crate::store::remote::hub::actions::Held;
use crate::store::remote::hub::service::Service;
use crate::store::remote::hub::trouble::{Refusal, Trouble};
use crate::store::remote::hub::{Inner, Place, blob_path, result_path, sealed, turn};
use crate::store::{ManifestFile, StoreError};

/// Files of one result that are fetched at a time.
const FILES: usize = 8;

/// None if the remote does not have it.
pub(super) async fn fetch(inner: &Inner, ask: Ask) -> Result<Option<Record>, Trouble> {
    let Some(found) = find(inner, &ask.key).await? else {
        return Ok(None);
    };
    let (mut record, manifest) = sealed::open(&found.sealed, &ask.key, inner.secret.as_ref())?;
    if !(ask.takes)(&record) {
        return Ok(None);
    }
    let mut known = HashSet::new();
    let files = manifest.iter().flat_map(|manifest| &manifest.files);
    let distinct = files.filter(|file| known.insert(file.blob()));
    // What the store has, verified, need not come.
    let needed: Vec<ManifestFile> = distinct
        .filter(|file| !inner.store.blobs.has_whole(file))
        .cloned()
        .collect();
    let size: u64 = needed.iter().map(|file| file.size).sum();
    let dir = inner.arrivals()?;
    ensure(
        bfs::free_bytes(&dir).is_none_or(|free| size <= free / 2),
        || Refusal::TooLarge,
    )?;
    let named = needed
        .into_iter()
        .map(|file| (dir.join(bfs::Nonce::next().to_string()), file));
    let arrived: Vec<(PathBuf, ManifestFile)> = named.collect();
    bring(inner, &found, &arrived)
        .await
        .inspect_err(|trouble| {
            let _ = bfs::remove_dir(&dir);
            // What else it names was not looked at to the end, and is sent anew with what is wrong.
            if let Trouble::Refused(_) = trouble {
                manifest
                    .iter()
                    .flat_map(|manifest| &manifest.files)
                    .for_each(|file| inner.see(file, false));
            }
        })?;
    record.step = ask.step;
    record.repro = Some(ask.repro);
    let keep = || {
        arrived
            .iter()
            .try_for_each(|(path, file)| inner.store.blobs.take(path, file))?;
        inner.store.keep(&record, manifest.as_ref())
    };
    let kept = keep();
    let _ = bfs::remove_dir(&dir);
    kept?;
    inner.tally.hit(found.sealed.len() as u64 + size);
    Ok(Some(record))
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
        std::fs::write(&to, b"").map_err(StoreError::io("write", &to))?;
    } else {
        let _turn = turn(&inner.reads).await;
        service.download(&blob_path(&file), &file, &to).await?;
    }
    inner.see(&file, true);
    Ok(())
}
