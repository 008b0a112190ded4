//! The short way through `orch run`: nothing changed, or only sources that commands read. And its other end: keeping
//! what a run found for the next one.

use std::path::PathBuf;
use std::time::Instant;

use crate::cli::args::{Args, RunArgs};
use crate::cli::cmd::run::{BUG, exit_of_doc, on_interrupt, options, show};
use crate::cli::console::Console;
use crate::cli::diary::Diary;
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::cli::project::{MOCKED, Project, Workplace, absolute, host_facts, inventory_cheap, own_browser, provision};
use crate::cli::sharing::Sharing;
use crate::device::Host;
use crate::exec::{Context, Finished};
use crate::settled::{Cone, ConeEnded, Custody, Here, Look, Place, Settled, Settling};
use crate::store::DiskStore;
use crate::toolchain::EnvName;
use crate::worker::Cancel;

/// How far the short way went.
pub(super) enum Short {
    /// To the end.
    Done(Exit),
    /// Not at all, or not to the end: these steps were executed on it.
    Not { executed: Vec<String> },
}

const NOT: Short = Short::Not { executed: Vec::new() };

/// Where the settlement of this command line stands. None where there can be none.
pub(super) fn place(args: &Args, run: &RunArgs) -> Option<Place> {
    let selection = &run.spec.selection;
    let lists = [
        ("model", &selection.models),
        ("target", &selection.targets),
        ("family", &selection.families),
        ("task", &selection.tasks),
        ("priority", &selection.priorities),
        ("tag", &selection.tags),
        ("case", &selection.cases),
    ];
    let paths = [
        ("spec", Some(&run.spec.spec)),
        ("out", Some(&run.out_dir)),
        ("cache", Some(&args.cache_dir)),
        ("env", args.env_dir.as_ref()),
        ("python", args.python.as_ref()),
    ];
    let lists = lists.into_iter().map(|(name, values)| (name, format!("{values:?}")));
    let others = [("fallback", run.spec.fallback.to_string()), ("mocked", format!("{:?}", std::env::var_os(MOCKED)))];
    let browser = own_browser().ok()?;
    let paths =
        paths.into_iter().chain([("browser", browser.as_ref())]).map(|(name, path)| (name, format!("{path:?}")));
    let command_line: Vec<_> = lists.chain(paths).chain(others).collect();
    let root = DiskStore::root_below(&absolute(&args.cache_dir).ok()?);
    Place::new(root, &command_line).ok()
}

/// Goes the short way as far as it leads.
pub(super) fn short(place: &Place, args: &Args, run: &RunArgs, printer: &Printer) -> anyhow::Result<Short> {
    let clock = Instant::now();
    let Some(settled) = place.open() else { return Ok(NOT) };
    let host = Host::real();
    let facts = host_facts(&host);
    let (mut inventory, mut pythons) = (Vec::new(), Vec::new());
    if settled.has_cases() {
        let provision = provision(args, Cancel::default())?;
        inventory = inventory_cheap(&provision);
        pythons = interpreters(&provision);
    }
    let here = Here { host: &facts, inventory: &inventory, pythons: &pythons };
    match settled.look(place, here) {
        None => Ok(NOT),
        Some(Look::Unchanged(settled)) => Ok(Short::Done(unchanged(*settled, clock, run, printer))),
        Some(Look::Changed(cone, plan)) => {
            let project =
                Project { plan: *plan, name: run.spec.spec.display().to_string(), files: Vec::new(), probes: false };
            changed(*cone, place, &project, clock, args, run, printer)
        }
    }
}

fn unchanged(settled: Settled, clock: Instant, run: &RunArgs, printer: &Printer) -> Exit {
    let has_report = settled.has_report();
    let mut doc = settled.into_doc();
    doc.summary.seconds = clock.elapsed().as_secs_f64();
    show(&doc, has_report, run, printer);
    exit_of_doc(&doc)
}

fn changed(
    cone: Cone,
    place: &Place,
    project: &Project,
    clock: Instant,
    args: &Args,
    run: &RunArgs,
    printer: &Printer,
) -> anyhow::Result<Short> {
    let workplace = Workplace::open(args)?;
    let options = options(args, run, &workplace);
    let console = Console::new();
    let diary = Diary::new(clock, &console, &workplace, &options, None);
    on_interrupt(&workplace.cancel, || {})?;
    let sharing = Sharing::open(run.no_remote, &workplace.store, &diary)?;
    let context = Context { remote: sharing.remote(), ..workplace.context(project, &options, &diary) };
    let ended = cone.run(place, &context);
    let shared = sharing.finish(&workplace.cancel, |left| console.uploads(left));
    console.close();
    diary.finish(&project.plan, ended.as_ref().ok().map(|ended| (ended.interrupted, ended.doc.summary.hits)))?;
    let ended = ended?;
    let ConeEnded { mut doc, has_report, interrupted, failed, met_bug, lost, executed } = ended;
    printer.told(shared);
    if lost {
        return Ok(Short::Not { executed });
    }
    doc.summary.seconds = clock.elapsed().as_secs_f64();
    show(&doc, has_report, run, printer);
    if met_bug {
        printer.note(BUG);
    }
    Ok(Short::Done(match (interrupted, met_bug, failed) {
        (true, ..) => Exit::Interrupted,
        (_, true, _) => Exit::Bug,
        (.., true) => Exit::Failed,
        _ => exit_of_doc(&doc),
    }))
}

fn interpreters(provision: &crate::provision::Provision) -> Vec<Option<PathBuf>> {
    EnvName::ALL.iter().map(|name| provision.env(*name).ok().map(|env| env.python)).collect()
}

/// Keeps what the run found, if the same run would find nothing to do.
pub(super) fn settle(
    place: &Place,
    workplace: &Workplace,
    project: &Project,
    args: &Args,
    context: &Context<'_>,
    (finished, out, before): (Finished, &[PathBuf], Custody),
    printer: &Printer,
) {
    let has_cases = !project.plan.cases.is_empty();
    // The packages of a Python of the user's, or a browser, may be exchanged at any time, and nothing that is looked at would show it.
    if has_cases && (args.python.is_some() || !matches!(own_browser(), Ok(None))) {
        return;
    }
    let pythons = if has_cases { interpreters(&workplace.provision) } else { Vec::new() };
    let settled = place.settle(Settling {
        context,
        finished,
        specs: &project.files,
        here: Here { host: &workplace.host, inventory: workplace.inventory_for(has_cases), pythons: &pythons },
        out,
        before,
    });
    if let Err(e) = settled {
        printer.note(&format!("warning: what this run found was not kept, so the next one looks at all of it: {e}"));
    }
}
