//! The arguments. The only home of clap.

mod explained;
mod run;
mod selection;
mod spec;
mod states;
mod zoo;

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use crate::base::Size;
use crate::exec::MaxAge;
use crate::report;
use crate::session::Locations;
use crate::toolchain::EnvName;
pub(super) use explained::{ExplainArgs, GraphArgs, GraphFormat, LogArgs, TraceArgs, WhatRanArgs};
pub(super) use run::RunArgs;
pub(super) use selection::SelectionArgs;
pub(super) use spec::{ScopeArgs, SpecArgs};
pub(super) use states::{AcceptArgs, RetryArgs};
pub(super) use zoo::{Place, ZooCommand};

/// A build system for model tests: which model works on which hardware, at which precision, how fast, and what broke.
#[derive(Debug, Parser)]
#[command(name = "orch", version, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 all that ran passed · 1 a case failed · 2 bad usage or spec · 3 nothing ran · \
    70 a bug in orch · 130 interrupted")]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Command,
    /// Where results, artefacts and environments are kept
    #[arg(long, global = true, env = "ORCH_CACHE_DIR", default_value = "cache", value_name = "DIR")]
    pub(super) cache_dir: PathBuf,
    /// Where Python environments and workers are installed [default: `envs` in the store]
    #[arg(long, global = true, env = "ORCH_ENV_DIR", value_name = "DIR", hide_short_help = true)]
    pub(super) env_dir: Option<PathBuf>,
    /// A Python interpreter that has all packages, used instead of orch's own environments
    #[arg(long, global = true, env = "ORCH_PYTHON", value_name = "PATH", hide_short_help = true)]
    pub(super) python: Option<PathBuf>,
    /// When to use colour
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, hide_short_help = true)]
    pub(super) color: Color,
}

