//! `orch zoo`: rows of models, made and tried by the installed transformers. `orch_py.zoo` does it.

use anyhow::Context as _;

use crate::cli::args::{Args, Place, ZooCommand};
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::session::Session;

pub(super) fn zoo(args: &Args, command: &ZooCommand, printer: &Printer) -> anyhow::Result<Exit> {
    let session = Session::open(&args.locations())?;
    let mut python = session.zoo_python(&|line| printer.note(line))?;
    let place = match command {
        ZooCommand::Add { types, task, place } => {
            python.arg("add").args(types).args(task.iter().flat_map(|task| ["--task", task]));
            place
        }
        ZooCommand::Refresh { place } => {
            python.arg("refresh");
            place
        }
        ZooCommand::Routes { report, place } => {
            python.arg("routes").arg(report);
            place
        }
    };
    let Place { into, jobs } = place;
    python.arg("--into").arg(into).args(jobs.iter().flat_map(|jobs| ["--jobs".to_owned(), jobs.to_string()]));
    // No row needs the network.
    python.env("HF_HUB_OFFLINE", "1");
    let status = python.status().context("failed to start Python")?;
    Ok(if status.success() { Exit::Success } else { Exit::Failed })
}
