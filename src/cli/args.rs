//! The arguments. The only home of clap.

mod bench;
mod cache;
mod compare;
mod complete;
mod explained;
mod history;
mod matrix;
mod run;
mod selection;
mod site;
mod spec;
mod states;
mod profile;
mod verify;
mod zoo;

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::error::{ContextKind, ContextValue};
use clap::{Args as ClapArgs, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::base::suggest;
use crate::cli::printer::Verbosity;
use crate::report;
use crate::session::Locations;
use crate::store::DiskStore;
use crate::toolchain::EnvName;
pub(super) use bench::BenchArgs;
pub(super) use cache::{CacheCommand, ExportArgs, GcArgs};
pub(super) use compare::{CompareArgs, CompareFormat};
pub(super) use complete::{Shell, answer};
pub(super) use explained::{ExplainArgs, GraphArgs, GraphFormat, LogArgs, NameArgs, TraceArgs, WhatRanArgs};
pub(super) use history::{HistoryArgs, HistoryCommand, QueryArgs, QueryFormat};
pub(super) use matrix::MatrixArgs;
pub(super) use profile::ProfileArgs;
pub(super) use run::RunArgs;
pub(super) use selection::SelectionArgs;
pub(super) use site::SiteArgs;
pub(super) use spec::{ScopeArgs, SpecArgs};
pub(super) use states::{AcceptArgs, RetryArgs};
pub(super) use verify::VerifyArgs;
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
    /// A folder of locks used instead of orch's own (`torch.txt`, …); `orch setup torch --torch-index` writes one
    #[arg(long, global = true, env = "ORCH_LOCKS", value_name = "DIR", hide_short_help = true)]
    pub(super) locks: Option<PathBuf>,
    /// Print every step, even instant ones; twice: also when each begins, and why
    #[arg(long, short, global = true, env = "ORCH_VERBOSE", action = clap::ArgAction::Count, hide_short_help = true)]
    verbose: u8,
    /// Print only failures and the result
    #[arg(long, short, global = true, hide_short_help = true)]
    quiet: bool,
    /// When to use colour
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, hide_short_help = true)]
    pub(super) color: Color,
}

/// The command that was meant, where clap, which compares letters at their places, finds none: `rnu` for `run`.
pub(super) fn hint(error: &clap::Error) -> Option<String> {
    let is_told = error.get(ContextKind::SuggestedSubcommand).is_some();
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand).filter(|_| !is_told) else {
        return None;
    };
    let command = Args::command();
    let name = suggest::nearest(given, command.get_subcommands().map(clap::Command::get_name))?;
    Some(format!("did you mean `orch {name}`?"))
}

