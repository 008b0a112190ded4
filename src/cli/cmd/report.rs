//! `orch report`: what the store already knows; executes nothing.

use std::io::Write as _;

use anyhow::Context as _;

use crate::base::fs as bfs;
use crate::cli::args::{Args, ReportArgs, ReportFormat};
use crate::cli::cmd::Warnings;
use crate::cli::cmd::plan::idle_options;
use crate::cli::exit::Exit;
use crate::cli::half::Ask;
use crate::cli::printer::Printer;
use crate::cli::project::{Project, Workplace};
use crate::exec;
use crate::report::{self, text::Styles};

pub(super) fn report(args: &Args, report: &ReportArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let workplace = Workplace::open(args)?;
    let project = Project::load_here(&workplace, &report.spec, Ask::Installed)?;
    let options = idle_options(&project);
    let listener = Warnings(printer);
    let doc = exec::held(&workplace.context(&project, &options, &listener))?;
    let text = match report.format {
        ReportFormat::Text => report::text::render(&doc, &Styles::colored()),
        ReportFormat::Json => report::json::render(&doc),
        ReportFormat::Markdown => report::markdown::render(&doc),
        ReportFormat::Html => report::html::render(&doc)?,
        ReportFormat::Junit => report::junit::render(&doc),
    };
    match &report.output {
        Some(path) => bfs::write_named(path, |file| file.write_all(text.as_bytes()))
            .with_context(|| format!("failed to write `{}`", path.display()))?,
        None => printer.out(&text),
    }
    Ok(if doc.summary.failed == 0 && !doc.summary.is_well() { Exit::NothingRan } else { Exit::Success })
}
