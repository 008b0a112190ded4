//! One command a file.

mod accept;
mod bench;
mod bisect;
mod blame;
mod cache;
mod capabilities;
mod compare;
mod devices;
mod explain;
mod history;
mod init;
mod log;
mod matrix;
#[cfg(feature = "mcp")]
mod mcp;
mod output;
mod plan;
mod profile;
mod query;
mod remote;
mod report;
mod run;
mod serve;
mod setup;
mod site;
mod submit;
mod toolchain;
mod verify;
mod watch;
mod worker;
mod zoo;

pub(super) use run::is_interrupted;

use std::path::PathBuf;

use crate::cli::args::{SPEC, Shell, script};
use crate::cli::{Args, Exit, Printer};
use crate::event::{Event, Listener};
use crate::exec::{Options, Preview};
use crate::session::{Project, Session, usage};
use crate::step::StepId;

#[derive(Debug, clap::Subcommand)]
pub(in crate::cli) enum Command {
    /// Run what changed, and print the matrix
    Run(run::RunArgs),
    /// Measure again: every timed case in 5 rounds, interleaved in random order, each in its own process
    Bench(bench::BenchArgs),
    /// Run one model of each pipeline on each target of the matrix, whatever ran before
    Verify(verify::VerifyArgs),
    /// Show what a run would do, and why
    Plan(plan::PlanArgs),
    /// Show why a step or case ran, would run or is up to date: what changed, traced to its root, and its key
    Explain(explain::ExplainArgs),
    /// Show what a step printed when it was last executed; for a case: its run, and the steps before it that failed
    Log(log::LogArgs),
    /// Show where a case spends its time: operators, by the runtime's own counters
    Profile(profile::ProfileArgs),
    /// Find out what makes a case wrong: the exported file, or which nodes in which optimiser of the runtime
    Blame(blame::BlameArgs),
    /// Find the release of the runtime since which a case is wrong
    Bisect(bisect::BisectArgs),
    /// List the hardware and runtimes of this machine
    Devices(devices::DevicesArgs),
    /// List what is missing on this machine, and the command that fixes it
    Doctor(devices::DoctorArgs),
    /// Print the last run's matrix again
    Matrix(matrix::MatrixArgs),
    /// Show which model families run on which hardware: what was measured, and what others assert
    Capabilities(capabilities::CapabilitiesArgs),
    /// Print a report of what the store already holds; runs nothing
    Report(report::ReportArgs),
    /// Show what differs between two reports: what broke, got slower, less accurate or larger
    Compare(compare::CompareArgs),
    /// Show the report in a browser of this machine, live while a run goes on
    Serve(serve::ServeArgs),
    /// Write reports as a static site: a page for each model, target and pair, search, what changed, badges
    Site(site::SiteArgs),
    /// Write the last run's results, with all that they rest on, as a file for somebody else's site
    Submit(submit::SubmitArgs),
    /// List the runs, what one of them executed and why, or the executions of a case over time
    History(history::HistoryArgs),
    /// Query the history in SQL
    Query(query::QueryArgs),
    /// Print what a worker on this machine should advertise to a remote execution server
    #[command(hide = true)]
    WorkerProperties {
        /// Print one JSON document on stdout
        #[arg(long)]
        json: bool,
    },
    /// Update the spec's expected failures from the last results
    Accept(accept::AcceptArgs),
    /// List, print or copy the output of a step (or of a case's run) as the spec defines it now
    Output(output::OutputArgs),
    /// Inspect, clean and move the store
    #[command(subcommand)]
    Cache(cache::CacheCommand),
    /// Install environments ahead of a run
    Setup(setup::SetupArgs),
    /// Make and list toolchains: other versions of runtimes, each a column of the matrix
    #[command(subcommand)]
    Toolchain(toolchain::ToolchainCommand),
    /// Make and refresh the rows of `specs/models` (for those who maintain them)
    #[command(subcommand, hide = true)]
    Zoo(zoo::ZooCommand),
    /// Answer an assistant's questions by the Model Context Protocol; changes nothing
    Mcp(McpArgs),
    /// Print the JSON Schema of specs, or of a command's output
    Schema {
        /// Documents that the schema describes
        #[arg(long, value_enum, default_value_t = SchemaOf::Specs)]
        of: SchemaOf,
    },
    /// Write a first spec into a folder, with a model of your own if you name one
    Init(init::InitArgs),
    /// Add a model of your own to a spec
    Add(init::AddArgs),
    /// Print a completion script for a shell; it completes commands, options, and the names in this folder's spec
    Completions {
        /// The shell that reads the script
        shell: Shell,
    },
    /// Now a part of `orch history`
    #[command(hide = true)]
    WhatRan(Former),
    /// Now a part of `orch plan`
    #[command(hide = true)]
    Graph(Former),
    /// Keep Python servers ready for other orch processes on this machine
    #[command(subcommand)]
    Worker(worker::WorkerCommand),
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct McpArgs {
    /// The spec
    #[arg(default_value = SPEC, value_name = "SPEC")]
    spec: PathBuf,
}

#[cfg(feature = "mcp")]
fn serve_assistant(args: &Args, mcp: &McpArgs) -> anyhow::Result<Exit> {
    mcp::mcp(args, &mcp.spec)
}

#[cfg(not(feature = "mcp"))]
fn serve_assistant(_: &Args, mcp: &McpArgs) -> anyhow::Result<Exit> {
    let _ = &mcp.spec;
    usage!(
        "this orch was built without the Model Context Protocol\n  hint: cargo build --features mcp"
    )
}

/// A command that became a part of another one, with whatever arguments it had.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Former {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<std::ffi::OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum SchemaOf {
    Specs,
    /// `orch devices --json`
    Devices,
    /// `orch run --json`, `orch matrix --json` and `matrix.json`
    Run,
    /// `orch compare --json`
    Compare,
    /// The file that `orch submit` writes
    Contribution,
}

