//! Puts what people look for where they look: pages, generated tests, and the artefacts that the tests load.
//!
//! What lies there and is not orch's stays, and what somebody edited is renamed; both are reported.

#![expect(
    clippy::disallowed_methods,
    reason = "moves a file of the user out of the way"
)]

mod folder;
mod last;
mod listed;
mod pages;
mod site;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::base::{Digest, figures, shell};
use crate::cases::Finished;
use crate::exec::Context;
use crate::plan::{Plan, PlannedCase};
use crate::session::{Locations, absolute};
use crate::step::{Source, StepId, generate};
use crate::store::{DiskStore, StoreError};

pub use folder::{Named, Spot};
pub(in crate::session) use last::LastRun;
pub use last::{LastReport, last_report, newer_than};
pub use site::{earlier as earlier_site, place as place_site};

use listed::Listed;

/// A run copies no larger tree: most are never looked at. Their folders say how to get them.
const MOST: u64 = 256 << 20;

/// So that `ruff format --check` knows the form in which tests are written.
const RUFF: (&str, &[u8]) = (
    "ruff.toml",
    b"# The generated tests are as Ruff formats them.\nline-length = 120\n",
);

/// What became of handing out.
#[derive(Debug, Default)]
pub struct Handed {
    /// Paths by whose stamps one can tell later that all of it is still there.
    pub placed: Vec<PathBuf>,
    /// The page that shows what the run came to, below the folder as the user gave it.
    pub page: Option<PathBuf>,
    /// What its user must know.
    pub notes: Vec<String>,
    /// Trees that are too large to be copied by every run; generated tests copy those that they load.
    pub large: usize,
    /// Something of somebody else's is in the way, so not all of it is there.
    pub in_the_way: bool,
}

impl Handed {
    fn stays(&mut self, path: &Path) {
        let path = path.display();
        self.notes.push(format!(
            "`{path}` is not orch's, so it stays; move it away, or name another folder"
        ));
        self.in_the_way = true;
    }
}

/// Fills the folder of a run's results. What is already as it should be is left alone. Of an interrupted run, nothing is handed
/// out: who interrupts wants the prompt back, and the store keeps what was made.
pub(super) fn hand_out(
    context: &Context<'_>,
    finished: &Finished,
    locations: &Locations,
    has_pages: bool,
) -> anyhow::Result<Handed> {
    let Context {
        plan,
        store,
        options,
        ..
    } = *context;
    let out_dir = &options.settings.out_dir;
    let again = options.again();
    let below = absolute(out_dir)?;
    let mut handed = Handed::default();
    if finished.interrupted {
        return Ok(handed);
    }
    let output = |id: StepId| finished.results[id.0 as usize].output();
    if has_pages {
        let folder = pages::folder(&below, finished.doc.scope.is_some());
        pages::show(&finished.doc, below.join(folder), &mut handed)?;
        handed.page = Some(page(out_dir, folder));
    }
    let mut tests = Listed::open(below.join("tests"));
    let mut stayed = 0u32;
    for planned in &plan.cases {
        let mut trees = BTreeMap::new();
        for (id, named) in loaded_by(plan, planned) {
            let Some(digest) = output(id) else { continue };
            trees.insert(named.artefact.clone(), digest);
            let at = named.below(&below);
            let name = &plan.step(id).name;
            let to = named.below(out_dir).display().to_string();
            let spot = Spot {
                store,
                tree: digest,
                folder: &at,
                named,
            };
            let left = context.remote.and_then(|remote| remote.left(&digest));
            let is_absent = left.is_some() || finished.absent.contains(&digest);
            let laid = if is_absent {
                stayed += 1;
                let step = shell::quoted(name);
                let get = format!("{again} --download toplevel --step {step}");
                match context.remote.zip(left) {
                    Some((remote, left)) => spot.hand_out_left(remote, left, get, &mut handed),
                    None => spot.leave(get, &mut handed),
                }
            } else {
                let spec = shell::word(&options.spec);
                let name = shell::word(name);
                let to = shell::word(&to);
                let get = || {
                    format!(
                        "orch output{} --spec {spec} {name} --to {to}",
                        locations.flags()
                    )
                };
                spot.hand_out(MOST, get, &mut handed)
            };
            laid.with_context(|| format!("failed to hand out `{}`", at.display()))?;
        }
        if let Some(digest) = output(planned.test) {
            let again = format!("{again} --case {}", shell::quoted(&planned.case.id()));
            tests.put_all(
                store,
                &digest,
                |text| generate::handed_out(text, &again, &trees),
                &mut handed,
            )?;
        }
    }
    if stayed > 0 {
        let what = figures::counted(stayed, "artefact");
        handed.notes.push(format!(
            "{what} stayed elsewhere: `{again} --download all` fetches what is missing"
        ));
    }
    if handed.large > 0 {
        let trees = figures::counted(handed.large, "tree");
        let most = figures::bytes(MOST);
        handed.notes.push(format!(
            "{trees} above {most} {} not copied to the artefacts' folder: a generated test copies what it loads",
            figures::plural(handed.large, "is", "are")
        ));
    }
    let models: BTreeSet<&str> = plan
        .cases
        .iter()
        .map(|planned| planned.case.model.as_str())
        .collect();
    for model in models {
        let (name, text) = generate::for_all_platforms(model)?;
        tests.put(&name, text.as_bytes(), |_| false, &mut handed)?;
    }
    // Somebody's own settings stay, and are in nobody's way.
    if !plan.cases.is_empty() && !tests.is_foreign(RUFF.0) {
        tests.put(RUFF.0, RUFF.1, |_| false, &mut handed)?;
    }
    tests.close()?;
    Ok(handed)
}

