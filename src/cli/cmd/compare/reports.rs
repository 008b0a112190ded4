//! Reports as people name them: files, and runs of the history, which also tells how much their times vary.

use std::path::Path;

use crate::cli::cmd::history;
use crate::cli::cmd::report::document;
use crate::cli::{Args, Printer};
use crate::history::{Reader, RunRow, Which};
use crate::report::ReportDoc;
use crate::report::compare::Noises;
use crate::session::{git, history_dir, kept_history, usage};

/// A report with a name for people.
pub(in crate::cli::cmd) type Named = (String, ReportDoc);

pub(in crate::cli::cmd) struct Reports<'a> {
    args: &'a Args,
    printer: &'a Printer,
    /// None as long as only files were named: these need no history.
    history: Option<Reader>,
}

impl<'a> Reports<'a> {
    pub(in crate::cli::cmd) fn new(args: &'a Args, printer: &'a Printer) -> Self {
        Self {
            args,
            printer,
            history: None,
        }
    }

    pub(in crate::cli::cmd) fn named(&mut self, name: &Path) -> anyhow::Result<Named> {
        if is_file(name) {
            return Ok((name.display().to_string(), document(name)?));
        }
        let opened = match self.history.take() {
            Some(reader) => reader,
            None => history::open(self.args, self.printer)?
                .1
                .read(&|text| self.printer.note(text))?,
        };
        let name = name.to_string_lossy();
        let Some(run) = run(self.history.insert(opened), &name)? else {
            let hint = "`orch history` lists the runs; a file's name ends in `.json`";
            usage!("`{name}` is no run of the history\n  hint: {hint}");
        };
        self.of(&run)
    }

    /// The newest run of the same that is a week old, where there is a history that can be read: nothing is installed for it.
    pub(in crate::cli::cmd) fn last_week(
        &mut self,
        doc: &ReportDoc,
    ) -> anyhow::Result<Option<Named>> {
        // What is wrong with the history is told once, by the trends of the same pages.
        let kept = kept_history(&self.args.locations(), &|text| self.printer.note(text));
        let Ok(Some(reader)) = kept else {
            return Ok(None);
        };
        let run = self.history.insert(reader).last_week(doc)?;
        run.map(|run| self.of(&run)).transpose()
    }

    /// How much times vary on this machine; empty where only files were named.
    pub(in crate::cli::cmd) fn noises(&self, host: &str) -> anyhow::Result<Noises> {
        self.history
            .as_ref()
            .map_or_else(|| Ok(Noises::new()), |reader| reader.noises(host))
    }

    fn of(&self, run: &RunRow) -> anyhow::Result<Named> {
        Ok((
            name_of(run),
            crate::history::report(&history_dir(&self.args.locations())?, &run.run)?,
        ))
    }
}

/// Whether it is meant as one: what is not there is told as a missing file. `origin/main` is none.
fn is_file(path: &Path) -> bool {
    let is_placed = path.is_absolute() || path.starts_with(".") || path.starts_with("..");
    is_placed
        || path.is_file()
        || path
            .extension()
            .is_some_and(|ending| ending == "json" || ending == "gz")
}

/// What only git knows, such as a branch, is looked up as the revision that git takes it for.
fn run(reader: &Reader, name: &str) -> anyhow::Result<Option<RunRow>> {
    let which = Which::of(name);
    let found = reader.run(&which)?;
    if found.is_some() || !matches!(which, Which::Revision(_)) {
        return Ok(found);
    }
    match git::find(Path::new("."), name) {
        Ok(Some(revision)) => reader.run(&Which::Revision(revision)),
        Ok(None) | Err(_) => Ok(None),
    }
}

/// `run 20260131T080000.123Z-1a2b at 1a2b3c4d5`
fn name_of(run: &RunRow) -> String {
    let at = run
        .git_revision
        .as_ref()
        .map(|name| format!(" at {}", history::revision(name, run.git_dirty)));
    format!("run {}{}", run.run, at.unwrap_or_default())
}
