//! `orch worker <runtime>`: the child side of a job; `orch worker kept:<runtime>` takes one job after another, `orch worker
//! order` performs a step that another machine ordered. `orch worker-properties`: what that machine should know of this one.

use std::process::ExitCode;

use crate::catalogue::RUNTIMES;
use crate::cli::{Args, Exit, Printer};
use crate::device;
use crate::runtime::JobOutput;
use crate::runtime::serve::{serve_kept, serve_one};
use crate::session::{self, usage};
use crate::step;

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

pub(super) fn worker(args: &Args, name: &str, printer: &Printer) -> anyhow::Result<Exit> {
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
