//! `orch verify`: one model of each pipeline on each target of this machine, by a run like any other.

mod shown;

use std::path::Path;

use crate::cli::args::{Args, VerifyArgs};
use crate::cli::cmd::run::{self, command_line, on_interrupt};
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::matrix::{Matrix, Representative};
use crate::report::ReportDoc;
use crate::session::{self, Ask, Session, UsageError};
use shown::Verified;

pub(super) fn verify(args: &Args, verify: &VerifyArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let spec = session::spec(&verify.spec)?;
    let matrix = Matrix::with(&spec, &verify.targets);
    let chosen = matrix.representatives(&spec);
    let models: Vec<_> = chosen.iter().filter_map(|Representative { model, .. }| model.map(str::to_owned)).collect();
    if models.is_empty() {
        let hint = "hint: give it a model, or name another spec";
        return Err(UsageError(format!("{} has no model of any pipeline\n  {hint}", verify.spec.display())).into());
    }
    let (request, settings) = (verify.request(&models), verify.settings(command_line()));
    let tell = |text: &str| printer.note(text);
    let session = Session::open(&args.locations())?;
    let planned = session.plan(&request, Ask::Installing(&tell), &tell)?;
    on_interrupt(&session.cancel, || {})?;
    let show = |doc: &ReportDoc, page: Option<&Path>| {
        let verified = Verified::of(doc, &spec, &chosen);
        if verify.json {
            return printer.json(&verified);
        }
        printer.out(&verified.page());
        if let Some(page) = page {
            printer.note(&format!("report: {}", page.display()));
        }
    };
    let (exit, _) = run::perform(&session, planned, (&request, &settings), &show, printer)?;
    Ok(exit)
}
