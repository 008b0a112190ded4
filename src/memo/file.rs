//! The memo as a file: what was looked at, what was found, and what there is to print. One sealed file, replaced at once.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::base::{Digest, fs as bfs};
use crate::exec::{Context, StepResult, variable_digest};
use crate::memo::{Here, MemoPath, Recorded};
use crate::report::text::{self, Styles};
use crate::report::{ReportDoc, RunPath, Summary};
use crate::spec::SourceFile;
use crate::step::Params;
use crate::store::sealed::{self, Sealed};
use crate::store::snapshot::{Known, Seen, Snapshot};
use crate::store::stat::{Stamp, now};
use crate::store::{DiskStore, LogExtent, keyed};

pub(super) const KIND: &str = "orch memo 2";

const HEAD: usize = 0;
const SPECS: usize = 1;
const FILES: usize = 2;
const TEXT: usize = 3;
const DOC: usize = 4;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Head {
    /// Declared variables with digests of their values.
    variables: Vec<(String, Option<Digest>)>,
    /// Whether the plan has cases, and with them devices.
    has_cases: bool,
    here: Digest,
    /// The extent of the store's log, which only grows unless something is removed.
    log: Option<LogExtent>,
    summary: Summary,
    recorded: Option<Recorded>,
}

impl Head {
    pub(super) fn of(
        context: &Context<'_>,
        summary: &Summary,
        here: Here<'_>,
        recorded: Option<Recorded>,
    ) -> Self {
        let plan = context.plan;
        let programs = plan.steps.iter().filter_map(|step| match &step.params {
            Params::Program(program) => Some(program),
            _ => None,
        });
        let names: std::collections::BTreeSet<&str> = programs
            .flat_map(|program| &*program.env)
            .map(|name| &**name)
            .collect();
        Self {
            variables: names
                .into_iter()
                .map(|name| (name.to_owned(), variable_digest(name)))
                .collect(),
            has_cases: !plan.cases.is_empty(),
            here: here.digest(),
            log: DiskStore::log_extent(context.store.root()),
            summary: summary.clone(),
            recorded,
        }
    }
}

/// A memo, read.
pub struct Memo {
    sealed: Sealed,
    head: Head,
}

impl MemoPath {
    /// The memo of this command line. None if there is none, or none that can be read: then nothing is known.
    pub fn open(&self) -> Option<Memo> {
        let read = || -> io::Result<Memo> {
            let sealed = Sealed::open(&self.0, KIND)?;
            let mut head: Head = serde_json::from_slice(&sealed.section(HEAD)?)?;
            head.summary.path = RunPath::Memo;
            head.summary.fetched = 0;
            Ok(Memo { head, sealed })
        };
        read().ok()
    }

    pub(super) fn write(
        &self,
        head: &Head,
        files: [&Snapshot; 2],
        doc: &ReportDoc,
    ) -> io::Result<()> {
        let body = text::body(doc, &Styles::colored());
        self.write_parts(
            &serde_json::to_vec(head)?,
            files,
            body.as_bytes(),
            &serde_json::to_vec(doc)?,
        )
    }

    fn write_parts(
        &self,
        head: &[u8],
        files: [&Snapshot; 2],
        text: &[u8],
        doc: &[u8],
    ) -> io::Result<()> {
        let [specs, files] = files.map(Snapshot::to_bytes);
        sealed::write(&self.0, KIND, &[head, &specs, &files, text, doc])
    }
}

impl Memo {
    /// Whether devices must be looked for before [`Memo::holds`].
    pub fn has_cases(&self) -> bool {
        self.head.has_cases
    }

    /// The summary of an ordinary run; the caller sets its seconds.
    pub fn summary(&self) -> &Summary {
        &self.head.summary
    }

    /// What the history has of the run that wrote it.
    pub fn recorded(&self) -> Option<&Recorded> {
        self.head.recorded.as_ref()
    }

    /// Notes that the history has a run of another git revision that found the same.
    pub fn stands_for(&mut self, path: &MemoPath, revision: String) -> io::Result<()> {
        let Some(recorded) = &mut self.head.recorded else {
            return Ok(());
        };
        recorded.revision = Some(revision);
        let parts = [self.snapshot(SPECS)?, self.snapshot(FILES)?];
        let part = |section| self.sealed.section(section);
        path.write_parts(
            &serde_json::to_vec(&self.head)?,
            [&parts[0], &parts[1]],
            &part(TEXT)?,
            &part(DOC)?,
        )
    }

