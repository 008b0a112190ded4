//! `orch accept --figures`: intended changes of figures, written where a gate reads them.

use std::collections::BTreeSet;
use std::path::Path;
use std::str::FromStr;

use anyhow::Context as _;
use jiff::Timestamp;
use jiff::civil::Date;
use serde_json::json;

use super::AcceptArgs;
use crate::base::text::ending_as;
use crate::base::{figures, named};
use crate::cli::cmd::compare::Reports;
use crate::cli::{Args, Exit, Printer};
use crate::config::{ACCEPTED_FILE, AcceptedRow, accepted_text, with_accepted};
use crate::exec::MaxAge;
use crate::matrix::Selection;
use crate::report::Machine;
use crate::report::compare::{Change, Kind, Verdict, compare, figure, is_acceptable, what};
use crate::session::{Project, Session, UsageError, usage};

/// So much more than was seen is accepted, in percent: the next run does not find the same figure.
const MARGIN_PERCENT: f64 = 3.0;
/// [`MARGIN_PERCENT`] for accuracy, in percent of the tolerance.
const MARGIN_OF_ACCURACY_PERCENT: f64 = 10.0;

/// The last day on which a change is accepted: a day, or an age from today.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Until(Date);

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(day) = text.parse::<Date>() {
            return Ok(Self(day));
        }
        let length = text.parse::<MaxAge>().map_err(|_| {
            format!("`{text}` is neither a day nor a time from today\n  hint: `2026-12-31`, `30d` or `4w`")
        })?;
        let end = Timestamp::now().checked_add(length.length());
        let end = end.map_err(|e| format!("`{text}` is too long: {e}"))?;
        let zoned = end.to_zoned(jiff::tz::TimeZone::UTC);
        Ok(Self(zoned.date()))
    }
}

pub(super) fn accept(
    args: &Args,
    asked: &AcceptArgs,
    base: &Path,
    printer: &Printer,
) -> anyhow::Result<Exit> {
    let Some(reason) = asked
        .reason
        .as_deref()
        .filter(|reason| !reason.trim().is_empty())
    else {
        usage!("`--figures` needs a reason\n  hint: --reason 'three layers instead of two'");
    };
    let cases = selected(args, asked)?;
    let mut reports = Reports::new(args, printer);
    let base = reports.named(base)?;
    let head = reports.head(None)?;
    let noises = reports.noises(&Machine::from(&head.doc.host))?;
    drop(reports);
    let comparison = compare((&base.name, &base.doc), (&head.name, &head.doc), &noises);
    let is_meant = |change: &&Change| {
        is_acceptable(change.kind)
            && change.accepted.is_none()
            && !matches!(change.verdict, Some(Verdict::CannotTell(_)))
            && cases
                .as_ref()
                .is_none_or(|cases| cases.contains(&change.case))
    };
    let changes: Vec<&Change> = comparison.changes.iter().filter(is_meant).collect();
    let failed = comparison.of(Kind::Broken).count();
    if failed > 0 {
        printer.note(&format!(
            "note: {} failed and cannot be accepted here: `orch accept` makes them expected failures",
            figures::counted(failed, "case")
        ));
    }
    let before = accepted_text(Path::new(".")).map_err(UsageError)?;
    let mut after = before.clone();
    for change in &changes {
        after = with_accepted(&after, &row(change, reason, &asked.until)).map_err(UsageError)?;
    }
    let after = ending_as(&before, after);
    if after != before && !asked.dry_run {
        named::edit_named(Path::new(ACCEPTED_FILE), after.as_bytes())
            .with_context(|| format!("failed to write `{ACCEPTED_FILE}`"))?;
    }
    if asked.json {
        let is_written = after != before && !asked.dry_run;
        let told: Vec<_> = changes
            .iter()
            .map(|change| json!({"case": change.case, "kind": change.kind, "figures": change.figures}))
            .collect();
        printer.json(&json!({"file": ACCEPTED_FILE, "written": is_written, "changes": told}));
        return Ok(Exit::Success);
    }
    if changes.is_empty() {
        printer.note("nothing is worse that could be accepted");
        return Ok(Exit::Success);
    }
    for change in &changes {
        let kind = change.kind.word();
        printer.note(&format!(
            "accepts {kind}: {}  {}",
            change.case,
            what(change)
        ));
    }
    if asked.dry_run {
        printer.out(&super::difference(ACCEPTED_FILE, &before, &after));
    } else {
        let until = &asked.until.0;
        printer.note(&format!(
            "{ACCEPTED_FILE} is written; its rows count until {until}"
        ));
    }
    Ok(Exit::Success)
}

/// The cases that are selected; None where all are.
fn selected(args: &Args, asked: &AcceptArgs) -> anyhow::Result<Option<BTreeSet<String>>> {
    let request = asked.spec.request();
    if request.selection == Selection::default() {
        return Ok(None);
    }
    let session = Session::open_to_look(&args.locations())?;
    let project = Project::load_here(&request, &session)?;
    let cases = project.plan.cases.iter().map(|planned| planned.case.id());
    Ok(Some(cases.collect()))
}

fn row(change: &Change, reason: &str, until: &Until) -> AcceptedRow {
    let margin = match change.kind {
        Kind::LessAccurate => MARGIN_OF_ACCURACY_PERCENT,
        _ => MARGIN_PERCENT,
    };
    let up_to = figure(change).map(|figure| (100.0 * figure + margin).ceil());
    AcceptedRow {
        case: change.case.clone(),
        kind: change.kind.word().to_owned(),
        up_to_percent: up_to,
        reason: reason.to_owned(),
        until: until.0.to_string(),
        line: 0,
    }
}
