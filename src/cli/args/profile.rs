//! The arguments of `orch profile`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use crate::session::{Request, Settings};

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct ProfileArgs {
    /// The case, such as `bert:cpu-fp32`, or a glob that matches exactly one
    #[arg(value_name = "CASE")]
    pub(in crate::cli) case: String,
    #[arg(default_value = "specs/all.yaml")]
    pub(in crate::cli) spec: PathBuf,
    /// How many inferences to profile
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(in crate::cli) samples: u32,
    /// How many operators to list; `--json` lists all
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub(in crate::cli) top: usize,
    /// Print one JSON document on stdout
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

impl ProfileArgs {
    pub(in crate::cli) fn request(&self) -> Request {
        Request::all(&self.spec)
    }

    pub(in crate::cli) fn settings(&self, command: String) -> Settings {
        Settings { command, ..Settings::default() }
    }
}
