//! Contributions: one made of a report and of what the store holds of it, and those of a folder, each held against itself,
//! the site's report and the site's spec.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::base::{figures, fs as bfs};
use crate::explain;
use crate::key::KeyDoc;
use crate::plan::PlannedCase;
use crate::report::ReportDoc;
use crate::report::contribution::{
    self, Contribution, Known, LARGEST, Made, Maker, Planned, PlannedStep, Refusal,
};
use crate::session::{Locations, Project, Request, Session, Tell, usage};

/// The contributions of a folder.
#[derive(Default)]
pub struct TakenIn {
    /// Those that are sound, in the order of the names of their files.
    pub sound: Vec<Contribution>,
    /// Those that are not, each with its file.
    pub refused: Vec<(PathBuf, Refusal)>,
}

/// What a report and the store prove: a contribution by somebody of this name. Nothing is written and nothing is installed.
pub fn contribute(
    locations: &Locations,
    doc: &ReportDoc,
    by: &str,
    tell: Tell<'_>,
) -> anyhow::Result<Made> {
    if !contribution::may_be_called(by) {
        usage!(
            "`{by}` cannot be the name of a contributor\n  hint: use letters, digits, blanks, `.`, `_`, `-` and `@`, beginning with a letter or digit"
        );
    }
    let session = Session::open_to_look(locations)?;
    let now = figures::now();
    let planned = planned(doc, doc.cases.iter().map(|case| case.case.as_str()), tell);
    let known = Known {
        now: &now,
        doc,
        planned: planned.as_ref(),
    };
    let host = &session.host;
    let maker = Maker {
        by,
        now: &now,
        fingerprints: [&host.fingerprint, &host.computing],
        records: &|step| explain::history(&session.store, step),
    };
    Ok(maker.make(doc, |contribution| {
        contribution::check(contribution, &known)
    }))
}

/// Writes a contribution in one piece.
pub fn write_contribution(contribution: &Contribution, path: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(bfs::parent(path))
        .and_then(|()| bfs::write_atomic(path, contribution.text().as_bytes()))
        .with_context(|| format!("failed to write `{}`", path.display()))
}

/// Reads the contributions of a folder, which are its files that end in `.json`.
pub fn contributions(folder: &Path, doc: &ReportDoc, tell: Tell<'_>) -> anyhow::Result<TakenIn> {
    let mut taken = TakenIn::default();
    let mut read = Vec::new();
    for path in files(folder)? {
        let text = bfs::read_text(&path, LARGEST);
        let found = text
            .map_err(|error| Refusal::unreadable(&error))
            .and_then(|text| contribution::read(&text));
        match found {
            Ok(contribution) => read.push((path, contribution)),
            Err(refusal) => taken.refused.push((path, refusal)),
        }
    }
    let cases = read
        .iter()
        .flat_map(|(_, contribution)| &contribution.cases);
    let planned = match read.is_empty() {
        true => None,
        false => planned(doc, cases.map(|case| case.case.as_str()), tell),
    };
    let now = figures::now();
    let known = Known {
        now: &now,
        doc,
        planned: planned.as_ref(),
    };
    let mut digests = BTreeSet::new();
    for (path, contribution) in read {
        let checked = contribution::check(&contribution, &known).and_then(|()| {
            let is_new = digests.insert(contribution.digest.clone());
            is_new
                .then_some(())
                .ok_or_else(|| Refusal::twice(&contribution))
        });
        match checked {
            Ok(()) => taken.sound.push(contribution),
            Err(refusal) => taken.refused.push((path, refusal)),
        }
    }
    taken.refused.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(taken)
}

/// Files by name.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => usage!(
            "failed to read the folder `{}`: {error}\n  hint: `orch submit` writes a file for it",
            folder.display()
        ),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let is_ours = path.extension().is_some_and(|ending| ending == "json");
        let is_hidden = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if is_ours && !is_hidden {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// What the spec of a report requests of the steps of these cases; None, and a word on it, where the spec cannot be read.
fn planned<'a>(
    doc: &ReportDoc,
    cases: impl Iterator<Item = &'a str>,
    tell: Tell<'_>,
) -> Option<Planned> {
    let spec = Path::new(&doc.spec);
    let project = Project::load(&Request::all(spec))
        .map_err(|error| {
            let first = error.to_string();
            let first = first.lines().next().unwrap_or_default();
            tell(&format!(
                "cases are held against the report alone, and not against the spec: {first}"
            ));
        })
        .ok()?;
    let wanted: BTreeSet<&str> = cases.collect();
    let steps = |planned: &PlannedCase| {
        let steps = planned.chain.iter().map(|id| project.plan.step(*id));
        steps
            .map(|step| {
                let mut document = KeyDoc::default();
                document.set("kind", step.kind.name());
                step.params.describe(&mut document);
                let lines = document.lines();
                PlannedStep {
                    step: step.name.clone(),
                    document: lines
                        .map(|(name, value)| (name.into_owned(), value.into_owned()))
                        .collect(),
                }
            })
            // Further rounds are as many as whoever measured wanted.
            .filter(|step| !step.document.contains_key("param.round"))
            .collect()
    };
    let cases = project.plan.cases.iter();
    let planned = cases.map(|planned| (planned.case.id(), planned));
    Some(
        planned
            .filter(|(id, _)| wanted.contains(id.as_str()))
            .map(|(id, planned)| (id, steps(planned)))
            .collect(),
    )
}
