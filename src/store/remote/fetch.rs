//! A result from a remote into the store: verified first, with all its content, then kept.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use futures_util::{StreamExt as _, TryStreamExt as _};

use crate::base::Digest;
use crate::base::fs as bfs;
use crate::record::Record;
use crate::store::remote::actions::Held;
use crate::store::remote::hub::{Inner, Place, blob_path, result_path};
use crate::store::remote::service::Service;
use crate::store::remote::trouble::{Refusal, Trouble};
use crate::store::remote::{Ask, sealed};
use crate::store::{ManifestFile, StoreError};

/// Files of one result that are fetched at a time.
const FILES: usize = 8;

/// A result that a remote holds, and where its contents are.
enum Found {
    /// At paths of their own.
    Objects(Vec<u8>),
    Actions(Held),
}

impl Found {
    fn sealed(&self) -> &[u8] {
        match self {
            Self::Objects(bytes) => bytes,
            Self::Actions(held) => &held.sealed,
        }
    }
}

/// None if the remote does not have it.
pub(super) async fn fetch(inner: &Inner, ask: Ask) -> Result<Option<Record>, Trouble> {
    let Some(found) = find(inner, &ask.key).await? else { return Ok(None) };
    let bytes = found.sealed();
    let (mut record, manifest) = sealed::open(bytes, &ask.key, inner.secret.as_ref())?;
    if !(ask.takes)(&record) {
        return Ok(None);
    }
    let mut known = HashSet::new();
    let files = manifest.iter().flat_map(|manifest| &manifest.files);
    let distinct = files.filter(|file| known.insert((file.digest, file.executable)));
    // What the store has, verified, need not come.
    let is_held = |file: &ManifestFile| inner.store.blobs.has(file) && inner.store.blobs.check(file).is_ok();
    let needed: Vec<ManifestFile> = distinct.filter(|file| !is_held(file)).cloned().collect();
    let size: u64 = needed.iter().map(|file| file.size).sum();
    let dir = inner.arrivals()?;
    if room(&dir).is_some_and(|room| size > room / 2) {
        return Err(Refusal::TooLarge.into());
    }
    let named = needed.into_iter().map(|file| (dir.join(bfs::Nonce::next().to_string()), file));
    let arrived: Vec<(PathBuf, ManifestFile)> = named.collect();
    bring(inner, &found, &arrived).await.inspect_err(|trouble| {
        let _ = bfs::remove_dir(&dir);
        // What else it names was not looked at to the end, and is sent anew with what is wrong.
        if let Trouble::Refused(_) = trouble {
            manifest.iter().flat_map(|manifest| &manifest.files).for_each(|file| inner.is_wrong(file));
        }
    })?;
    record.step = ask.step;
    record.repro = Some(ask.repro);
    let keep = || {
        arrived.iter().try_for_each(|(path, file)| inner.store.blobs.take(path, file))?;
        inner.store.keep(&record, manifest.as_ref())
    };
    let kept = keep().map_err(local);
    let _ = bfs::remove_dir(&dir);
    kept?;
    inner.tally.hit(bytes.len() as u64 + size);
    Ok(Some(record))
}

async fn find(inner: &Inner, key: &Digest) -> Result<Option<Found>, Trouble> {
    let _turn = inner.reads().await;
    Ok(match &inner.place {
        Place::Objects(service) => service.get(&result_path(key), sealed::MOST).await?.map(Found::Objects),
        Place::Actions(actions) => actions.find(key, || inner.arrivals()).await?.map(Found::Actions),
    })
}

async fn bring(inner: &Inner, found: &Found, files: &[(PathBuf, ManifestFile)]) -> Result<(), Trouble> {
    match (&inner.place, found) {
        (Place::Actions(actions), Found::Actions(held)) => {
            let _turn = inner.reads().await;
            actions.bring(held, files).await
        }
        (Place::Objects(service), _) => {
            let each = futures_util::stream::iter(files.to_vec()).map(|(to, file)| object(inner, service, file, to));
            each.buffer_unordered(FILES).try_collect().await
        }
        (Place::Actions(_), Found::Objects(_)) => panic!("BUG: found elsewhere"),
    }
}

async fn object(inner: &Inner, service: &Service, file: ManifestFile, to: PathBuf) -> Result<(), Trouble> {
    let (file, to) = (&file, &to);
    let (size, digest) = (file.size, &file.digest);
    // Some servers refuse to send a part of nothing.
    let done = match size {
        0 if *digest == Digest::of(b"") => {
            std::fs::write(to, b"").map_err(|e| Trouble::Local(format!("failed to write {}: {e}", to.display())))
        }
        _ => {
            let _turn = inner.reads().await;
            service.download(&blob_path(file), size, digest, to).await
        }
    };
    done.inspect(|()| inner.is_there(file))
}

fn local(error: StoreError) -> Trouble {
    Trouble::Local(format!("{:#}", anyhow::Error::from(error)))
}

/// Bytes that are free where `path` lies, if the system says.
fn room(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}
