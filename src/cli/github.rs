//! What a run reports to GitHub Actions, where that runs it.

#![expect(clippy::disallowed_methods, reason = "appends to the job's summary")]

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::base::variable;
use crate::cli::printer::Printer;
use crate::report::{ReportDoc, github};

/// A file to which a step appends what its page shows.
const SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// Whether this process is of a job of GitHub Actions.
pub(super) fn is_here() -> bool {
    variable::os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

/// Annotates the rows of the spec that failed, and appends the report to the summary of the step.
pub(super) fn report(doc: &ReportDoc, printer: &Printer) {
    github::annotations(doc, seen_from_root)
        .lines()
        .for_each(|line| printer.note(line));
    let Some(path) = variable::os(SUMMARY)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
    else {
        return;
    };
    let file = OpenOptions::new().append(true).create(true).open(&path);
    if let Err(e) = file.and_then(|mut file| file.write_all(github::summary(doc).as_bytes())) {
        printer.note(&format!(
            "warning: failed to write the summary of the step, `{}`: {e}",
            path.display()
        ));
    }
}

/// The path below the root of the repository, which is what an annotation is placed by.
fn seen_from_root(path: &str) -> String {
    let root = variable::os("GITHUB_WORKSPACE").map(PathBuf::from);
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.into());
    let below = root
        .as_deref()
        .and_then(|root| whole.strip_prefix(root).ok());
    below.unwrap_or(Path::new(path)).display().to_string()
}
