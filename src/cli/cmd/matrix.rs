//! `orch matrix`: the capability table, and what of it is here now.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::json;

use crate::base::{figures::counted, named};
use crate::capability::{OWN, Table, Updated, text::Asked};
use crate::cli::args::{expression, given};
use crate::cli::cmd::devices;
use crate::cli::cmd::report::document;
use crate::cli::{Args, Exit, Printer};
use crate::matrix::{Facet, Query};
use crate::session::{self, UsageError, usage};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct MatrixArgs {
    /// The table [if this file does not exist: the one built into orch]
    #[arg(long, default_value = "specs/capabilities.yaml", value_name = "FILE")]
    table: PathBuf,
    /// Add what a run measured to the table: the run's matrix.json
    #[arg(long, value_name = "FILE", conflicts_with_all = ["select", "families", "targets", "backends", "tasks", "types"])]
    update: Option<PathBuf>,
    /// The spec of that run, if it is not where the report says
    #[arg(long, value_name = "FILE", requires = "update")]
    spec: Option<PathBuf>,
    /// Only these families
    #[arg(long = "family", value_name = "GLOB")]
    families: Vec<String>,
    /// Only these backends
    #[arg(long = "backend", value_name = "GLOB")]
    backends: Vec<String>,
    /// Only results of these targets
    #[arg(long = "target", short = 't', value_name = "GLOB")]
    targets: Vec<String>,
    /// Only results of these tasks
    #[arg(long = "task", value_name = "GLOB")]
    tasks: Vec<String>,
    /// Only what an expression selects, by model, type, family, task, target, backend, precision or case:
    /// 'family:vision & backend:openvino & !precision:int8'
    #[arg(long, value_name = "EXPR", value_parser = expression)]
    select: Vec<Query>,
    /// Also list each model type, task and exporter
    #[arg(long)]
    types: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

pub(super) fn matrix(args: &Args, matrix: &MatrixArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let table = read(&matrix.table)?;
    if let Some(report) = &matrix.update {
        return update(table, report, matrix, printer);
    }
    let MatrixArgs {
        families,
        backends,
        targets,
        tasks,
        select,
        ..
    } = matrix;
    let lists = [
        (Facet::Family, families),
        (Facet::Backend, backends),
        (Facet::Target, targets),
        (Facet::Task, tasks),
    ];
    // All of them must be met.
    let queries: Vec<_> = given(&lists).chain(select.iter().cloned()).collect();
    let part = table
        .select(&queries)
        .map_err(|e| UsageError(e.to_string()))?;
    let (_, here) = devices::probe(args)?;
    let document = || json!({"table": part, "here": here, "coverage": part.coverage()});
    let asked = Asked {
        whole: queries.is_empty(),
        types: matrix.types,
    };
    printer.answer(matrix.json, document, || part.page(&here, &asked));
    Ok(Exit::Success)
}

fn read(path: &Path) -> anyhow::Result<Table> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => OWN.to_owned(),
        Err(error) => {
            return Err(error).with_context(|| format!("failed to read `{}`", path.display()));
        }
    };
    let wrong = |what: String| {
        UsageError(format!(
            "{} is no table of capabilities: {what}",
            path.display()
        ))
    };
    Ok(Table::read(&text).map_err(wrong)?)
}

fn update(
    table: Table,
    report: &Path,
    matrix: &MatrixArgs,
    printer: &Printer,
) -> anyhow::Result<Exit> {
    let doc = document(report)?;
    let path = matrix
        .spec
        .clone()
        .unwrap_or_else(|| doc.spec.clone().into());
    if !path.exists() {
        usage!(
            "`{}` is not here\n  hint: `--spec FILE` says where the spec of the report is",
            path.display()
        );
    }
    let spec = session::spec(&path)?;
    let refused = |why: String| UsageError(format!("`{}`: {why}", report.display()));
    let (table, updated) = table
        .update(&doc, &spec, &path.display().to_string())
        .map_err(refused)?;
    named::save_named(&matrix.table, table.text().as_bytes())
        .with_context(|| format!("failed to write `{}`", matrix.table.display()))?;
    match matrix.json {
        true => printer.json(&updated),
        false => tell(&updated, &matrix.table, printer),
    }
    Ok(Exit::Success)
}

fn tell(updated: &Updated, path: &Path, printer: &Printer) {
    let Updated {
        taken,
        not_run,
        older,
        strangers,
        gone,
    } = updated;
    let names = |names: &std::collections::BTreeSet<String>| {
        names.iter().cloned().collect::<Vec<_>>().join(", ")
    };
    printer.note(&format!(
        "{}: {} taken",
        path.display(),
        counted(*taken, "result")
    ));
    for (count, what) in [
        (*not_run, "did not run"),
        (*older, "older than what the table has"),
    ] {
        if count > 0 {
            printer.note(&format!("left out: {}, {what}", counted(count, "case")));
        }
    }
    if !strangers.is_empty() {
        printer.note(&format!(
            "left out, because the spec has no such model: {}",
            names(strangers)
        ));
    }
    if !gone.is_empty() {
        printer.note(&format!(
            "taken out, because the spec no longer has them: {}",
            names(gone)
        ));
    }
}
