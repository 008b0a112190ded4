//! `--affected BASE`: the steps that are defined otherwise than at a git revision, found without running anything.
//!
//! The spec of the revision is loaded from a copy of it and planned by this orch, so orch's own code and the packages it
//! installs are the same on both sides. The definition of a step is its kind, its parameters, the content of the files that
//! it reads and the definitions of the steps that it reads; a step whose definition is as it was has the key that it had.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::base::fs::{normal, parent};
use crate::key::KeyDoc;
use crate::plan::Plan;
use crate::session::git::{Revision, is_below};
use crate::session::{Project, Request};
use crate::spec::is_spec;
use crate::step::{Source, StepId};
use crate::store::DiskStore;

/// What differs from a revision.
pub(super) struct Affected {
    /// `main (1a2b3c4d5e6f)`
    pub(super) base: String,
    /// Each affected step, and why it is.
    pub(super) steps: BTreeMap<StepId, String>,
    /// Cases that the revision excludes, with its reasons.
    excluded: BTreeSet<(String, String)>,
    /// What the user should know of the comparison.
    pub(super) notes: Vec<String>,
}

impl Affected {
    pub(super) fn since(
        base: &str,
        spec: &Path,
        project: &Project,
        store: &DiskStore,
    ) -> anyhow::Result<Self> {
        let folder = std::fs::canonicalize(parent(spec));
        let folder = folder.with_context(|| format!("failed to resolve `{}`", spec.display()))?;
        let revision = Revision::open(base, &folder, store.scratch()?)?;
        let of = &revision.name;
        let missing = |at| {
            format!(
                "submodule `{at}` is not here as {of} has it: steps that read it count as affected"
            )
        };
        let mut notes: Vec<String> = revision.missing.iter().map(missing).collect();
        let spec_then =
            revision.at(&folder.join(spec.file_name().context("the spec's path names no file")?));
        let then = match load(&revision, &spec_then, project)? {
            Ok(then) => Some(then),
            Err(why) => {
                notes.push(format!("{why}: everything counts as affected"));
                None
            }
        };
        let mut affected = Self {
            base: revision.name.clone(),
            steps: BTreeMap::new(),
            excluded: BTreeSet::new(),
            notes,
        };
        let files = store.file_digests();
        let present = |path: &Path| {
            files
                .digest(path)
                .map_or_else(|_| "unreadable".into(), |digest| digest.to_string())
        };
        let new = definitions(&project.plan, &present);
        if let Some(then) = &then {
            lay_out_inputs(&revision, &then.plan)?;
            affected.excluded = then
                .plan
                .excluded
                .iter()
                .map(|e| (e.case.id(), e.reason.clone()))
                .collect();
        }
        // Not saved: these paths are gone when the comparison is made.
        let files_then = store.file_digests();
        let past = |path: &Path| {
            files_then
                .digest(&revision.read(path))
                .map_or_else(|_| "absent".into(), |digest| digest.to_string())
        };
        let old = then
            .as_ref()
            .map(|then| definitions(&then.plan, &past))
            .unwrap_or_default();
        for id in project.plan.ids() {
            let step = project.plan.step(id);
            let before = then.as_ref().and_then(|then| then.plan.find(&step.name));
            match before.map(|id| &old[id.0 as usize]) {
                None => drop(affected.steps.insert(id, "new".into())),
                Some(old) if *old != new[id.0 as usize] => {
                    affected
                        .steps
                        .insert(id, why(&project.plan, id, &new[id.0 as usize], old));
                }
                Some(_) => {}
            }
        }
        Ok(affected)
    }

    /// Whether the revision excludes this case for the same reason.
    pub(super) fn excludes(&self, case: &str, reason: &str) -> bool {
        self.excluded
            .contains(&(case.to_owned(), reason.to_owned()))
    }
}

