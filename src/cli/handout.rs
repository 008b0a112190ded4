//! Puts what people look for where they look: pages, generated tests, and the artefacts that the tests load.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::base::{Digest, fs as bfs};
use crate::exec::Finished;
use crate::plan::Plan;
use crate::spec::Artefact;
use crate::step::{Source, StepId, TestContext};
use crate::store::{DiskStore, LaidAs, StoreError};

/// The file of a handed-out folder that says whose it is. Generated tests read it (`templates/test.py.j2`).
const TOLD: &str = "orch.json";

/// Fills the folder of a run's results. What is already as it should be is left alone. Gives the paths by whose stamps one
/// can tell later that all of it is still there.
pub(super) fn hand_out(
    plan: &Plan,
    finished: &Finished,
    store: &DiskStore,
    out_dir: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    let mut placed = Vec::new();
    let output = |id: StepId| finished.results[id.0 as usize].output();
    if let Some(digest) = output(plan.report) {
        placed.extend(copy(store, &digest, &out_dir.join("report"))?);
    }
    for planned in &plan.cases {
        if let Some(digest) = output(planned.test) {
            placed.extend(copy(store, &digest, &out_dir.join("tests"))?);
        }
        // The generated test says under which names it looks for what it loads.
        let test: TestContext = plan.step(planned.test).params.parse()?;
        for (label, source) in &plan.step(planned.run).inputs {
            let Source::Step(from) = source else { continue };
            let Some(digest) = output(*from) else { continue };
            let artefact = match &**label {
                "artefact" => test.artefact_variant.as_str(),
                // What a task is compared with lies in its artefact; the folder is that of other targets.
                "model" if test.artefact == Artefact::TransformersJs => continue,
                "model" => "model",
                _ => continue,
            };
            let place = out_dir.join("artefacts").join(&test.instance).join(artefact);
            let (model, artefact) = (test.instance.as_str().into(), artefact.into());
            let links = link(store, &digest, &place, &Told { model, artefact, tree: digest.to_string().into() });
            placed.extend(links.with_context(|| format!("failed to hand out `{}`", place.display()))?);
        }
    }
    Ok(placed)
}

/// Whether handing out failed for a tree that was found damaged, or that another process collected meanwhile. The store has
/// forgotten it, so that performing the plan once more makes it again.
pub(super) fn is_lost(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| matches!(cause.downcast_ref(), Some(StoreError::Damaged { .. })))
}

fn whole<T>(store: &DiskStore, digest: &Digest, found: Result<T, StoreError>) -> Result<T, StoreError> {
    if matches!(found, Err(StoreError::Damaged { .. })) {
        store.discard_tree(digest)?;
    }
    found
}

/// Copies: people may edit them.
fn copy(store: &DiskStore, digest: &Digest, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut copies = Vec::new();
    for file in store.check_tree(digest)?.files {
        let to = folder.join(&file.path);
        let bytes = whole(store, digest, store.read_file(digest, &file.path))?.unwrap_or_default();
        bfs::write_if_changed(&to, &bytes).with_context(|| format!("failed to write `{}`", to.display()))?;
        copies.push(to);
    }
    Ok(copies)
}

/// Whose a folder is, for the tests that load it: each takes its own only. Of the store's trees none says so, because equal
/// ones are one.
#[derive(PartialEq, Serialize, Deserialize)]
struct Told<'a> {
    /// At its sizes: `bert@b4`.
    model: Cow<'a, str>,
    artefact: Cow<'a, str>,
    tree: Cow<'a, str>,
}

/// Links, since artefacts are large. A file among them says whose they are, and which tree it is.
fn link(store: &DiskStore, digest: &Digest, folder: &Path, told: &Told<'_>) -> anyhow::Result<Vec<PathBuf>> {
    let label = folder.join(TOLD);
    let mut seen = bfs::folders_below(folder).unwrap_or_default();
    seen.extend([label.clone(), folder.to_owned()]);
    let is_same = |text: String| serde_json::from_str::<Told<'_>>(&text).is_ok_and(|old| old == *told);
    if fs::read_to_string(&label).is_ok_and(is_same) && is_whole(store, digest, folder) {
        return Ok(seen);
    }
    match fs::symlink_metadata(folder) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(folder)?,
        Ok(_) => fs::remove_file(folder)?,
        Err(_) => {}
    }
    whole(store, digest, store.lay_out(digest, folder, LaidAs::Copies))?;
    bfs::write_atomic(&label, json!(told).to_string().as_bytes())?;
    seen = bfs::folders_below(folder)?;
    seen.extend([label, folder.to_owned()]);
    Ok(seen)
}

fn is_whole(store: &DiskStore, digest: &Digest, folder: &Path) -> bool {
    let there = |path: &str, size| fs::metadata(folder.join(path)).is_ok_and(|meta| meta.len() == size);
    store.manifest(digest).is_ok_and(|manifest| manifest.files.iter().all(|file| there(&file.path, file.size)))
}
