//! `orch capabilities`: what was measured of model families on backends, on this machine first; and, on request, what others assert.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::json;

use crate::base::{figures::counted, named};
use crate::capability::{OWN, Table, Updated, host_name, text::PageOptions};
use crate::cli::args::{expression, given};
use crate::cli::cmd::devices;
use crate::cli::cmd::report::document;
use crate::cli::{Args, Exit, Printer};
use crate::matrix::{Facet, Query};
use crate::session::OUT_DIR;
use crate::session::{self, LastReport, UsageError, last_report, usage};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct CapabilitiesArgs {
    /// The table [default: specs/capabilities.yaml if it exists, with the last run's report; else that report alone]
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// Also show what others assert or measured, by the table that is built into orch where there is no other
    #[arg(long)]
    asserted: bool,
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

/// The table of a project.
const TABLE: &str = "specs/capabilities.yaml";

pub(super) fn capabilities(
    args: &Args,
    matrix: &CapabilitiesArgs,
    printer: &Printer,
) -> anyhow::Result<Exit> {
    let path = matrix.table.clone().unwrap_or_else(|| TABLE.into());
    let own = read(&path)?;
    if let Some(report) = &matrix.update {
        return update(own.unwrap_or_else(built_in), report, &path, matrix, printer);
    }
    let host = session::this_host();
    // What the authors of orch measured says nothing of this machine.
    let empty = || {
        if matrix.asserted {
            built_in()
        } else {
            Table::empty()
        }
    };
    let mut table = own.unwrap_or_else(empty);
    if matrix.table.is_none() {
        table = with_last_run(table, printer);
    }
    if !matrix.asserted {
        table = table.without_assertions();
    }
    let CapabilitiesArgs {
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
    let part = match queries.is_empty() {
        true => table,
        false => table
            .select(&queries)
            .map_err(|e| UsageError(e.to_string()))?,
    };
    let (_, here) = devices::probe(args)?;
    let document = || json!({"table": part, "here": here, "coverage": part.coverage()});
    let whole = queries.is_empty();
    let types = matrix.types;
    let asserted = matrix.asserted;
    let options = PageOptions {
        whole,
        types,
        asserted,
        host: host_name(&host),
    };
    printer.answer(matrix.json, document, || part.page(&here, &options));
    Ok(Exit::Success)
}

fn built_in() -> Table {
    Table::read(OWN).expect("BUG: a test reads the table that is built in")
}

/// The table with what the last run found, as far as its spec is still there. The file stays as it is.
fn with_last_run(table: Table, printer: &Printer) -> Table {
    let taken = || -> Option<(Table, LastReport)> {
        let last = last_report(Path::new(OUT_DIR)).ok()?;
        let doc = document(&last.path).ok()?;
        let spec = session::spec(Path::new(&doc.spec)).ok()?;
        let (table, _) = table.clone().update(&doc, &spec, &doc.spec).ok()?;
        Some((table, last))
    };
    let Some((table, last)) = taken() else {
        return table;
    };
    printer.note(&format!("with {}", last.description()));
    table
}

/// The table in a file; None if there is no such file.
fn read(path: &Path) -> anyhow::Result<Option<Table>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
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
    Ok(Some(Table::read(&text).map_err(wrong)?))
}

fn update(
    table: Table,
    report: &Path,
    to: &Path,
    matrix: &CapabilitiesArgs,
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
    named::save_named(to, table.text().as_bytes())
        .with_context(|| format!("failed to write `{}`", to.display()))?;
    match matrix.json {
        true => printer.json(&updated),
        false => print_update(&updated, to, printer),
    }
    Ok(Exit::Success)
}

fn print_update(updated: &Updated, path: &Path, printer: &Printer) {
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
