//! `orch run`

use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;

use crate::base::shell;
use crate::cli::args::{Args, RunArgs};
use crate::cli::cmd::watch;
use crate::cli::console::Console;
use crate::cli::diary::Diary;
use crate::cli::exit::Exit;
use crate::cli::handout;
use crate::cli::printer::{Printer, WARN};
use crate::cli::project::{Workplace, absolute};
use crate::cli::scope::{Asked, Scoped};
use crate::cli::sharing::Sharing;
use crate::exec::{self, Finished, How, Options};
use crate::record::Outcome;
use crate::report::{self, text::Styles};
use crate::worker::{self, Cancel};

pub(super) fn run(args: &Args, run: &RunArgs, printer: &Printer) -> anyhow::Result<Exit> {
    if run.watch {
        return watch::watch(args, run, printer);
    }
    let workplace = Workplace::open(args)?;
    let scoped = asked(run).load(&workplace, printer)?;
    on_interrupt(&workplace.cancel, || {})?;
    let (exit, _) = perform(args, run, printer, &workplace, scoped)?;
    Ok(exit)
}

pub(super) fn asked(run: &RunArgs) -> Asked<'_> {
    Asked { spec: &run.spec, scope: &run.scope, steps: &run.steps, rerun: &run.rerun }
}

/// Cancels on the first interrupt, and ends everything at once on the second.
pub(super) fn on_interrupt(cancel: &Cancel, also: impl Fn() + Send + 'static) -> anyhow::Result<()> {
    let cancel = cancel.clone();
    ctrlc::set_handler(move || {
        if cancel.is_cancelled() {
            // Asked twice: now.
            worker::kill_all();
            std::process::exit(Exit::Interrupted as i32);
        }
        cancel.cancel();
        also();
    })
    .context("failed to listen for interrupts")
}

/// Performs what was asked for, publishes it and prints it; gives the steps that were executed besides the exit code.
pub(super) fn perform(
    args: &Args,
    run: &RunArgs,
    printer: &Printer,
    workplace: &Workplace,
    scoped: Scoped,
) -> anyhow::Result<(Exit, Vec<String>)> {
    let Scoped { project, wanted, rerun, label, nothing } = scoped;
    let options = Options {
        jobs: run.jobs.unwrap_or(workplace.host.report.cores.max(1)),
        fail_fast: run.fail_fast,
        rerun,
        wanted,
        max_age: run.scope.max_age.clone(),
        scope: label,
        spec: project.name.clone(),
        flags: flags(args, run),
        out_dir: run.out_dir.clone(),
    };
    let start = Instant::now();
    let console = Console::new();
    let diary = Diary::new(start, &console, workplace, &options, run.trace.trace.as_deref());
    let sharing = Sharing::open(run.no_remote, &workplace.store, &diary)?;
    let context = workplace.context(&project, &options, &diary);
    let finished = exec::run(&exec::Context { remote: sharing.remote(), ..context });
    let shared = sharing.finish(&workplace.cancel, |left| console.uploads(left));
    console.close();
    let written = diary.finish(&project.plan, finished.as_ref().ok());
    let finished = finished?;
    let out_dir = absolute(&run.out_dir)?;
    handout::hand_out(&project.plan, &finished, &workplace.store, &out_dir)?;
    if run.json {
        printer.out(&report::json::render(&finished.doc));
    } else {
        printer.out(&report::text::render(&finished.doc, &Styles::colored()));
        if finished.report.is_some() {
            printer.note(&format!("report: {}", run.out_dir.join("report/index.html").display()));
        }
    }
    if let Some(told) = shared {
        let lead = if told.is_warning { format!("{WARN}warning{WARN:#} ") } else { String::new() };
        printer.note(&format!("{lead}{}", told.text));
    }
    if let Some(why) = &nothing {
        printer.note(why);
    }
    // The run is told first: what went wrong with a file about it must not hide it.
    written?;
    let plan = &project.plan;
    let executed = plan.ids().filter(|id| *id != plan.report && finished.results[id.0 as usize].how == How::Executed);
    let executed = executed.map(|id| plan.step(id).name.clone()).collect();
    Ok((exit_of(&finished, nothing.is_some()), executed))
}

/// Where things are kept and put, if not where they usually are. Words of a shell line, each after a space.
fn flags(args: &Args, run: &RunArgs) -> String {
    let unusual = |path: &'_ Path, usual: &str| (path != Path::new(usual)).then(|| path.to_owned());
    let given = [
        ("--cache-dir", unusual(&args.cache_dir, "cache")),
        ("--env-dir", args.env_dir.clone()),
        ("--python", args.python.clone()),
        ("--out-dir", unusual(&run.out_dir, "orch-out")),
    ];
    let words = given.into_iter().filter_map(|(name, path)| Some((name, path?)));
    words.map(|(name, path)| format!(" {name} {}", shell::word(&path.display().to_string()))).collect()
}

/// `nothing`: nothing was asked for, because nothing is in the part that was. That is no failure of anything.
fn exit_of(finished: &Finished, nothing: bool) -> Exit {
    let failed = finished.results.iter().any(|result| result.outcome.is_failure());
    let passed = finished.doc.summary.passed > 0;
    // Steps chosen by name, or commands, are something that ran although no case was asked for.
    let did_something =
        passed || (finished.doc.cases.is_empty() && finished.results.iter().any(|r| r.outcome == Outcome::Pass));
    if finished.interrupted {
        Exit::Interrupted
    } else if failed {
        Exit::Failed
    } else if did_something || nothing {
        Exit::Success
    } else {
        Exit::NothingRan
    }
}
