//! `orch run` where nothing changed: what the last run left behind is printed. And its other end: keeping what a run found for
//! the next one.

use std::path::PathBuf;
use std::time::Instant;

use crate::cli::args::{Args, RunArgs};
use crate::cli::cmd::run::{exit_of_summary, show, show_text};
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::cli::project::{MOCKED, Project, Workplace, absolute, host_facts, inventory_cheap, own_browser, provision};
use crate::device::Host;
use crate::exec::{Context, Finished};
use crate::memo::{Custody, Ended, Here, MemoPath};
use crate::store::DiskStore;
use crate::toolchain::EnvName;
use crate::worker::Cancel;

/// Where the memo of this command line stands. None where there can be none.
pub(super) fn path(args: &Args, run: &RunArgs) -> Option<MemoPath> {
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
    MemoPath::new(root, &command_line).ok()
}

/// Prints what the last run found, if the same is there still.
pub(super) fn tell(path: &MemoPath, args: &Args, run: &RunArgs, printer: &Printer) -> anyhow::Result<Option<Exit>> {
    let clock = Instant::now();
    let Some(memo) = path.open() else { return Ok(None) };
    let facts = host_facts(&Host::real());
    let (mut inventory, mut pythons) = (Vec::new(), Vec::new());
    if memo.has_cases() {
        let provision = provision(args, Cancel::default())?;
        inventory = inventory_cheap(&provision);
        pythons = interpreters(&provision);
    }
    let here = Here { host: &facts, inventory: &inventory, pythons: &pythons };
    if !memo.holds(path, here) {
        return Ok(None);
    }
    let mut summary = memo.summary().clone();
    summary.seconds = clock.elapsed().as_secs_f64();
    if run.json {
        let Some(mut doc) = memo.doc(here) else { return Ok(None) };
        doc.summary.seconds = summary.seconds;
        show(&doc, memo.has_report(), run, printer);
    } else {
        let Some(text) = memo.text() else { return Ok(None) };
        show_text(&text, &summary, memo.has_report(), run, printer);
    }
    Ok(Some(exit_of_summary(&summary)))
}

fn interpreters(provision: &crate::provision::Provision) -> Vec<Option<PathBuf>> {
    EnvName::ALL.iter().map(|name| provision.env(*name).ok().map(|env| env.python)).collect()
}

/// Keeps what the run found, if the same run would find nothing to do.
pub(super) fn keep(
    path: &MemoPath,
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
    let kept = path.keep(Ended {
        context,
        finished,
        specs: &project.files,
        here: Here { host: &workplace.host, inventory: workplace.inventory_for(has_cases), pythons: &pythons },
        out,
        before,
    });
    if let Err(e) = kept {
        printer.note(&format!("warning: what this run found was not kept, so the next one looks at all of it: {e}"));
    }
}