impl Args {
    pub(super) fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, 0) => Verbosity::Usual,
            (false, 1) => Verbosity::Verbose,
            (false, _) => Verbosity::Everything,
        }
    }

    pub(super) fn locations(&self) -> Locations {
        let Self { cache_dir, env_dir, python, locks, .. } = self;
        Locations {
            cache_dir: cache_dir.clone(),
            env_dir: env_dir.clone(),
            python: python.clone(),
            locks: locks.clone(),
        }
    }

    pub(super) fn store(&self) -> anyhow::Result<DiskStore> {
        self.locations().store()
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
    /// Measure again: every timed case in 5 rounds, interleaved in random order, each in its own process
    Bench(BenchArgs),
    /// Run one model of each pipeline on each target of this machine, whatever ran before
    Verify(VerifyArgs),
    /// Show what a run would do, and why
    Plan(PlanArgs),
    /// Show why a step or case ran, would run or is up to date: what changed, traced to its root, and its key
    Explain(ExplainArgs),
    /// Show what a step printed when it was last executed; for a case: its run, and the steps before it that failed
    Log(LogArgs),
    /// Show where a case spends its time: operators, by the runtime's own counters
    Profile(ProfileArgs),
    /// List what a run executed, why, and the command that repeats each step
    WhatRan(WhatRanArgs),
    /// Draw the steps and their inputs
    Graph(GraphArgs),
    /// List the hardware and runtimes of this machine
    Devices(DevicesArgs),
    /// List what is missing on this machine, and the command that fixes it
    Doctor(DoctorArgs),
    /// Show what is known of model families on backends: what is asserted, what is present here, what runs measured
    Matrix(MatrixArgs),
    /// Print a report of what the store already holds; runs nothing
    Report(ReportArgs),
    /// Show what differs between two reports: what broke, got slower, less accurate or larger
    Compare(CompareArgs),
    /// Show the report in a browser of this machine, live while a run goes on
    Serve(ServeArgs),
    /// Write reports as a static site: a page for each model, target and pair, search, what changed, badges
    Site(SiteArgs),
    /// List the runs, or the executions of a case over time
    History(HistoryArgs),
    /// Query the history in SQL
    Query(QueryArgs),
    /// Print what a worker on this machine should advertise to a remote execution server
    WorkerProperties(JsonArgs),
    /// Update the spec's expected failures from the last results
    Accept(AcceptArgs),
    /// List, print or copy the output of a step (or of a case's run) as the spec defines it now
    Output(OutputArgs),
    /// Inspect, clean and move the store
    #[command(subcommand)]
    Cache(CacheCommand),
    /// Install environments ahead of a run
    Setup(SetupArgs),
    /// Make and refresh the rows of `specs/models` (for those who maintain them)
    #[command(subcommand)]
    Zoo(ZooCommand),
    /// Print the JSON Schema of specs, or of a command's output
    Schema {
        /// Which documents the schema describes
        #[arg(long, value_enum, default_value_t = SchemaOf::Specs)]
        of: SchemaOf,
    },
    /// Write a first spec into a folder, with a model of your own if you name one
    Init(InitArgs),
    /// Add a model of your own to a spec
    Add(AddArgs),
    /// Print a completion script for a shell; it completes commands, options, and the names in this folder's spec
    Completions { shell: Shell },
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
    /// List every step, including those that are up to date and those that run only because a listed one does
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
    #[command(flatten)]
    pub(super) of: NameArgs,
    /// Print this file of its output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["to", "json"])]
    pub(super) cat: Option<String>,
    /// Copy its output into this folder
    #[arg(long, value_name = "DIR")]
    pub(super) to: Option<PathBuf>,
    /// Also replace files in that folder whose content the store does not hold
    #[arg(long, requires = "to")]
    pub(super) force: bool,
    /// Use the untimed step of `orch run --check`
    #[arg(long)]
    pub(super) check: bool,
    /// Use the output of the last execution, whatever the spec says now
    #[arg(long)]
    pub(super) latest: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    pub(super) spec: SpecArgs,
    /// Port on 127.0.0.1; 0 picks a free one
    #[arg(long, default_value_t = 8750)]
    pub(super) port: u16,
}

#[derive(Debug, ClapArgs)]
pub(super) struct ReportArgs {
    #[command(flatten)]
    pub(super) spec: SpecArgs,
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub(super) format: ReportFormat,
    /// Merge these `matrix.json` files, from shards or several machines, into one report
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(super) merge: Vec<PathBuf>,
    /// Print only this section (repeatable; Markdown only)
    #[arg(long, value_name = "SECTION", value_parser = PossibleValuesParser::new(report::sections()))]
    pub(super) section: Vec<String>,
    /// Leave out the commands that repeat a case, and the ends of logs: they name paths of this machine, which a published report should not
    #[arg(long)]
    pub(super) no_repro: bool,
    /// Exit with 0 instead of 3 if nothing ran
    #[arg(long)]
    pub(super) allow_none: bool,
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
    /// An SVG for a README: how many of the cases that could run passed
    Badge,
}

#[derive(Debug, ClapArgs)]
pub(super) struct DoctorArgs {
    /// The spec whose packages must fit on the disk, if it exists
    #[arg(default_value = "specs/all.yaml")]
    pub(super) spec: PathBuf,
    /// Print one JSON document on stdout
    #[arg(long)]
    pub(super) json: bool,
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

#[derive(Debug, ClapArgs)]
pub(super) struct SetupArgs {
    #[arg(value_name = "WHAT", help = format!("What to install: {} [default: what the spec needs]", Self::names().join(", ")))]
    pub(super) what: Vec<String>,
    #[arg(long, default_value = "specs/all.yaml", value_name = "FILE")]
    pub(super) spec: PathBuf,
    /// Also copy the torch worker into this folder, where an orch beside it will find it (for packagers)
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub(super) ship: Option<PathBuf>,
    /// Lock and install PyTorch as this index builds it, e.g. without CUDA; the lock is written to the folder of --locks
    #[arg(long, value_name = "URL", requires = "what")]
    pub(super) torch_index: Option<String>,
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
    /// A folder in `save_pretrained` layout, an id of the Hugging Face Hub, or an ONNX file
    #[arg(long, value_name = "FOLDER|ID|FILE.onnx")]
    pub(super) model: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct AddArgs {
    /// A folder in `save_pretrained` layout, an id of the Hugging Face Hub, or an ONNX file
    #[arg(value_name = "FOLDER|ID|FILE.onnx")]
    pub(super) model: String,
    /// The spec that gets the row
    #[arg(default_value = "specs/all.yaml")]
    pub(super) spec: PathBuf,
    /// The row's name [default: that of the folder or file]
    #[arg(long)]
    pub(super) name: Option<String>,
}
