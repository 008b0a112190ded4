//! `orch setup`: what a first run would install, ahead of it.

use std::collections::BTreeSet;

use crate::cli::args::{Args, SetupArgs, TORCH_WORKER};
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::provision::title;
use crate::session::{Locations, Project, Request, Session, UsageError};
use crate::step::Requirement;
use crate::toolchain::EnvName;

pub(super) fn setup(args: &Args, setup: &SetupArgs, printer: &Printer) -> anyhow::Result<Exit> {
    if let Some(index) = &setup.torch_index {
        lock_torch(args, setup, index, printer)?;
    }
    let session = Session::open(&args.locations())?;
    let wanted = match setup.what.is_empty() {
        true => session.requirements(&Project::load(&Request::all(&setup.spec))?),
        false => named(&setup.what)?,
    };
    let missing = session.provision.missing(wanted.iter().copied());
    if !missing.is_empty() {
        printer.note(&format!("to install: {}", missing.summary()));
    }
    for requirement in wanted {
        let what = title(requirement);
        if session.provision.is_ready(requirement) {
            printer.note(&format!("{what}: there already"));
            continue;
        }
        printer.note(&format!("{what}: installing"));
        session.provision.ensure(requirement, &|line| printer.note(&format!("  {line}")))?;
        printer.note(&format!("{what}: done"));
    }
    if let Some(folder) = &setup.ship {
        session.provision.ensure(Requirement::TorchWorker, &|line| printer.note(&format!("  {line}")))?;
        printer.out(&format!("{}\n", session.provision.ship_torch_worker(folder)?.display()));
    }
    Ok(Exit::Success)
}

/// Writes the locks, from orch's own whatever lies in the folder.
fn lock_torch(args: &Args, setup: &SetupArgs, index: &str, printer: &Printer) -> anyhow::Result<()> {
    let Some(folder) = &args.locks else {
        let hint =
            "hint: name one with --locks or ORCH_LOCKS, and keep it beside the specs: who runs them needs the same";
        return Err(UsageError(format!("--torch-index has no folder to write the lock to\n  {hint}")).into());
    };
    let session = Session::open(&Locations { locks: None, ..args.locations() })?;
    for requirement in named(&setup.what)? {
        let Requirement::Env(name) = requirement else { continue };
        session.provision.lock_with_torch(name, index, folder, &|line| printer.note(&format!("  {line}")))?;
        printer.note(&format!("wrote {}", folder.join(format!("{name}.txt")).display()));
    }
    Ok(())
}

fn named(names: &[String]) -> anyhow::Result<BTreeSet<Requirement>> {
    let find = |name: &String| match EnvName::ALL.into_iter().find(|env| env.name() == name) {
        Some(env) => Ok(Requirement::Env(env)),
        None if name == TORCH_WORKER => Ok(Requirement::TorchWorker),
        None => {
            let hint = crate::base::suggest::hint(name, SetupArgs::names());
            Err(UsageError(format!("nothing to install is called `{name}`\n  hint: {hint}")).into())
        }
    };
    names.iter().map(find).collect()
}
