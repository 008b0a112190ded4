//! `orch run`: what the last run left behind if nothing changed, else plan, perform, hand out, print.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::Context as _;

use crate::base::shell;
use crate::cli::args::{Args, RunArgs, SpecArgs};
use crate::cli::cmd::{memo, watch};
use crate::cli::console::Console;
use crate::cli::diary::Diary;
use crate::cli::exit::Exit;
use crate::cli::handout::{self, Handed, Place};
use crate::cli::printer::Printer;
use crate::cli::project::Workplace;
use crate::cli::resume;
use crate::cli::scope::{Asked, Scoped};
use crate::cli::sharing::{self, Sharing};
use crate::device::{Host, free_memory};
use crate::event::{Event, Listener};
use crate::exec::{self, Context, Finished, How, Options};
use crate::memo::Custody;
use crate::report::{self, ReportDoc, Summary, text::Styles};
use crate::worker::{self, Cancel};

pub(super) fn run(args: &Args, run: &RunArgs, printer: &Printer) -> anyhow::Result<Exit> {
    if run.watch {
        return watch::watch(args, run, printer);
    }
    if run.is_plain()
        && !sharing::owes(args, run.no_remote)
        && let Some(path) = memo::path(args, run)
        && let Some(exit) = memo::tell(&path, args, run, printer)?
    {
        return Ok(exit);
    }
    let workplace = Workplace::open(args)?;
    let mut scoped = asked(run).load(&workplace, printer)?;
    if run.resume {
        resume::resume(&workplace, &mut scoped, printer)?;
    }
    on_interrupt(&workplace.cancel, || {})?;
    let (exit, _) = perform(args, run, printer, &workplace, scoped)?;
    Ok(exit)
}

pub(super) fn asked(run: &RunArgs) -> Asked<'_> {
    Asked { spec: &run.spec, scope: &run.scope, steps: &run.steps, rerun: &run.rerun, installs: true }
}