pub(super) fn dispatch(args: &Args, printer: &Printer) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Run(run) => run::run(args, run, printer),
        Command::WhatRan(_) => usage!(
            "`orch what-ran` is now a part of `orch history`\n  hint: `orch history 1` lists what the last run executed, \
             `orch history` the runs"
        ),
        Command::Graph(_) => usage!(
            "`orch graph` is now a part of `orch plan`\n  hint: `orch plan --format dot`, or `--format mermaid`; \
             `orch plan --json` has each step's inputs as `after`"
        ),
        Command::Bench(bench) => bench::bench(args, bench, printer),
        Command::Verify(verify) => verify::verify(args, verify, printer),
        Command::Plan(plan) => plan::plan(args, plan, printer),
        Command::Explain(explain) => explain::explain(args, explain, printer),
        Command::Log(log) => log::log(args, log, printer),
        Command::Devices(devices) => devices::devices(args, devices, printer),
        Command::Doctor(doctor) => devices::doctor(args, doctor, printer),
        Command::Matrix(matrix) => matrix::matrix(args, matrix, printer),
        Command::Capabilities(capabilities) => {
            capabilities::capabilities(args, capabilities, printer)
        }
        Command::Report(report) => report::report(args, report, printer),
        Command::Compare(compare) => compare::compare(args, compare, printer),
        Command::Serve(serve) => serve::serve(args, serve, printer),
        Command::Site(site) => site::site(args, site, printer),
        Command::Submit(submit) => submit::submit(args, submit, printer),
        Command::History(history) => history::history(args, history, printer),
        Command::Query(query) => query::query(args, query, printer),
        Command::Accept(accept) => accept::accept(args, accept, printer),
        Command::Output(output) => output::output(args, output, printer),
        Command::Cache(cache) => cache::cache(args, cache, printer),
        Command::Setup(setup) => setup::setup(args, setup, printer),
        Command::Zoo(command) => zoo::zoo(args, command, printer),
        Command::Mcp(mcp) => serve_assistant(args, mcp),
        Command::Schema { of } => {
            printer.data(&match of {
                SchemaOf::Specs => crate::spec::schema::text(),
                SchemaOf::Devices => crate::device::Inventory::schema(),
                SchemaOf::Run => crate::report::json::schema(),
                SchemaOf::Compare => crate::report::json::comparison_schema(),
                SchemaOf::Contribution => crate::report::contribution::contribution_schema(),
            });
            Ok(Exit::Success)
        }
        Command::Blame(blame) => blame::blame(args, blame, printer),
        Command::Toolchain(command) => toolchain::toolchain(args, command, printer),
        Command::Bisect(bisect) => bisect::bisect(args, bisect, printer),
        Command::Profile(profile) => profile::profile(args, profile, printer),
        Command::Init(init) => init::init(args, init, printer),
        Command::Add(add) => init::add(args, add, printer),
        Command::Completions { shell } => {
            printer.data(&script(*shell));
            Ok(Exit::Success)
        }
        Command::WorkerProperties { json } => worker::properties(args, *json, printer),
        Command::Worker(worker) => worker::worker(args, worker, printer),
    }
}

/// Hears warnings and nothing else: for commands that execute nothing.
fn warnings(printer: &Printer) -> impl Listener {
    |event| {
        if let Event::Warning { text } = event {
            printer.note(&format!("warning: {text}"));
        }
    }
}

/// What a run would find of each step, or of one that alone is requested.
fn previews(
    session: &Session,
    project: &Project,
    of: Option<StepId>,
    printer: &Printer,
) -> anyhow::Result<Vec<Preview>> {
    let options = Options {
        wanted: of.map(|id| [id].into()),
        ..project.idle_options()
    };
    session.preview(project, &options, &warnings(printer))
}
