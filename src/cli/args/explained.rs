//! Arguments of the commands that explain: explain, log, what-ran, graph, and what `run` records for them.

use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, ValueEnum};

use super::{SpecArgs, complete};

/// The step or case in question, and its spec.
#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct NameArgs {
    /// A step, e.g. convert:bert:openvino-fp16, or a case: bert:cpu-fp32, 'bert on cpu-fp32', 'bert cpu'; a glob selects
    /// every match
    #[arg(value_name = "STEP|CASE", add = complete::cases_and_steps())]
    pub(in crate::cli) name: String,
    /// The spec
    #[arg(value_name = "SPEC", default_value = "specs/all.yaml")]
    place: PathBuf,
    /// The spec, as an option: copied-out tests and `orch.json` give it this way
    #[arg(long = "spec", value_name = "FILE", conflicts_with = "place", hide = true)]
    named: Option<PathBuf>,
}

impl NameArgs {
    pub(in crate::cli) fn spec(&self) -> &Path {
        self.named.as_deref().unwrap_or(&self.place)
    }
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct ExplainArgs {
    #[command(flatten)]
    pub(in crate::cli) of: NameArgs,
    /// Use the untimed step of `orch run --check`
    #[arg(long)]
    pub(in crate::cli) check: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct LogArgs {
    #[command(flatten)]
    pub(in crate::cli) of: NameArgs,
    /// Use the untimed step of `orch run --check`
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
    /// All runs since this time, e.g. 2026-01-31 or 2026-01-31T08:00:00Z
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
    /// Only these steps, what they need, and their dependents
    #[arg(long = "step", value_name = "GLOB", add = complete::steps())]
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
    /// Write a Chrome trace of the run, for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) trace: Option<PathBuf>,
}
