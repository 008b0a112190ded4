//! `orch verify`: one model of each pipeline on each target of the matrix, by a run like any other.

mod shown;

use std::path::{Path, PathBuf};

use crate::cli::args::{count, targets};
use crate::cli::cmd::run::{self, command_line, on_interrupt};
use crate::cli::{Args, Exit, Printer};
use crate::matrix::{Facet, Matrix, Query, Representative, Selection};
use crate::report::ReportDoc;
use crate::session::{self, Ask, Request, Session, Settings, usage};
use shown::Verified;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct VerifyArgs {
    /// The spec
    #[arg(default_value = "specs/verify.yaml")]
    spec: PathBuf,
    /// Only these targets (globs, several with commas or by repeating the option); the exact name of a target outside the
    /// matrix adds it
    #[arg(long = "target", short = 't', value_name = "GLOB", value_delimiter = ',', add = targets())]
    targets: Vec<String>,
    /// How many steps may run at once [default: the number of cores]
    #[arg(long, short, value_name = "N", value_parser = count::<u32>)]
    jobs: Option<u32>,
    /// The folder for the report, the generated tests and copies of artefacts
    #[arg(long, default_value = "orch-out/verify", value_name = "DIR")]
    out_dir: PathBuf,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

pub(super) fn verify(args: &Args, verify: &VerifyArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let spec = session::spec(&verify.spec)?;
    let matrix = Matrix::with(&spec, &verify.targets);
    let chosen = matrix.representatives(&spec);
    let models: Vec<_> = chosen
        .iter()
        .filter_map(|Representative { model, .. }| model.map(str::to_owned))
        .collect();
    if models.is_empty() {
        let spec = verify.spec.display();
        usage!(
            "{spec} has no model of any pipeline\n  hint: give it a model, or name another spec"
        );
    }
    // Executes every inference of these models, whatever the store holds.
    let request = Request {
        selection: Selection {
            targets: verify.targets.clone(),
            queries: vec![Query::any_of(Facet::Model, &models)],
        },
        check: true,
        rerun: vec!["run".to_owned(), "failed".to_owned()],
        ..Request::all(&verify.spec)
    };
    let VerifyArgs { jobs, out_dir, .. } = verify;
    let settings = Settings {
        jobs: *jobs,
        out_dir: out_dir.clone(),
        command: command_line(),
        ..Settings::default()
    };
    session::can_be_written(&settings, &args.locations())?;
    let not_selected = matrix.not_selected(&spec, &models);
    let tell = |text: &str| printer.note(text);
    let mut session = Session::open(&args.locations())?;
    session.without_cuda_for(&request, &settings, &tell)?;
    let planned = session.plan(&request, Ask::Installing(&tell), &tell)?;
    on_interrupt(&session.cancel, || {})?;
    let show = |doc: &ReportDoc, page: Option<&Path>| {
        let verified = Verified {
            doc,
            spec: &spec,
            chosen: &chosen,
            not_selected: &not_selected,
        };
        printer.answer(verify.json, || verified.document(), || verified.page());
        if let Some(page) = page.filter(|_| !verify.json) {
            printer.note(&format!("report: {}", page.display()));
        }
    };
    let (exit, _) = run::perform(&session, planned, (&request, &settings), &show, printer)?;
    Ok(exit)
}