/// The page of a run that put it there: of all of a spec, or of a part of it.
pub fn page_of(out_dir: &Path, is_part: bool) -> PathBuf {
    page(out_dir, pages::folder(out_dir, is_part))
}

fn page(out_dir: &Path, folder: &str) -> PathBuf {
    out_dir.join(folder).join("index.html")
}

/// The steps whose trees generated tests load, and under which names they look for them.
pub fn loaded(plan: &Plan) -> impl Iterator<Item = (StepId, Named)> {
    plan.cases
        .iter()
        .flat_map(|planned| loaded_by(plan, planned))
}

/// The trees that one case's test loads.
fn loaded_by(plan: &Plan, planned: &PlannedCase) -> Vec<(StepId, Named)> {
    let test = plan.step(planned.test).test();
    let mut found = Vec::new();
    for (label, source) in &plan.step(planned.run).inputs {
        let Source::Step(from) = source else { continue };
        let artefact = match &**label {
            "artefact" => test.artefact_variant.as_str(),
            // What a task is compared with lies in its artefact; the folder is that of other targets.
            "model" if test.artefact.holds_reference => continue,
            "model" => folder::MODEL,
            _ => continue,
        };
        found.push((
            *from,
            Named {
                model: test.instance.clone(),
                artefact: artefact.into(),
            },
        ));
    }
    found
}

/// Whether handing out failed for a tree that was found damaged, or that another process collected meanwhile. The store has
/// forgotten it, so that performing the plan once more makes it again.
pub(super) fn is_lost(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| matches!(cause.downcast_ref(), Some(StoreError::Damaged { .. })))
}

fn whole<T>(
    store: &DiskStore,
    digest: &Digest,
    found: Result<T, StoreError>,
) -> Result<T, StoreError> {
    if matches!(found, Err(StoreError::Damaged { .. })) && !store.is_read_only() {
        store.discard_tree(digest)?;
    }
    found
}

/// Gives what somebody edited another name beside its own: `onnx.edited`, `onnx.edited-2`.
fn put_aside(path: &Path, handed: &mut Handed) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut names = (1..).map(|n| {
        if n == 1 {
            format!("{name}.edited")
        } else {
            format!("{name}.edited-{n}")
        }
    });
    let free = names.find(|name| fs::symlink_metadata(path.with_file_name(name)).is_err());
    let aside = path.with_file_name(free.expect("BUG: there is always another number"));
    fs::rename(path, &aside)?;
    handed.notes.push(format!(
        "`{}` was edited: it is `{}` now",
        path.display(),
        aside.display()
    ));
    Ok(())
}

#[cfg(test)]
mod tests;
