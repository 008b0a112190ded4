//! `orch setup`: what a first run would install, ahead of it.

use std::collections::BTreeSet;

use crate::cli::args::{Args, SetupArgs, TORCH_WORKER};
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::provision::title;
use crate::session::{Project, Request, Session, UsageError};
use crate::step::{Requirement, Stage};
use crate::toolchain::EnvName;

pub(super) fn setup(args: &Args, setup: &SetupArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let session = Session::open(&args.locations())?;
    let wanted = if setup.what.is_empty() { needed(setup, &session)? } else { named(&setup.what)? };
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
    Ok(Exit::Success)
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

/// What the steps of a spec require on this host.
fn needed(setup: &SetupArgs, session: &Session) -> anyhow::Result<BTreeSet<Requirement>> {
    let project = Project::load(&Request::all(&setup.spec))?;
    let plan = &project.plan;
    let is_here = |backend: &str| session.inventory().iter().any(|known| known.name == backend && known.available);
    let runs = plan.cases.iter().filter(|planned| {
        let step = plan.step(planned.run);
        step.stage == Stage::Run && is_here(step.run().backend.name)
    });
    let steps = runs.flat_map(|planned| &planned.chain).map(|id| plan.step(*id));
    Ok(steps.flat_map(|step| step.kind.requires(step)).collect())
}
