//! Arguments of the commands that explain: explain, log, what-ran, graph, and what `run` records for them.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use super::SpecArgs;

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct ExplainArgs {
    /// The step, e.g. convert:bert:openvino-fp16 (a glob explains all that match)
    pub(in crate::cli) step: String,
    #[arg(long, default_value = "specs/all.yaml", value_name = "FILE")]
    pub(in crate::cli) spec: PathBuf,
    /// As `orch run --check` has the step: checked, and not timed
    #[arg(long)]
    pub(in crate::cli) check: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct LogArgs {
    /// The step, e.g. run:bert:cpu-fp32 (a glob shows all that match)
    pub(in crate::cli) step: String,
    /// The spec whose steps a glob is matched against
    #[arg(long, default_value = "specs/all.yaml", value_name = "FILE")]
    pub(in crate::cli) spec: PathBuf,
    /// As `orch run --check` has the step: checked, and not timed
    #[arg(long)]
    pub(in crate::cli) check: bool,
    /// List all recorded executions instead
    #[arg(long)]
    pub(in crate::cli) history: bool,
    /// Print the path of the log instead
    #[arg(long, conflicts_with_all = ["history", "json"])]
    pub(in crate::cli) path: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct WhatRanArgs {
    /// Which run: 1 is the last that executed anything, 2 the one before; or its id
    #[arg(long, value_name = "N", default_value = "1")]
    pub(in crate::cli) run: String,
    /// All runs since then, e.g. 2026-01-31 or 2026-01-31T08:00:00Z
    #[arg(long, value_name = "DATE", conflicts_with = "run")]
    pub(in crate::cli) since: Option<String>,
    /// Only list the runs
    #[arg(long, conflicts_with = "run")]
    pub(in crate::cli) runs: bool,
    /// Only steps that failed
    #[arg(long)]
    pub(in crate::cli) failed: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct GraphArgs {
    #[command(flatten)]
    pub(in crate::cli) spec: SpecArgs,
    #[arg(long, value_enum, default_value_t = GraphFormat::Dot)]
    pub(in crate::cli) format: GraphFormat,
    /// Only these steps, what they need, and what needs them
    #[arg(long = "step", value_name = "GLOB")]
    pub(in crate::cli) steps: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum GraphFormat {
    /// Graphviz: `orch graph | dot -Tsvg > graph.svg`
    Dot,
    /// Mermaid, which GitHub renders in Markdown
    Mermaid,
    Json,
}

/// What a run records about itself.
#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct TraceArgs {
    /// Write a Chrome trace of the run, to be opened in ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) trace: Option<PathBuf>,
}
