//! Arguments of `orch compare`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct CompareArgs {
    /// What it is compared with: the `matrix.json` of a run, or a run of the history: 1 for the last, 2 for the one before, its name, a
    /// day, a moment, or a git revision
    #[arg(value_name = "BASE")]
    pub(in crate::cli) base: PathBuf,
    /// What is compared, in the same ways [default: the last run's report below orch-out]
    #[arg(value_name = "HEAD", default_value = "orch-out/report/matrix.json", hide_default_value = true)]
    pub(in crate::cli) head: PathBuf,
    /// Exit with code 1 if a case broke or is no longer shown to be right, is less accurate or takes more memory, or is slower
    /// and that is confirmed
    #[arg(long)]
    pub(in crate::cli) gate: bool,
    /// Measure both again where times differ, five processes a side in turns; the base as this git revision has it
    #[arg(long, value_name = "REVISION")]
    pub(in crate::cli) confirm: Option<String>,
    #[arg(long, value_enum, default_value_t = CompareFormat::Text)]
    pub(in crate::cli) format: CompareFormat,
    /// Shorthand for --format json
    #[arg(long, conflicts_with = "format")]
    pub(in crate::cli) json: bool,
    /// Write it to this file
    #[arg(long, short, value_name = "FILE")]
    pub(in crate::cli) output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum CompareFormat {
    Text,
    Json,
    /// For a comment on a pull request
    Markdown,
}
