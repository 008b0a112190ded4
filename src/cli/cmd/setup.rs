//! `orch setup`: what a first run would install, ahead of it.

use std::collections::BTreeSet;

use crate::cli::args::{Args, SelectionArgs, SetupArgs, TORCH_WORKER};
use crate::cli::exit::{Exit, UsageError};
use crate::cli::printer::Printer;
use crate::cli::project::{Project, Workplace};
use crate::provision::title;
use crate::step::{Requirement, Stage};
use crate::toolchain::EnvName;

pub(super) fn setup(args: &Args, setup: &SetupArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let workplace = Workplace::open(args)?;
    let wanted = if setup.what.is_empty() { needed(setup, &workplace)? } else { named(&setup.what)? };
    for requirement in wanted {
        let what = title(requirement);
        if workplace.provision.is_ready(requirement) {
            printer.note(&format!("{what}: there already"));
            continue;
        }
        printer.note(&format!("{what}: installing"));
        workplace.provision.ensure(requirement, &|line| printer.note(&format!("  {line}")))?;
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
fn needed(setup: &SetupArgs, workplace: &Workplace) -> anyhow::Result<BTreeSet<Requirement>> {
    let project = Project::load(&setup.spec, &SelectionArgs::none())?;
    let plan = &project.plan;
    let is_here = |backend: &str| workplace.inventory().iter().any(|known| known.name == backend && known.available);
    let runs = plan.cases.iter().filter(|planned| {
        let step = plan.step(planned.run);
        step.stage == Stage::Run && is_here(step.run().backend.name)
    });
    let steps = runs.flat_map(|planned| &planned.chain).map(|id| plan.step(*id));
    Ok(steps.flat_map(|step| step.kind.requires(step)).collect())
}