    /// What an ordinary run would print before its last line. None if it is damaged.
    pub fn text(&self) -> Option<String> {
        String::from_utf8(self.sealed.section(TEXT).ok()?).ok()
    }

    /// The document of an ordinary run. None if it is damaged.
    pub fn doc(&self, here: Here<'_>) -> Option<ReportDoc> {
        let mut doc: ReportDoc = serde_json::from_slice(&self.sealed.section(DOC).ok()?).ok()?;
        doc.summary = self.head.summary.clone();
        doc.host = here.host.report.clone();
        doc.backends = here.inventory.to_vec();
        Some(doc)
    }

    /// Whether nothing changed. What cannot be compared counts as changed.
    pub fn holds(&self, path: &MemoPath, here: Here<'_>) -> bool {
        let log = DiskStore::log_extent(path.root());
        log.zip(self.head.log)
            .is_some_and(|(now, then)| now.continues(&then))
            && self
                .head
                .variables
                .iter()
                .all(|(name, value)| variable_digest(name) == *value)
            && self.head.here == here.digest()
            && self.finds_its_files(path).unwrap_or(false)
    }

    fn snapshot(&self, section: usize) -> io::Result<Snapshot> {
        Snapshot::parse(&self.sealed.section(section)?)
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn finds_its_files(&self, path: &MemoPath) -> io::Result<bool> {
        // Specs first: there are few, and they change most often.
        let mut specs = self.snapshot(SPECS)?;
        let of_specs = specs.changes();
        if !of_specs.is_empty() {
            return Ok(false);
        }
        let mut files = self.snapshot(FILES)?;
        let of_files = files.changes();
        if of_files.is_empty() && (of_specs.refreshed || of_files.refreshed) {
            let part = |section| self.sealed.section(section);
            // If it cannot be written, the files are only hashed again next time.
            let _ = path.write_parts(&part(HEAD)?, [&specs, &files], &part(TEXT)?, &part(DOC)?);
        }
        Ok(of_files.is_empty())
    }
}

/// All files that a later run must compare: the specs, and second the sources with what orch wrote into the store and
/// the output folder. None if one of them has changed since the run read it, or changes too fast for its stamp to show
/// it.
pub(super) fn files(
    context: &Context<'_>,
    results: &[StepResult],
    specs: &[SourceFile],
    found: &Snapshot,
    out: &[PathBuf],
) -> io::Result<Option<[Snapshot; 2]>> {
    let Some(specs) = looked_at(specs)? else {
        return Ok(None);
    };
    let plan = context.plan;
    let store = context.store;
    let mut kept: Vec<PathBuf> = store.fans().chain([store.removals()]).collect();
    for path in out {
        kept.push(std::path::absolute(path)?);
    }
    let tests = plan.cases.iter().map(|planned| planned.test);
    for digest in tests.filter_map(|id| results[id.0 as usize].output()) {
        kept.extend(
            store
                .files_of(&digest)
                .map_err(|e| io::Error::other(e.to_string()))?,
        );
    }
    let Some(kept) = Snapshot::stable(&kept) else {
        return Ok(None);
    };
    let mut files = found.clone();
    files.extend(kept);
    Ok([&specs, &files]
        .iter()
        .all(|snapshot| snapshot.is_whole())
        .then_some([specs, files]))
}

/// The spec files with their stamps. None if one changed since it was read.
fn looked_at(specs: &[SourceFile]) -> io::Result<Option<Snapshot>> {
    let mut looked = Snapshot::default();
    for spec in specs {
        let path = std::path::absolute(&spec.path)?;
        let at = now();
        let stamp = Stamp::of(&path)?;
        if Digest::of_file(&path)? != spec.digest {
            return Ok(None);
        }
        let known = Known::Content(keyed(
            spec.digest,
            bfs::is_executable(&std::fs::metadata(&path)?),
        ));
        looked.add(path, Seen::new(stamp, known, at));
    }
    Ok(Some(looked))
}