/// The spec as it was, or why it cannot be had.
fn load(
    revision: &Revision,
    spec: &Path,
    project: &Project,
) -> anyhow::Result<Result<Project, String>> {
    let real = project
        .files
        .iter()
        .filter_map(|file| std::fs::canonicalize(&file.path).ok());
    let specs: BTreeSet<PathBuf> = real.map(|path| normal(&path)).collect();
    for outside in specs
        .iter()
        .filter(|path| !path.starts_with(&revision.root))
    {
        let link = revision.at(outside);
        std::fs::create_dir_all(link.parent().unwrap_or(&link))?;
        std::os::unix::fs::symlink(outside, &link)
            .with_context(|| format!("failed to link {}", link.display()))?;
    }
    revision.lay_out(&|path| is_spec(path) || specs.contains(path))?;
    let load = || Project::of(&Request::all(spec), None, |_| project.clock.clone());
    let first = load();
    // It may include files of any name.
    let loaded = if first.is_err() {
        revision.lay_out(&|_| true).and_then(|()| load())
    } else {
        first
    };
    // Which files a model's folder has, and where an ONNX file keeps its weights, is read when the plan is made.
    let loaded = match loaded {
        Ok(first) => lay_out_inputs(revision, &first.plan).and_then(|()| load()),
        Err(error) => Err(error),
    };
    let shown = revision.real(spec);
    let shown = shown
        .strip_prefix(&revision.root)
        .unwrap_or(&shown)
        .display();
    Ok(loaded.map_err(|error| match spec.exists() {
        false => format!("`{shown}` is not in {}", revision.name),
        true => {
            let text = error
                .to_string()
                .replace(&*revision.at(&revision.root).to_string_lossy(), "");
            let first = text
                .lines()
                .find(|line| line.contains(": "))
                .unwrap_or(&text)
                .trim_start_matches('/')
                .to_owned();
            format!(
                "`{shown}` as of {} cannot be read by this orch ({first})",
                revision.name
            )
        }
    }))
}

/// Only what the plan reads, because a repository may hold far more.
fn lay_out_inputs(revision: &Revision, plan: &Plan) -> anyhow::Result<()> {
    let read = plan.files().map(|path| revision.real(path)).collect();
    revision.lay_out(&|path| is_below(path, &read))
}

/// The definition of every step, in the order of the plan.
fn definitions(plan: &Plan, file: &dyn Fn(&Path) -> String) -> Vec<KeyDoc> {
    let mut documents: Vec<KeyDoc> = Vec::with_capacity(plan.steps.len());
    let mut digests = Vec::with_capacity(plan.steps.len());
    // Many steps read the same files.
    let mut known: BTreeMap<&Path, String> = BTreeMap::new();
    for step in &plan.steps {
        let mut doc = KeyDoc::default();
        doc.set("kind", step.kind.name());
        step.params.describe(&mut doc);
        for (name, source) in &step.inputs {
            match source {
                Source::Step(from) => doc.set(format!("step.{name}"), digests[from.0 as usize]),
                Source::File(path) => {
                    let digest = known.entry(path).or_insert_with(|| file(path));
                    doc.set(format!("input.{name}"), digest);
                }
            }
        }
        digests.push(doc.digest());
        documents.push(doc);
    }
    documents
}

/// The lines of its own that differ, or else the step above it that does.
fn why(plan: &Plan, id: StepId, new: &KeyDoc, old: &KeyDoc) -> String {
    let changes = new.changes_since(old);
    let own: Vec<_> = changes
        .iter()
        .filter(|change| !change.name.starts_with("step."))
        .map(ToString::to_string)
        .collect();
    if !own.is_empty() {
        return own.join(", ");
    }
    let label = changes[0].name.trim_start_matches("step.");
    let above = plan
        .step(id)
        .inputs
        .iter()
        .find_map(|(name, source)| match source {
            Source::Step(from) if **name == *label => Some(plan.step(*from).name.as_str()),
            _ => None,
        });
    above.map_or_else(|| changes[0].to_string(), |above| format!("after {above}"))
}
