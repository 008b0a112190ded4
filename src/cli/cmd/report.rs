//! `orch report`: what the store already knows; executes nothing.

use std::fs::{self, File};
use std::io::Write as _;

use anyhow::{Context as _, bail};

use crate::cli::args::{Args, ReportArgs, ReportFormat};
use crate::cli::cmd::Warnings;
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::report::{self, text::Styles};
use crate::session::{Ask, Session};

pub(super) fn report(args: &Args, report: &ReportArgs, printer: &Printer) -> anyhow::Result<Exit> {
    if !report.section.is_empty() && !matches!(report.format, ReportFormat::Markdown) {
        bail!("--section is of `--format markdown`; the other pages have all sections");
    }
    let session = Session::open(&args.locations())?;
    let project = session.project(&report.spec.request(), Ask::Installed)?;
    let options = project.idle_options();
    let listener = Warnings(printer);
    let doc = session.held(&project, &options, &listener)?;
    let text = match report.format {
        ReportFormat::Text => report::text::render(&doc, &Styles::colored()),
        ReportFormat::Json => report::json::render(&doc),
        ReportFormat::Markdown if report.section.is_empty() => report::markdown::render(&doc),
        ReportFormat::Markdown => report::markdown::render_only(&doc, &report.section),
        ReportFormat::Html => report::html::render(&doc)?,
        ReportFormat::Junit => report::junit::render(&doc),
    };
    match &report.output {
        Some(path) => {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            let write = |file: &mut File| anyhow::Ok(file.write_all(text.as_bytes())?);
            session.store.write_out(path, write).with_context(|| format!("failed to write `{}`", path.display()))?;
        }
        None => printer.data(&text),
    }
    Ok(if doc.summary.failed == 0 && !doc.summary.is_well() { Exit::NothingRan } else { Exit::Success })
}
