//! `orch matrix`: the capability table, and what of it is here now.

use std::path::Path;

use anyhow::Context as _;
use serde_json::json;

use crate::base::{figures::counted, named};
use crate::capability::{OWN, Table, Updated, text::Asked};
use crate::cli::args::{Args, MatrixArgs};
use crate::cli::cmd::devices;
use crate::cli::cmd::report::document;
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::session::{self, UsageError};

pub(super) fn matrix(args: &Args, matrix: &MatrixArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let table = read(&matrix.table)?;
    if let Some(report) = &matrix.update {
        return update(table, report, matrix, printer);
    }
    let queries = matrix.queries();
    let part = table.select(&queries).map_err(|e| UsageError(e.to_string()))?;
    let (_, here) = devices::probe(args)?;
    if matrix.json {
        let coverage = part.coverage();
        printer.json(&json!({"table": part, "here": here, "coverage": coverage}));
    } else {
        let asked = Asked { whole: queries.is_empty(), types: matrix.types };
        printer.out(&part.page(&here, &asked));
    }
    Ok(Exit::Success)
}

fn read(path: &Path) -> anyhow::Result<Table> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => OWN.to_owned(),
        Err(error) => return Err(error).with_context(|| format!("failed to read `{}`", path.display())),
    };
    let wrong = |what: String| UsageError(format!("{} is no table of capabilities: {what}", path.display()));
    Ok(Table::read(&text).map_err(wrong)?)
}

fn update(table: Table, report: &Path, matrix: &MatrixArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let doc = document(report)?;
    let path = matrix.spec.clone().unwrap_or_else(|| doc.spec.clone().into());
    if !path.exists() {
        let hint = "`--spec FILE` says where the spec of the report is";
        return Err(UsageError(format!("`{}` is not here\n  hint: {hint}", path.display())).into());
    }
    let spec = session::spec(&path)?;
    let refused = |why: String| UsageError(format!("`{}`: {why}", report.display()));
    let (table, updated) = table.update(&doc, &spec, &path.display().to_string()).map_err(refused)?;
    named::save_named(&matrix.table, table.text().as_bytes())
        .with_context(|| format!("failed to write `{}`", matrix.table.display()))?;
    if matrix.json {
        printer.json(&updated);
    } else {
        tell(&updated, &matrix.table, printer);
    }
    Ok(Exit::Success)
}

fn tell(updated: &Updated, path: &Path, printer: &Printer) {
    let Updated { taken, not_run, older, strangers, gone } = updated;
    let names = |names: &std::collections::BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
    printer.note(&format!("{}: {} taken", path.display(), counted(*taken, "result")));
    for (count, what) in [(*not_run, "did not run"), (*older, "older than what the table has")] {
        if count > 0 {
            printer.note(&format!("left out: {}, {what}", counted(count, "case")));
        }
    }
    if !strangers.is_empty() {
        printer.note(&format!("left out, because the spec has no such model: {}", names(strangers)));
    }
    if !gone.is_empty() {
        printer.note(&format!("taken out, because the spec no longer has them: {}", names(gone)));
    }
}
