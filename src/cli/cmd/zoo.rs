//! `orch zoo`: rows of models, made and tried by the installed transformers. `orch_py.zoo` does it.

use std::path::PathBuf;

use anyhow::Context as _;

use crate::cli::{Args, Exit, Printer};
use crate::session::Session;

#[derive(Debug, clap::Subcommand)]
pub(in crate::cli) enum ZooCommand {
    /// Write a small row for each model type of the locked transformers, and keep those whose wrong outputs would be caught
    Add {
        /// Model types, e.g. `bert`, or `missing` for all that have no row yet
        #[arg(required = true, value_name = "TYPE")]
        types: Vec<String>,
        /// Only for this task (repeatable) [default: every task that the type has a class for]
        #[arg(long, value_name = "TASK")]
        task: Vec<String>,
        #[command(flatten)]
        place: Place,
    },
    /// Try every row again with the locked transformers, and write what changed
    Refresh {
        #[command(flatten)]
        place: Place,
    },
    /// Make each row start with the ONNX exporter that worked in a run, so that the next run does not try the others first
    Routes {
        /// The run's matrix.json
        #[arg(value_name = "FILE")]
        report: PathBuf,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Place {
    /// The folder of the rows, one file for each family
    #[arg(long, value_name = "DIR", default_value = "specs/models")]
    into: PathBuf,
    /// How many rows to try at once [default: the number of cores]
    #[arg(long, value_name = "N")]
    jobs: Option<u32>,
}

pub(super) fn zoo(args: &Args, command: &ZooCommand, printer: &Printer) -> anyhow::Result<Exit> {
    let mut session = Session::open(&args.locations())?;
    let mut python = session.zoo_python(&|line| printer.note(line))?;
    let place = match command {
        ZooCommand::Add { types, task, place } => {
            python
                .arg("add")
                .args(types)
                .args(task.iter().flat_map(|task| ["--task", task]));
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
    python.arg("--into").arg(into).args(
        jobs.iter()
            .flat_map(|jobs| ["--jobs".to_owned(), jobs.to_string()]),
    );
    // No row needs the network.
    python.env("HF_HUB_OFFLINE", "1");
    let status = python.status().context("failed to start Python")?;
    Ok(if status.success() {
        Exit::Success
    } else {
        Exit::Usage
    })
}