/// Cancels on the first interrupt, and ends everything at once on the second.
pub(super) fn on_interrupt(cancel: &Cancel, also: impl Fn() + Send + 'static) -> anyhow::Result<()> {
    static TOLD: Mutex<Option<Cancel>> = Mutex::new(None);
    let told = || TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    // The handler stays for as long as the process lives; whoever listens last is told.
    if told().replace(cancel.clone()).is_some() {
        return Ok(());
    }
    ctrlc::set_handler(move || {
        let Some(cancel) = told().clone() else { return };
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

/// The options of a run of everything.
pub(super) fn options(args: &Args, run: &RunArgs, workplace: &Workplace) -> Options {
    Options {
        jobs: run.jobs.unwrap_or(workplace.host.report.cores.max(1)),
        memory: run.memory.map(|size| size.0).or_else(|| free_memory(&Host::real())).unwrap_or(u64::MAX),
        job_memory: run.job_memory.map(|size| size.0),
        keep_going: run.keep_going(),
        retries: run.retry.retries,
        backoff: run.retry.backoff(),
        mocked: workplace.mocked.clone(),
        rerun: Default::default(),
        rerun_failed: false,
        stands: Default::default(),
        wanted: None,
        max_age: None,
        scope: None,
        spec: run.spec.spec.display().to_string(),
        flags: flags(args, &run.spec, &run.out_dir, run.job_memory.map(|size| size.0)),
        out_dir: run.out_dir.clone(),
    }
}

/// Performs what was asked for, publishes it and prints it; gives the steps that were executed besides the exit code.
pub(super) fn perform(
    args: &Args,
    run: &RunArgs,
    printer: &Printer,
    workplace: &Workplace,
    scoped: Scoped,
) -> anyhow::Result<(Exit, Vec<String>)> {
    let Scoped { project, wanted, rerun, rerun_failed, stands, label, nothing } = scoped;
    let max_age = run.scope.max_age.clone();
    let options =
        Options { rerun, rerun_failed, stands, wanted, max_age, scope: label, ..options(args, run, workplace) };
    let console = Console::new();
    let diary = Diary::new(Instant::now(), &console, workplace, &options, run.trace.trace.as_deref());
    let before = Custody::of(&workplace.store);
    let sharing = Sharing::open(run.no_remote, &workplace.store, &diary)?;
    let context = Context { remote: sharing.remote(), ..workplace.context(&project, &options, &diary) };
    let ended = execute(&context, &diary, args);
    let shared = sharing.finish(&workplace.cancel, |left| console.uploads(left));
    console.close();
    let hits = |finished: &Finished| finished.results.iter().filter(|result| result.how == How::Hit).count() as u32;
    let counted = ended.as_ref().ok().map(|(finished, _)| (finished.interrupted, hits(finished)));
    let written = diary.finish(&project.plan, counted);
    let (finished, handed) = ended?;
    let plan = &project.plan;
    show(&finished.doc, finished.report.is_some(), run, printer);
    printer.told(shared);
    for text in &handed.told {
        printer.note(text);
    }
    if finished.met_bug {
        printer.note(BUG);
    }
    if finished.interrupted {
        printer.note("the same command line with --resume goes on where this run ended");
    }
    if let Some(why) = &nothing {
        printer.note(why);
    }
    // The run is told first: what went wrong with a file about it must not hide it.
    written?;
    let executed = plan.ids().filter(|id| *id != plan.report && finished.results[id.0 as usize].how == How::Executed);
    let executed = executed.map(|id| plan.step(id).name.clone()).collect();
    let exit = exit_of(&finished, nothing.is_some());
    // What a device computes in is asked each time: a driver may change it, which no memo looks at.
    if run.is_whole()
        && !project.probes
        && !handed.in_the_way
        && !workplace.store.is_read_only()
        && let Some(path) = memo::path(args, run)
    {
        memo::keep(&path, workplace, &project, args, &context, (finished, &handed.placed, before), printer);
    }
    Ok((exit, executed))
}

/// What is said where a bug of orch's own did not end everything.
const BUG: &str = "a bug in orch ended what says `BUG:`; please report it with the log that was named there";

/// Performs the plan and hands out what it made; once more, if that was lost in between. Gives what was handed out.
fn execute(context: &Context<'_>, diary: &Diary<'_>, args: &Args) -> anyhow::Result<(Finished, Handed)> {
    let place = Place::new(args, context.options)?;
    let hand_out = |finished: &Finished| handout::hand_out(context.plan, finished, context.store, &place);
    let finished = exec::run(context)?;
    match hand_out(&finished) {
        Ok(handed) => Ok((finished, handed)),
        Err(e) if handout::is_lost(&e) && !finished.interrupted => {
            diary.tell(Event::Warning { text: format!("{e:#}; what was lost is made again") });
            let again = Options { rerun: Default::default(), rerun_failed: false, ..context.options.clone() };
            let finished = exec::run(&Context { options: &again, ..*context })?;
            let handed = hand_out(&finished)?;
            Ok((finished, handed))
        }
        Err(e) => Err(e),
    }
}

/// What a run prints at its end.
pub(super) fn show(doc: &ReportDoc, has_report: bool, run: &RunArgs, printer: &Printer) {
    if run.json {
        printer.data(&report::json::render(doc));
        return;
    }
    show_text(&report::text::body(doc, &Styles::colored()), &doc.summary, has_report, run, printer);
}

/// The same for people; `body` is all but the last line.
pub(super) fn show_text(body: &str, summary: &Summary, has_report: bool, run: &RunArgs, printer: &Printer) {
    let last = report::text::summary_line(summary, &Styles::colored());
    printer.out(&format!("{body}{last}\n"));
    if has_report {
        printer.note(&format!("report: {}", run.out_dir.join("report/index.html").display()));
    }
}

/// Where things are kept and put, if not where they usually are. Words of a shell line, each after a space.
pub(super) fn flags(args: &Args, spec: &SpecArgs, out_dir: &Path, job_memory: Option<u64>) -> String {
    let mut flags = kept_in(args);
    flags.extend((out_dir != Path::new("orch-out")).then(|| flag("--out-dir", out_dir)));
    if spec.fallback {
        flags.push_str(" --fallback");
    }
    if let Some(size) = job_memory {
        flags.push_str(&format!(" --job-memory {size}"));
    }
    flags
}

/// The same of what every command takes.
pub(in crate::cli) fn kept_in(args: &Args) -> String {
    let cache_dir = (args.cache_dir != Path::new("cache")).then_some(&args.cache_dir);
    let given = [("--cache-dir", cache_dir), ("--env-dir", args.env_dir.as_ref()), ("--python", args.python.as_ref())];
    given.into_iter().filter_map(|(name, path)| Some(flag(name, path?))).collect()
}

fn flag(name: &str, path: &Path) -> String {
    format!(" {name} {}", shell::word(&path.display().to_string()))
}

/// `nothing`: nothing was asked for, because nothing is in the part that was. That is no failure of anything.
fn exit_of(finished: &Finished, nothing: bool) -> Exit {
    let passed = finished.doc.summary.is_well();
    // Steps chosen by name, or commands, are something that ran although no case was asked for.
    let did_something =
        passed || (finished.doc.cases.is_empty() && finished.results.iter().any(|r| r.outcome.is_made()));
    if finished.interrupted {
        Exit::Interrupted
    } else if finished.met_bug {
        Exit::Bug
    } else if finished.failed {
        Exit::Failed
    } else if did_something || nothing {
        Exit::Success
    } else {
        Exit::NothingRan
    }
}

/// The exit code of a run of which only the counts are known: what was executed or hit in it passed.
pub(super) fn exit_of_summary(summary: &Summary) -> Exit {
    let did_something = summary.is_well() || (summary.cases == 0 && summary.executed + summary.hits > 0);
    match (summary.failed + summary.failed_steps, did_something) {
        // An unexpected success is one too.
        (1.., _) => Exit::Failed,
        (0, true) => Exit::Success,
        (0, false) => Exit::NothingRan,
    }
}
