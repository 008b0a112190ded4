//! `orch accept --figures`: intended changes of figures, written where a gate reads them.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;

use super::AcceptArgs;
use crate::base::figures;
use crate::cli::cmd::compare::Reports;
use crate::cli::{Args, Exit, Printer};
use crate::report::Machine;
use crate::report::compare::{Kind, compare};
use crate::session::{Project, Session, accept_figures, acceptable, usage};

pub(super) fn accept(
    args: &Args,
    accept: &AcceptArgs,
    base: &Path,
    printer: &Printer,
) -> anyhow::Result<Exit> {
    let Some(reason) = accept
        .reason
        .as_deref()
        .filter(|reason| !reason.trim().is_empty())
    else {
        usage!("`--figures` needs a reason\n  hint: --reason 'three layers instead of two'");
    };
    let cases = selected(args, accept)?;
    let mut reports = Reports::new(args, printer);
    let base = reports.named(base)?;
    let head = reports.head(None)?;
    let noises = reports.noises(&Machine::from(&head.doc.host))?;
    drop(reports);
    let comparison = compare((&base.name, &base.doc), (&head.name, &head.doc), &noises);
    let failed = comparison.of(Kind::Broken).count();
    if failed > 0 {
        printer.note(&format!(
            "note: {} failed and cannot be accepted here: `orch accept` makes them expected failures",
            figures::counted(failed, "case")
        ));
    }
    let changes = acceptable(&comparison, cases.as_ref());
    let accepted = accept_figures(&changes, reason, &accept.until)?;
    let is_written = accepted.after != accepted.before && !accept.dry_run;
    if is_written {
        accepted.write()?;
    }
    let file = accepted.file.display();
    if accept.json {
        let changes: Vec<_> = changes
            .iter()
            .map(|change| json!({"case": change.case, "kind": change.kind, "figures": change.figures}))
            .collect();
        let file = file.to_string();
        printer.json(&json!({"file": file, "written": is_written, "changes": changes}));
        return Ok(Exit::Success);
    }
    if changes.is_empty() {
        printer.note("nothing is worse that could be accepted");
        return Ok(Exit::Success);
    }
    accepted
        .changes
        .iter()
        .for_each(|change| printer.note(change));
    if accept.dry_run {
        printer.out(&super::difference(&accepted));
    } else {
        let until = &accept.until;
        printer.note(&format!("{file} is written; its rows count until {until}"));
    }
    Ok(Exit::Success)
}

/// The cases that are selected; None where all are.
fn selected(args: &Args, accept: &AcceptArgs) -> anyhow::Result<Option<BTreeSet<String>>> {
    let request = accept.spec.request();
    if request.selection == Default::default() {
        return Ok(None);
    }
    let session = Session::open_to_look(&args.locations())?;
    let project = Project::load_here(&request, &session)?;
    let cases = project.plan.cases.iter().map(|planned| planned.case.id());
    Ok(Some(cases.collect()))
}
