//! Puts what people look for where they look: pages, generated tests, and the artefacts that the tests load.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::base::digest::sha256;
use crate::base::{Digest, fs as bfs, shell};
use crate::exec::Finished;
use crate::plan::Plan;
use crate::spec::Artefact;
use crate::step::{Source, StepId, TestContext, generate};
use crate::store::{DiskStore, LaidAs, StoreError};

/// The file of a handed-out folder that says whose it is. Generated tests read it (`templates/test.py.j2`).
const TOLD: &str = "orch.json";

/// Fills the folder of a run's results. What is already as it should be is left alone. Gives the paths by whose stamps one
/// can tell later that all of it is still there. `again` is the command line of this run without its selection.
pub(super) fn hand_out(
    plan: &Plan,
    finished: &Finished,
    store: &DiskStore,
    out_dir: &Path,
    again: &str,
) -> anyhow::Result<Vec<PathBuf>> {
    let mut placed = Vec::new();
    let output = |id: StepId| finished.results[id.0 as usize].output();
    if let Some(digest) = output(plan.report) {
        placed.extend(copy(store, &digest, &out_dir.join("report"), |text| text)?);
    }
    for planned in &plan.cases {
        // The generated test says under which names it looks for what it loads.
        let test: TestContext = plan.step(planned.test).params.parse()?;
        let mut trees = BTreeMap::new();
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
            let links = link(store, &digest, &place, &test.instance, artefact);
            placed.extend(links.with_context(|| format!("failed to hand out `{}`", place.display()))?);
            trees.insert(artefact, digest);
        }
        if let Some(digest) = output(planned.test) {
            let again = format!("{again} --case {}", shell::quoted(&planned.case.id()));
            let filled = |text| generate::handed_out(text, &again, &trees);
            placed.extend(copy(store, &digest, &out_dir.join("tests"), filled)?);
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

/// Copies, each as `filled` makes it of the store's: people may edit them.
fn copy(
    store: &DiskStore,
    digest: &Digest,
    folder: &Path,
    filled: impl Fn(Vec<u8>) -> Vec<u8>,
) -> anyhow::Result<Vec<PathBuf>> {
    let mut copies = Vec::new();
    for file in store.check_tree(digest)?.files {
        let to = folder.join(&file.path);
        let bytes = filled(whole(store, digest, store.read_file(digest, &file.path))?.unwrap_or_default());
        bfs::write_if_changed(&to, &bytes).with_context(|| format!("failed to write `{}`", to.display()))?;
        copies.push(to);
    }
    Ok(copies)
}

/// Whose a folder is, for the tests that load it: each takes its own only. Of the store's trees none says so, because equal
/// ones are one.
#[derive(Serialize, Deserialize)]
struct Told {
    /// At its sizes: `bert@b4`.
    model: String,
    artefact: String,
    tree: Digest,
    /// SHA-256 of each file, because no Python computes a tree's own digest by itself.
    files: BTreeMap<String, String>,
}

/// Links, since artefacts are large. A file among them says whose they are, which tree it is, and what is in its files.
fn link(
    store: &DiskStore,
    digest: &Digest,
    folder: &Path,
    model: &str,
    artefact: &str,
) -> anyhow::Result<Vec<PathBuf>> {
    let label = folder.join(TOLD);
    let mut seen = bfs::folders_below(folder).unwrap_or_default();
    seen.extend([label.clone(), folder.to_owned()]);
    let is_same = |told: Told| (&*told.model, &*told.artefact, told.tree) == (model, artefact, *digest);
    let told = fs::read(&label).ok().and_then(|text| serde_json::from_slice(&text).ok());
    if told.is_some_and(is_same) && is_whole(store, digest, folder) {
        return Ok(seen);
    }
    match fs::symlink_metadata(folder) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(folder)?,
        Ok(_) => fs::remove_file(folder)?,
        Err(_) => {}
    }
    whole(store, digest, store.lay_out(digest, folder, LaidAs::Copies))?;
    let names = store.manifest(digest)?.files.into_iter().map(|file| file.path);
    let files = names.map(|name| Ok((name.clone(), sha256(fs::File::open(folder.join(name))?)?)));
    let files = files.collect::<std::io::Result<_>>()?;
    let told = Told { model: model.to_owned(), artefact: artefact.to_owned(), tree: *digest, files };
    bfs::write_atomic(&label, json!(told).to_string().as_bytes())?;
    seen = bfs::folders_below(folder)?;
    seen.extend([label, folder.to_owned()]);
    Ok(seen)
}

fn is_whole(store: &DiskStore, digest: &Digest, folder: &Path) -> bool {
    let there = |path: &str, size| fs::metadata(folder.join(path)).is_ok_and(|meta| meta.len() == size);
    store.manifest(digest).is_ok_and(|manifest| manifest.files.iter().all(|file| there(&file.path, file.size)))
}