impl Args {
    pub(super) fn locations(&self) -> Locations {
        let Self { cache_dir, env_dir, python, .. } = self;
        Locations { cache_dir: cache_dir.clone(), env_dir: env_dir.clone(), python: python.clone() }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Color {
    Auto,
    Always,
    Never,
}

impl Color {
    pub(super) fn apply(self) {
        match self {
            Self::Auto => {}
            Self::Always => anstream::ColorChoice::Always.write_global(),
            Self::Never => anstream::ColorChoice::Never.write_global(),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run what changed, and print the matrix
    Run(RunArgs),
    /// Show what a run would do, and why
    Plan(PlanArgs),
    /// Show why a step ran, would run or is up to date: what changed, traced to its root, and its key
    Explain(ExplainArgs),
    /// Show what a step printed when it was last executed
    Log(LogArgs),
    /// List what a run executed, why, and the command that repeats each step
    WhatRan(WhatRanArgs),
    /// Draw the steps and what they read
    Graph(GraphArgs),
    /// List the hardware and runtimes of this machine
    Devices(DevicesArgs),
    /// List what is missing on this machine, and the command that fixes it
    Doctor(JsonArgs),
    /// Print the report of what the store already holds; runs nothing
    Report(ReportArgs),
    /// Update the spec's expected failures from the last results
    Accept(AcceptArgs),
    /// List, print or copy what a step made, as the spec defines it now
    Output(OutputArgs),
    /// Inspect, clean and move the store
    #[command(subcommand)]
    Cache(CacheCommand),
    /// Install environments ahead of a run
    Setup(SetupArgs),
    /// Make and refresh the rows of `specs/models` (for those who maintain them)
    #[command(subcommand)]
    Zoo(ZooCommand),
    /// Print the JSON Schema of specs, or of what a command prints
    Schema {
        /// The documents that the schema describes
        #[arg(long, value_enum, default_value_t = SchemaOf::Specs)]
        of: SchemaOf,
    },
    /// Write a first spec into a folder
    Init(InitArgs),
    /// Print a completion script for a shell
    Completions { shell: clap_complete::Shell },
    /// Perform one job as a child process (internal)
    #[command(hide = true)]
    Worker { runtime: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum SchemaOf {
    Specs,
    /// `orch devices --json`
    Devices,
}

#[derive(Debug, ClapArgs)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    pub(super) spec: SpecArgs,
    #[command(flatten)]
    pub(super) scope: ScopeArgs,
    /// Output format; `dot` and `mermaid` draw the same picture as `orch graph`
    #[arg(long, value_enum, default_value_t = PlanFormat::Text)]
    pub(super) format: PlanFormat,
    /// Shorthand for --format json
    #[arg(long)]
    pub(super) json: bool,
    /// List every step, including those that are up to date and those that wait for a listed cause
    #[arg(long, short)]
    pub(super) all: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum PlanFormat {
    Text,
    Json,
    Dot,
    Mermaid,
}

#[derive(Debug, ClapArgs)]
pub(super) struct OutputArgs {
    /// The step, e.g. convert:bert:onnx
    pub(super) step: String,
    /// Print this file of its output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["to", "json"])]
    pub(super) cat: Option<String>,
    /// Copy its output into this folder
    #[arg(long, value_name = "DIR")]
    pub(super) to: Option<PathBuf>,
    /// Also replace files in that folder whose content the store does not hold
    #[arg(long, requires = "to")]
    pub(super) force: bool,
    /// The spec that defines the step
    #[arg(long, default_value = "specs/all.yaml", value_name = "FILE")]
    pub(super) spec: PathBuf,
    /// As `orch run --check` has the step: checked, and not timed
    #[arg(long)]
    pub(super) check: bool,
    /// Use what the last execution made, whatever the spec says now
    #[arg(long, conflicts_with = "spec")]
    pub(super) latest: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct ReportArgs {
    #[command(flatten)]
    pub(super) spec: SpecArgs,
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub(super) format: ReportFormat,
    /// Only this section (may repeat); of Markdown
    #[arg(long, value_name = "SECTION", value_parser = PossibleValuesParser::new(report::sections()))]
    pub(super) section: Vec<String>,
    /// Write to this file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ReportFormat {
    Text,
    Json,
    Markdown,
    Html,
    Junit,
}

#[derive(Debug, ClapArgs)]
pub(super) struct JsonArgs {
    /// Print one JSON document on stdout
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct DevicesArgs {
    /// Also test half precision on the devices whose runtime is installed; earlier answers are always shown
    #[arg(long)]
    pub(super) half: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum CacheCommand {
    /// Show what the store holds
    Stats {
        /// Measure the environments too
        #[arg(long)]
        envs: bool,
        /// Print one JSON document on stdout
        #[arg(long)]
        json: bool,
    },
    /// Read the whole store and report what is damaged
    Verify {
        /// Remove damaged entries, so that their steps run again
        #[arg(long)]
        heal: bool,
        /// Print one JSON document on stdout
        #[arg(long)]
        json: bool,
    },
    /// Remove results by age or size, and whatever nothing needs any more
    Gc(GcArgs),
    /// Write what a spec needs from the store into one file
    Export(ExportArgs),
    /// Read what `export` wrote into the store
    Import {
        /// The file; - for stdin
        file: PathBuf,
        /// Print one JSON document on stdout
        #[arg(long)]
        json: bool,
    },
    /// Print where the store is
    Path,
    /// Show whether the remote store is reachable, what it permits, and what is still to be sent
    Remote {
        /// Print one JSON document on stdout
        #[arg(long)]
        json: bool,
    },
    /// Send the results that are not on the remote store yet
    Push {
        /// Also send results from before the remote was configured
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Every given limit holds afterwards. A result was last used when its step was executed, or when a result made \
    from it was. A run that finds everything up to date writes nothing, so it does not count as a use: name the specs \
    that you run with --keep. It is safe to run this while other orch processes run."
)]
pub(super) struct GcArgs {
    /// Remove the least recently used results until no more than this is left, e.g. 500M, 10G (powers of 1024; GB: 1000)
    #[arg(long, value_name = "SIZE")]
    pub(super) max_size: Option<Size>,
    /// Remove results that were not used for this long, e.g. 12h, 30d, 2w
    #[arg(long, value_name = "AGE")]
    pub(super) max_age: Option<MaxAge>,
    /// Keep only the newest N results of each step
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) keep_last: Option<u32>,
    /// Keep what a run of this spec would reuse, whatever the limits (repeatable)
    #[arg(long, value_name = "SPEC")]
    pub(super) keep: Vec<PathBuf>,
    /// Also remove environments and workers of other versions of orch
    #[arg(long)]
    pub(super) envs: bool,
    /// Remove nothing; show what would be removed
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct ExportArgs {
    /// The file to write; - for stdout
    pub(super) file: PathBuf,
    #[command(flatten)]
    pub(super) spec: SpecArgs,
    /// Export everything that the store holds, whatever the spec
    #[arg(long, conflicts_with_all = ["spec", "SelectionArgs"])]
    pub(super) all: bool,
    /// Write nothing if the store lacks a step of the spec
    #[arg(long, conflicts_with = "all")]
    pub(super) require_complete: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct SetupArgs {
    #[arg(value_name = "WHAT", help = format!("What to install: {} [default: what the spec needs]", Self::names().join(", ")))]
    pub(super) what: Vec<String>,
    #[arg(long, default_value = "specs/all.yaml", value_name = "FILE")]
    pub(super) spec: PathBuf,
}

impl SetupArgs {
    /// All that can be installed by name.
    pub(super) fn names() -> Vec<&'static str> {
        EnvName::ALL.into_iter().map(EnvName::name).chain([TORCH_WORKER]).collect()
    }
}

pub(super) const TORCH_WORKER: &str = "torch-worker";

#[derive(Debug, ClapArgs)]
pub(super) struct InitArgs {
    /// The folder; it must not have a spec yet
    #[arg(default_value = "specs")]
    pub(super) dir: PathBuf,
}
