//! Arguments of `orch compare`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct CompareArgs {
    /// Base: the `matrix.json` of a run, or a run of the history (1 for the last, 2 for the one before, its name, a day, a time or
    /// a git revision)
    #[arg(value_name = "BASE")]
    pub(in crate::cli) base: PathBuf,
    /// Head, given like the base [default: the last run's report in orch-out]
    #[arg(value_name = "HEAD", default_value = "orch-out/report/matrix.json", hide_default_value = true)]
    pub(in crate::cli) head: PathBuf,
    /// Exit with 1 if a case broke, can no longer be proved right, is less accurate, takes more memory, or is confirmed to be
    /// slower
    #[arg(long)]
    pub(in crate::cli) gate: bool,
    /// Where times differ, measure both sides again in turns, 5 to 25 processes each; the base's files come from this git
    /// revision
    #[arg(long, value_name = "REVISION")]
    pub(in crate::cli) confirm: Option<String>,
    #[arg(long, value_enum, default_value_t = CompareFormat::Text)]
    pub(in crate::cli) format: CompareFormat,
    /// Shorthand for --format json
    #[arg(long, conflicts_with = "format")]
    pub(in crate::cli) json: bool,
    /// Write to this file instead of stdout
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
