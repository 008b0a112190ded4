//! `orch accept`: the spec's expectations, or intended changes of figures, brought up to date.

mod figures;

use std::path::PathBuf;

use serde_json::json;

use crate::cli::args::SpecArgs;
use crate::cli::cmd::warnings;
use crate::cli::{Args, Exit, Printer};
use crate::session::{Accepted, Session, Until};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct AcceptArgs {
    #[command(flatten)]
    spec: SpecArgs,
    /// Accept what is slower, less accurate, larger or no longer shown to be right since this base (a `matrix.json`, or a run of
    /// the history): writes `orch-accepted.toml`, which `orch compare --gate` reads
    #[arg(long, value_name = "BASE")]
    figures: Option<PathBuf>,
    /// Why the newly expected failures, or the changes, are accepted, in one sentence
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The last day on which the changes of `--figures` are accepted: a day, or a time from today
    #[arg(long, value_name = "DAY", default_value = "30d", requires = "figures")]
    until: Until,
    /// Show what would change, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

pub(super) fn accept(args: &Args, accept: &AcceptArgs, printer: &Printer) -> anyhow::Result<Exit> {
    if let Some(base) = &accept.figures {
        return figures::accept(args, accept, base, printer);
    }
    let session = Session::open_to_look(&args.locations())?;
    let request = accept.spec.request();
    let reason = accept.reason.as_deref();
    let Some(accepted) = session.accept(&request, reason, &warnings(printer))? else {
        match accept.json {
            true => printer.json(&json!({"file": null, "written": false, "changes": []})),
            false => printer
                .note("every expectation already matches the last results: nothing to change"),
        }
        return Ok(Exit::Success);
    };
    if !accept.dry_run {
        accepted.write()?;
    }
    let file = accepted.file.display().to_string();
    if accept.json {
        let changes = &accepted.changes;
        printer.json(&json!({"file": file, "written": !accept.dry_run, "changes": changes}));
        return Ok(Exit::Success);
    }
    accepted
        .changes
        .iter()
        .for_each(|change| printer.note(change));
    if accept.dry_run {
        printer.out(&difference(&accepted));
    } else {
        printer.note(&format!("{file} is rewritten"));
    }
    Ok(Exit::Success)
}

/// What would be written, as a unified diff.
fn difference(accepted: &Accepted) -> String {
    let name = accepted.file.display().to_string();
    similar::TextDiff::from_lines(&accepted.before, &accepted.after)
        .unified_diff()
        .context_radius(2)
        .header(&name, &name)
        .to_string()
}
