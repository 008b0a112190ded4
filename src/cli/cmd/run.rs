//! `orch run`

use std::path::Path;

use anyhow::Context as _;

use crate::cli::args::{Args, RunArgs};
use crate::cli::console::Console;
use crate::cli::exit::Exit;
use crate::cli::handout;
use crate::cli::printer::Printer;
use crate::cli::project::{Project, Workplace, absolute};
use crate::event::{Event, Listener};
use crate::exec::{self, Finished, Options};
use crate::record::Outcome;
use crate::report::{self, text::Styles};
use crate::worker;

pub(super) fn run(args: &Args, run: &RunArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let project = Project::load(&run.spec.spec, &run.spec.selection)?;
    let workplace = Workplace::open(args)?;
    let options = Options {
        jobs: run.jobs.unwrap_or(workplace.host.report.cores.max(1)),
        fail_fast: run.fail_fast,
        rerun: project.steps(&run.rerun)?,
        wanted: if run.steps.is_empty() { None } else { Some(project.steps(&run.steps)?) },
        spec: project.name.clone(),
        flags: flags(args),
        out_dir: run.out_dir.clone(),
    };
    let cancel = workplace.cancel.clone();
    let console = Console::new();
    ctrlc::set_handler(move || {
        if cancel.is_cancelled() {
            // Asked twice: now.
            worker::kill_all();
            std::process::exit(Exit::Interrupted as i32);
        }
        cancel.cancel();
    })
    .context("failed to listen for interrupts")?;
    let mut finished = exec::run(&workplace.context(&project, &options, &console))?;
    let out_dir = absolute(&run.out_dir)?;
    let handed_out = handout::hand_out(&project.plan, &finished, &workplace.store, &out_dir);
    if let Err(e) = handed_out {
        if !handout::is_lost(&e) || finished.interrupted {
            return Err(e);
        }
        console.tell(Event::Warning { text: format!("{e:#}; what was lost is made again") });
        let again = Options { rerun: Default::default(), ..options };
        finished = exec::run(&workplace.context(&project, &again, &console))?;
        handout::hand_out(&project.plan, &finished, &workplace.store, &out_dir)?;
    }
    console.close();
    if run.json {
        printer.out(&report::json::render(&finished.doc));
    } else {
        printer.out(&report::text::render(&finished.doc, &Styles::colored()));
        if finished.report.is_some() {
            printer.note(&format!("report: {}", run.out_dir.join("report/index.html").display()));
        }
    }
    Ok(exit_of(&finished))
}

/// Where things are kept, if not where they usually are.
fn flags(args: &Args) -> String {
    let mut flags = String::new();
    if args.cache_dir != Path::new("cache") {
        flags.push_str(&format!(" --cache-dir {}", args.cache_dir.display()));
    }
    if let Some(dir) = &args.env_dir {
        flags.push_str(&format!(" --env-dir {}", dir.display()));
    }
    flags
}

fn exit_of(finished: &Finished) -> Exit {
    let failed = finished.results.iter().any(|result| result.outcome.is_failure());
    let passed = finished.doc.summary.passed > 0;
    // Steps chosen by name, or commands, are something that ran although no case was asked for.
    let did_something =
        passed || (finished.doc.cases.is_empty() && finished.results.iter().any(|r| r.outcome == Outcome::Pass));
    if finished.interrupted {
        Exit::Interrupted
    } else if failed {
        Exit::Failed
    } else if did_something {
        Exit::Success
    } else {
        Exit::NothingRan
    }
}
