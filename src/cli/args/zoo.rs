//! Arguments of `orch zoo`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

#[derive(Debug, Subcommand)]
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

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Place {
    /// The folder of the rows, one file for each family
    #[arg(long, value_name = "DIR", default_value = "specs/models")]
    pub(in crate::cli) into: PathBuf,
    /// How many rows to try at once [default: the number of cores]
    #[arg(long, value_name = "N")]
    pub(in crate::cli) jobs: Option<u32>,
}
