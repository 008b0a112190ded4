//! A result of the store onto a remote: all content first, then the result that names it, so that no reader ever finds a
//! result whose content is still to come.

use std::collections::HashSet;

use futures_util::{StreamExt as _, TryStreamExt as _};

use crate::base::Digest;
use crate::store::ManifestFile;
use crate::store::remote::hub::sealed;
use crate::store::remote::hub::service::Service;
use crate::store::remote::hub::trouble::Trouble;
use crate::store::remote::hub::{Inner, Place, blob_path, result_path, turn};

/// Files of one result that are sent at a time.
const FILES: usize = 8;

/// Ok also if the store does not hold the key any more: there is nothing to send.
pub(super) async fn push(inner: &Inner, key: &Digest) -> Result<(), Trouble> {
    let Ok(Some(record)) = inner.store.lookup(key) else {
        return Ok(());
    };
    let manifest = record
        .output
        .map(|digest| inner.store.manifest(&digest))
        .transpose();
    let Ok(manifest) = manifest else {
        return Ok(());
    };
    let mut known = HashSet::new();
    let files = manifest
        .iter()
        .flat_map(|manifest| &manifest.files)
        .filter(|file| file.size > 0);
    let distinct = files.filter(|file| known.insert(file.blob()));
    let files: Vec<ManifestFile> = distinct.cloned().collect();
    // A damaged or lost content is not spread; its step will run again.
    if files
        .iter()
        .any(|file| inner.store.blobs.check(file).is_err())
    {
        return Ok(());
    }
    let bytes = sealed::seal(&record, manifest.as_ref(), inner.secret.as_ref());
    let size = bytes.len() as u64;
    if size > sealed::MOST {
        return Ok(());
    }
    let sent = match &inner.place {
        Place::Objects(service) => {
            let each = futures_util::stream::iter(files).map(|file| send(inner, service, file));
            let sent: Vec<u64> = each.buffer_unordered(FILES).try_collect().await?;
            let _turn = turn(&inner.writes).await;
            service.put(&result_path(key), bytes).await?;
            size + sent.iter().sum::<u64>()
        }
        Place::Actions(actions) => {
            let files = files
                .into_iter()
                .map(|file| (inner.store.blob(&file), file))
                .collect();
            let _turn = turn(&inner.writes).await;
            actions.publish(key, bytes, files).await?
        }
    };
    inner.tally.uploaded(sent);
    Ok(())
}

/// How many bytes went out.
async fn send(inner: &Inner, service: &Service, file: ManifestFile) -> Result<u64, Trouble> {
    let file = &file;
    let path = blob_path(file);
    if inner.seen(file) == Some(true) {
        return Ok(0);
    }
    let _turn = turn(&inner.writes).await;
    // One that was found wrong is replaced; one of another size is the rest of an upload that broke off.
    if inner.seen(file) != Some(false) && service.size(&path).await? == Some(file.size) {
        inner.see(file, true);
        return Ok(0);
    }
    service
        .upload(&path, &inner.store.blob(file), file.size)
        .await?;
    inner.see(file, true);
    Ok(file.size)
}
