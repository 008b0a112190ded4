//! `orch report`: what the store already knows; executes nothing.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::builder::PossibleValuesParser;

use crate::cli::args::SpecArgs;
use crate::cli::cmd::compare::note_newer;
use crate::cli::cmd::warnings;
use crate::cli::{Args, Exit, Printer};
use crate::history::RunFile;
use crate::report::{self, ReportDoc};
use crate::session::{Ask, Session, UsageError, trends};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ReportArgs {
    #[command(flatten)]
    spec: SpecArgs,
    /// How it is printed
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    format: ReportFormat,
    /// Merge these `matrix.json` files, from shards or several machines, into one report
    #[arg(long, value_name = "FILE", num_args = 1..)]
    merge: Vec<PathBuf>,
    /// Print only this section (repeatable; Markdown only)
    #[arg(long, value_name = "SECTION", value_parser = PossibleValuesParser::new(report::sections()))]
    section: Vec<String>,
    /// Leave out the commands that repeat a case, and the ends of logs: they name paths of this machine, which a published report should not
    #[arg(long)]
    no_repro: bool,
    /// Exit with 0 instead of 3 if nothing ran
    #[arg(long)]
    allow_none: bool,
    /// Write to this file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum ReportFormat {
    Text,
    Json,
    Markdown,
    Html,
    Junit,
    /// An SVG for a README: how many of the cases that could run passed
    Badge,
}

pub(super) fn report(args: &Args, report: &ReportArgs, printer: &Printer) -> anyhow::Result<Exit> {
    if !report.section.is_empty() && !matches!(report.format, ReportFormat::Markdown) {
        bail!("--section is of `--format markdown`; the other pages have all sections");
    }
    let session = Session::open_to_look(&args.locations())?;
    let mut doc = match report.merge.as_slice() {
        [] => held(&session, report, printer)?,
        files => {
            files.iter().for_each(|path| note_newer(path, printer));
            report::merge::merge(&documents(files)?)?
        }
    };
    if report.no_repro {
        doc.cases
            .iter_mut()
            .for_each(|case| (case.repro, case.log) = (None, None));
    }
    let text = match report.format {
        ReportFormat::Text => report::text::render(&doc, &printer.styles()),
        ReportFormat::Json => report::json::render(&doc),
        ReportFormat::Markdown if report.section.is_empty() => report::markdown::render(&doc),
        ReportFormat::Markdown => report::markdown::render_only(&doc, &report.section),
        ReportFormat::Html => {
            let trends = trends(&args.locations(), &|text| printer.note(text));
            report::html::render_with(&doc, &trends)?
        }
        ReportFormat::Junit => report::junit::render(&doc),
        ReportFormat::Badge => report::badge::render(&doc)?,
    };
    match &report.output {
        Some(path) => {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            let write = |file: &mut File| anyhow::Ok(file.write_all(text.as_bytes())?);
            session
                .store
                .write_out(path, write)
                .with_context(|| format!("failed to write `{}`", path.display()))?;
        }
        None => printer.data(&text),
    }
    let nothing_ran = doc.summary.failed == 0 && !doc.summary.is_well();
    Ok(if nothing_ran && !report.allow_none {
        Exit::NothingRan
    } else {
        Exit::Success
    })
}

/// What the store knows of the spec.
fn held(session: &Session, report: &ReportArgs, printer: &Printer) -> anyhow::Result<ReportDoc> {
    let project = session.project(&report.spec.request(), Ask::Installed)?;
    session.held(&project, &project.idle_options(), &warnings(printer))
}

/// The documents, each with the name of its file.
pub(super) fn documents(files: &[PathBuf]) -> anyhow::Result<Vec<(String, ReportDoc)>> {
    files
        .iter()
        .map(|path| Ok((path.display().to_string(), document(path)?)))
        .collect()
}

/// How files of runs begin, which are compressed.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// The report in a file: a `matrix.json`, or the file that a run left for the history.
pub(super) fn document(path: &Path) -> anyhow::Result<ReportDoc> {
    let failed = |error: io::Error| {
        let hint =
            "`orch run` leaves a report in orch-out, and `orch matrix --json > FILE` keeps it";
        UsageError(format!(
            "failed to read `{}`: {error}\n  hint: {hint}",
            path.display()
        ))
    };
    let text = fs::read(path).map_err(failed)?;
    if text.starts_with(GZIP) {
        let doc = RunFile::read(path)?.doc;
        let nothing = || {
            format!(
                "`{}` is of a run that had nothing to do, so it holds no report",
                path.display()
            )
        };
        return doc.ok_or_else(|| UsageError(nothing()).into());
    }
    let read = serde_json::from_slice(&text);
    Ok(read.map_err(|error| {
        let hint = "a report is the matrix.json of a run, its `cache/history/runs/RUN.json.gz`, or what `orch report --format json` prints";
        UsageError(format!("`{}` is no report of this orch: {error}\n  hint: {hint}", path.display()))
    })?)
}
