//! `orch worker daemon`: a service that keeps Python servers ready.
//!
//! `orch worker <runtime>`: the child side of a job; `orch worker kept:<runtime>` takes one job after another, `orch worker
//! order` performs a step that another machine ordered. `orch worker-properties`: what that machine should know of this one.

use std::process::ExitCode;

use crate::base::size::Size;
use crate::catalogue::RUNTIMES;
use crate::cli::cmd::run::on_interrupt;
use crate::cli::{Args, Exit, Printer};
use crate::device;
use crate::exec::MaxAge;
use crate::runtime::JobOutput;
use crate::runtime::serve::{serve_kept, serve_one};
use crate::session::{self, Bounds, usage};
use crate::step;
use crate::worker::Cancel;

/// `orch worker-properties`
pub(super) fn properties(args: &Args, json: bool, printer: &Printer) -> anyhow::Result<Exit> {
    let properties = session::worker_properties(&args.locations())?;
    printer.answer(
        json,
        || &properties,
        || {
            let lines = properties
                .iter()
                .flat_map(|(name, values)| values.iter().map(move |value| (name, value)));
            lines
                .map(|(name, value)| format!("{name}={value}\n"))
                .collect()
        },
    );
    Ok(Exit::Success)
}

/// An order that lies in the current folder, as the child of a remote execution server's worker.
fn order(args: &Args, printer: &Printer) -> anyhow::Result<Exit> {
    let tell = |text: &str| printer.note(text);
    let is_kept = session::serve_order(&std::env::current_dir()?, &args.locations(), &tell)?;
    // Servers remember what ends well.
    Ok(if is_kept { Exit::Success } else { Exit::Failed })
}

#[derive(Debug, clap::Subcommand)]
pub(in crate::cli) enum WorkerCommand {
    /// Serve until interrupted: processes that have imported PyTorch and its like are forked for each step, in local runs
    /// and in remote actions of this user
    Daemon(DaemonArgs),
    /// The child side of a job, for orch itself.
    #[command(external_subcommand)]
    Job(Vec<String>),
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct DaemonArgs {
    /// Time after which a server that nobody used ends
    #[arg(long, value_name = "TIME", default_value = "15m")]
    idle: MaxAge,
    /// The most servers that live at a time; one is for an environment, with the variables that its libraries read
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    most: u32,
    /// Memory that all of them hold together, without what steps take; who was idle for longest ends first
    #[arg(long, value_name = "SIZE", default_value = "4G")]
    memory: Size,
}

/// `orch worker daemon`
fn daemon(daemon: &DaemonArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let cancel = Cancel::default();
    on_interrupt(&cancel, || {})?;
    let bounds = Bounds {
        idle: daemon.idle.length(),
        most: daemon.most as usize,
        memory: daemon.memory.0,
    };
    session::serve_steps(bounds, &cancel, &|text| printer.note(text))?;
    Ok(Exit::Success)
}

pub(super) fn worker(
    args: &Args,
    command: &WorkerCommand,
    printer: &Printer,
) -> anyhow::Result<Exit> {
    match command {
        WorkerCommand::Daemon(options) => daemon(options, printer),
        WorkerCommand::Job(words) => match words.as_slice() {
            [name] => job(args, name, printer),
            [name, help] if help == "--help" => {
                printer.out(&format!(
                    "`orch worker {name}` is the child side of a job, which orch starts itself\n"
                ));
                Ok(Exit::Success)
            }
            _ => usage!("a worker has one name, and this has: {}", words.join(" ")),
        },
    }
}

fn job(args: &Args, name: &str, printer: &Printer) -> anyhow::Result<Exit> {
    if name == "order" {
        return order(args, printer);
    }
    let known = || {
        RUNTIMES
            .iter()
            .filter_map(|runtime| Some((runtime.name, runtime.execute?)))
    };
    let code = if name == "probe" {
        serve_one(|job, _| {
            let backend = device::probe_here(&job.op, &job.params);
            JobOutput::ok(
                serde_json::to_value(backend).expect("BUG: a backend serialises"),
                None,
            )
        })
    } else if name == step::OWN {
        serve_one(step::execute)
    } else if let Some((_, execute)) = known().find(|(known, _)| *known == name) {
        serve_one(execute)
    } else if let Some((_, execute)) =
        known().find(|(known, _)| Some(*known) == name.strip_prefix("kept:"))
    {
        serve_kept(execute)
    } else {
        let hint = crate::base::suggest::hint(name, known().map(|(known, _)| known));
        usage!("no runtime is called `{name}`\n  hint: {hint}");
    };
    Ok(if code == ExitCode::SUCCESS {
        Exit::Success
    } else {
        Exit::Usage
    })
}
