//! `orch setup`: what a first run would install, ahead of it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::cli::args::SPEC;
use crate::cli::{Args, Exit, Printer};
use crate::provision::titled;
use crate::session::{Locations, Project, Request, Session, Settings, usage};
use crate::step::{Required, Requirement};
use crate::toolchain::EnvName;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SetupArgs {
    #[arg(value_name = "WHAT", help = format!("What to install: {} [default: what the spec needs]", Self::names().join(", ")))]
    what: Vec<String>,
    /// The spec
    #[arg(long, default_value = SPEC, value_name = "FILE")]
    spec: PathBuf,
    /// Also copy the torch worker into this folder, where an orch beside it will find it (for packagers)
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    ship: Option<PathBuf>,
    /// Lock and install PyTorch as this index builds it, e.g. without CUDA; the lock is written to the folder of --locks
    #[arg(long, value_name = "URL", requires = "what")]
    torch_index: Option<String>,
}

impl SetupArgs {
    /// All that can be installed by name.
    fn names() -> Vec<&'static str> {
        EnvName::ALL
            .into_iter()
            .map(EnvName::name)
            .chain([TORCH_WORKER])
            .collect()
    }
}

pub(super) const TORCH_WORKER: &str = "torch-worker";

pub(super) fn setup(args: &Args, setup: &SetupArgs, printer: &Printer) -> anyhow::Result<Exit> {
    if let Some(index) = &setup.torch_index {
        lock_torch(args, setup, index, printer)?;
    }
    let mut session = Session::open(&args.locations())?;
    let wanted = match setup.what.is_empty() {
        true => session.requirements(&Project::load(&Request::all(&setup.spec))?),
        false => named(&setup.what)?,
    };
    session.without_cuda(&wanted, &Settings::default(), &|line| printer.note(line))?;
    let missing = session.provision.missing(wanted.iter().cloned());
    if !missing.is_empty() {
        printer.note(&format!("to install: {}", missing.summary()));
    }
    install(&session, wanted, printer)?;
    if let Some(folder) = &setup.ship {
        session
            .provision
            .ensure(Requirement::TorchWorker, &|line| {
                printer.note(&format!("  {line}"))
            })?;
        printer.out(&format!(
            "{}\n",
            session.provision.ship_torch_worker(folder)?.display()
        ));
    }
    Ok(Exit::Success)
}

/// Installs one after another. What was installed is compiled beside the next.
fn install(session: &Session, wanted: BTreeSet<Required>, printer: &Printer) -> anyhow::Result<()> {
    std::thread::scope(|scope| {
        let mut compiling = Vec::new();
        for required in wanted {
            if install_one(session, &required, printer)? {
                let what = titled(&required);
                let compiled = scope.spawn(move || {
                    let provision = session.provision.with(required.toolchain.as_ref());
                    provision.compile(required.requirement)
                });
                compiling.push((what, compiled));
            }
        }
        for (what, compiled) in compiling {
            let compiled = compiled
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            if let Err(error) = compiled {
                printer.note(&format!("{what}: its modules are not compiled: {error:#}"));
            }
        }
        Ok(())
    })
}

/// Installs what is missing or damaged; false if it was there already.
fn install_one(session: &Session, required: &Required, printer: &Printer) -> anyhow::Result<bool> {
    let what = titled(required);
    let requirement = required.requirement;
    let provision = session.provision.with(required.toolchain.as_ref());
    match provision.damage(requirement) {
        Some(damage) => printer.note(&format!(
            "{what}: {damage}; it is not as it was installed: installing it again"
        )),
        None if provision.is_ready(requirement) => {
            printer.note(&format!("{what}: there already"));
            return Ok(false);
        }
        None => printer.note(&format!("{what}: installing")),
    }
    provision.repair(requirement, &|line| printer.note(&format!("  {line}")))?;
    printer.note(&format!("{what}: done"));
    Ok(true)
}

/// Writes the locks, from orch's own whatever lies in the folder.
fn lock_torch(
    args: &Args,
    setup: &SetupArgs,
    index: &str,
    printer: &Printer,
) -> anyhow::Result<()> {
    let Some(folder) = &args.locks else {
        usage!(
            "--torch-index has no folder to write the lock to\n  hint: name one with --locks or ORCH_LOCKS, and keep it \
             beside the specs: who runs them needs the same"
        );
    };
    let session = Session::open(&Locations {
        locks: None,
        ..args.locations()
    })?;
    for requirement in named(&setup.what)? {
        let Requirement::Env(name) = requirement.requirement else {
            continue;
        };
        session
            .provision
            .lock_with_torch(name, index, folder, &|line| {
                printer.note(&format!("  {line}"))
            })?;
        printer.note(&format!(
            "wrote {}",
            folder.join(format!("{name}.txt")).display()
        ));
    }
    Ok(())
}

fn named(names: &[String]) -> anyhow::Result<BTreeSet<Required>> {
    let find = |name: &String| match EnvName::ALL.into_iter().find(|env| env.name() == name) {
        Some(env) => Ok(Requirement::Env(env).into()),
        None if name == TORCH_WORKER => Ok(Requirement::TorchWorker.into()),
        None => {
            let hint = crate::base::suggest::hint(name, SetupArgs::names());
            usage!("nothing to install is called `{name}`\n  hint: {hint}")
        }
    };
    names.iter().map(find).collect()
}
