//! `orch matrix`: the last run's matrix once more, as that run printed it.

use std::path::{Path, PathBuf};

use crate::cli::cmd::compare::note_newer;
use crate::cli::cmd::report::document;
use crate::cli::{Args, Exit, Printer};
use crate::report::{json, text};
use crate::session::OUT_DIR;
use crate::session::last_report;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct MatrixArgs {
    /// The matrix.json of a run [default: that of what ran last, of all or of a part: the newer one in orch-out]
    #[arg(value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

pub(super) fn matrix(_: &Args, matrix: &MatrixArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let path = match &matrix.report {
        Some(path) => {
            note_newer(path, printer);
            path.clone()
        }
        None => {
            let last = last_report(Path::new(OUT_DIR))?;
            printer.note(&last.description());
            last.path
        }
    };
    let doc = document(&path)?;
    if matrix.json {
        printer.data(&json::render(&doc));
    } else {
        let styles = printer.styles();
        printer.out(&format!(
            "{}{}\n",
            text::body(&doc, &styles),
            text::summary_line(&doc.summary, &styles)
        ));
    }
    Ok(Exit::Success)
}
