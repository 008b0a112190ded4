//! What GitHub Actions shows of a run: annotations at the rows of a spec, and the summary of a step.

use std::fmt::Write as _;

use super::format::word;
use super::view::{View, case_name};
use super::{ReportDoc, markdown};
use crate::base::figures::counted;

/// GitHub shows so many errors of a step, and drops the others without a word.
const MOST: usize = 10;

/// GitHub refuses a longer summary: 1 MiB.
const LONGEST: usize = 1 << 20;

/// What a summary that would be too long still has.
const SHORT: [&str; 3] = ["failures", "incomplete", "coverage"];

/// One workflow command for each cause of failure, at the row of the first case that it costs. `seen_from` makes of a
/// spec's path that which GitHub knows: relative to the repository.
pub fn annotations(doc: &ReportDoc, seen_from: impl Fn(&str) -> String) -> String {
    let causes = View::new(doc).causes(super::CaseResult::is_failure);
    let mut out = String::new();
    let shown = if causes.len() > MOST { MOST - 1 } else { MOST };
    for cause in causes.iter().take(shown) {
        let first = cause.first();
        let others = match cause.cases.len() - 1 {
            0 => String::new(),
            others => format!(" and {} more", counted(others, "case")),
        };
        let title = property(&format!(
            "{}{others}: {}",
            case_name(first),
            word(cause.status)
        ));
        let place = first.row.as_deref().and_then(|row| row.rsplit_once(':'));
        let place =
            place.map(|(file, line)| format!("file={},line={line},", property(&seen_from(file))));
        let again = cause
            .repro()
            .map(|repro| format!("\nagain: {repro}"))
            .unwrap_or_default();
        let text = message(&format!("{}{again}", cause.message()));
        let _ = writeln!(
            out,
            "::error {}title={title}::{text}",
            place.unwrap_or_default()
        );
    }
    if let Some(left) = causes.len().checked_sub(shown).filter(|left| *left > 0) {
        let _ = writeln!(
            out,
            "::error title=orch::{left} more causes of failure are in the report"
        );
    }
    out
}

/// The page for people, or as much of it as GitHub takes.
pub fn summary(doc: &ReportDoc) -> String {
    let page = markdown::render(doc);
    if page.len() <= LONGEST {
        return page;
    }
    let mut page = markdown::render_only(doc, &SHORT.map(str::to_owned));
    let note = "\n\nGitHub takes no more; the whole report is `matrix.md`.\n";
    if let Some((end, _)) = page
        .match_indices('\n')
        .take_while(|(at, _)| at + note.len() <= LONGEST)
        .last()
    {
        page.truncate(end);
    }
    page + note
}

/// The text as workflow commands carry a message.
fn message(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// The text as workflow commands carry the value of a property.
fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}
