//! Arguments of `orch verify`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::complete;
use crate::matrix::{Facet, Query, Selection};
use crate::session::{Request, Settings};

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct VerifyArgs {
    /// The spec
    #[arg(default_value = "specs/verify.yaml")]
    pub(in crate::cli) spec: PathBuf,
    /// Only these targets (globs, repeatable); the exact name of a target outside the matrix adds it
    #[arg(long = "target", short = 't', value_name = "GLOB", add = complete::targets())]
    pub(in crate::cli) targets: Vec<String>,
    /// How many steps may run at once [default: the number of cores]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// The folder for the report, the generated tests and copies of artefacts
    #[arg(long, default_value = "orch-out/verify", value_name = "DIR")]
    pub(in crate::cli) out_dir: PathBuf,
    /// Print one JSON document on stdout
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

impl VerifyArgs {
    /// A run of these models that executes every inference, whatever the store holds.
    pub(in crate::cli) fn request(&self, models: &[String]) -> Request {
        Request {
            selection: Selection { targets: self.targets.clone(), queries: vec![Query::any_of(Facet::Model, models)] },
            check: true,
            rerun: vec!["run".to_owned(), "failed".to_owned()],
            ..Request::all(&self.spec)
        }
    }

    pub(in crate::cli) fn settings(&self, command: String) -> Settings {
        Settings { jobs: self.jobs, out_dir: self.out_dir.clone(), command, ..Settings::default() }
    }
}
