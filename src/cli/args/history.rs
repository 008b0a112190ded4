//! Arguments of the commands that read what runs found over time.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Tables, units and examples: docs/history.md. The query can change nothing and reads no other file."
)]
pub(in crate::cli) struct QueryArgs {
    /// One query in DuckDB's SQL; - reads it from stdin
    #[arg(allow_hyphen_values = true)]
    pub(in crate::cli) sql: String,
    #[arg(long, value_enum, default_value_t = QueryFormat::Table)]
    pub(in crate::cli) format: QueryFormat,
    /// Shorthand for --format json
    #[arg(long)]
    pub(in crate::cli) json: bool,
    /// Write to this file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    pub(in crate::cli) output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum QueryFormat {
    Table,
    Json,
    Csv,
    Parquet,
}

#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub(in crate::cli) struct HistoryArgs {
    #[command(subcommand)]
    pub(in crate::cli) command: Option<HistoryCommand>,
    /// List the executions of this case (or of every case that matches a glob), e.g. bert:cpu-fp32 [default: list the runs]
    pub(in crate::cli) case: Option<String>,
    /// Show only the last N
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(in crate::cli) last: u32,
    /// Only executions on this machine
    #[arg(long, value_name = "NAME", requires = "case")]
    pub(in crate::cli) host: Option<String>,
    /// Print one JSON document on stdout
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum HistoryCommand {
    /// Rebuild the database from the runs' files
    Rebuild,
    /// Import runs of other machines: `matrix.json`, runs' files, or the folder of a history
    Import {
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Print where the database is
    Path,
}
