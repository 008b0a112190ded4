//! What is compared: the reports of files, and of runs of the history, which also tells how much their times vary.

use std::path::{Path, PathBuf};

use crate::cli::cmd::history;
use crate::cli::cmd::report::document;
use crate::cli::{Args, Printer};
use crate::history::{Reader, RunRow, Which};
use crate::report::ReportDoc;
use crate::report::compare::Noises;
use crate::session::{git, history_dir, usage};

pub(super) struct Sides {
    /// Base and head, each with a name for people.
    pub(super) reports: [(String, ReportDoc); 2],
    /// Empty where only files are compared: these need no history.
    pub(super) noises: Noises,
}

pub(super) fn sides(args: &Args, [base, head]: [&PathBuf; 2], printer: &Printer) -> anyhow::Result<Sides> {
    if is_file(base) && is_file(head) {
        return Ok(Sides { reports: [of_file(base)?, of_file(head)?], noises: Noises::new() });
    }
    let (_store, history) = history::open(args, printer)?;
    let reader = history.read(&|text| printer.note(text))?;
    let dir = history_dir(&args.locations())?;
    let side = |path: &Path| if is_file(path) { of_file(path) } else { of_run(&reader, &dir, &path.to_string_lossy()) };
    let reports = [side(base)?, side(head)?];
    let noises = reader.noises(&reports[1].1.host.name)?;
    Ok(Sides { reports, noises })
}

/// Whether it is meant as one: what is not there is told as a missing file.
fn is_file(path: &Path) -> bool {
    path.is_file() || path.extension().is_some_and(|ending| ending == "json") || path.components().count() > 1
}

fn of_file(path: &Path) -> anyhow::Result<(String, ReportDoc)> {
    Ok((path.display().to_string(), document(path)?))
}

fn of_run(reader: &Reader, dir: &Path, name: &str) -> anyhow::Result<(String, ReportDoc)> {
    let Some(run) = run(reader, name)? else {
        let hint = "`orch history` lists the runs; a file's name ends in `.json`";
        usage!("`{name}` is no run of the history\n  hint: {hint}");
    };
    Ok((name_of(&run), crate::history::report(dir, &run.run)?))
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
    let at = run.git_revision.as_ref().map(|name| format!(" at {}", history::revision(name, run.git_dirty)));
    format!("run {}{}", run.run, at.unwrap_or_default())
}
