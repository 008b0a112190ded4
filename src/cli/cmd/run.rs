//! `orch run`

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;

use crate::base::fs as bfs;
use crate::cli::args::{Args, RunArgs};
use crate::cli::cmd::settled::{self, Short};
use crate::cli::console::Console;
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::cli::project::{Project, Workplace, absolute};
use crate::exec::{self, Finished, How, Options};
use crate::plan::Plan;
use crate::record::Outcome;
use crate::report::{self, ReportDoc, text::Styles};
use crate::settled::Custody;
use crate::step::{Source, StepId, TestContext};
use crate::worker::{self, Cancel};

pub(super) fn run(args: &Args, run: &RunArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let place = settled::place(args, run);
    let mut executed_before = Vec::new();
    if run.rerun.is_empty()
        && let Some(place) = &place
    {
        match settled::short(place, args, run, printer)? {
            Short::Done(exit) => return Ok(exit),
            Short::Not { executed } => executed_before = executed,
        }
    }
    let project = Project::load(&run.spec.spec, &run.spec.selection)?;
    let workplace = Workplace::open(args)?;
    let options = options(args, run, &project, &workplace)?;
    let console = Console::new();
    listen_for_interrupts(&workplace.cancel)?;
    let before = Custody::of(&workplace.store);
    let mut finished = exec::run(&workplace.context(&project, &options, &console))?;
    console.close();
    count_again(&project.plan, &mut finished, &executed_before);
    let out_dir = absolute(&run.out_dir)?;
    let out = publish(&project.plan, &finished, &workplace, &out_dir)?;
    show(&finished.doc, finished.report.is_some(), run, printer);
    let exit = exit_of(&finished);
    if let Some(place) = &place {
        settled::settle(place, &workplace, &project, run, args, (finished, &out, before), printer)?;
    }
    Ok(exit)
}

pub(super) fn options(args: &Args, run: &RunArgs, project: &Project, workplace: &Workplace) -> anyhow::Result<Options> {
    Ok(Options {
        jobs: run.jobs.unwrap_or(workplace.host.report.cores.max(1)),
        fail_fast: run.fail_fast,
        rerun: project.steps(&run.rerun)?,
        wanted: if run.steps.is_empty() { None } else { Some(project.steps(&run.steps)?) },
        spec: project.name.clone(),
        flags: flags(args),
        out_dir: run.out_dir.clone(),
    })
}

pub(super) fn listen_for_interrupts(cancel: &Cancel) -> anyhow::Result<()> {
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
    })
    .context("failed to listen for interrupts")
}

/// What a run prints at its end.
pub(super) fn show(doc: &ReportDoc, has_report: bool, run: &RunArgs, printer: &Printer) {
    if run.json {
        printer.out(&report::json::render(doc));
        return;
    }
    printer.out(&report::text::render(doc, &Styles::colored()));
    if has_report {
        printer.note(&format!("report: {}", run.out_dir.join("report/index.html").display()));
    }
}

/// Steps that were executed before the short way broke off are hits by now, and were executed all the same.
fn count_again(plan: &Plan, finished: &mut Finished, executed_before: &[String]) {
    for id in executed_before.iter().filter_map(|name| plan.find(name)) {
        let result = &mut finished.results[id.0 as usize];
        if result.how == How::Hit {
            result.how = How::Executed;
            finished.doc.summary.executed += 1;
            finished.doc.summary.hits -= 1;
        }
    }
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

/// The same for a run of which only the document is known: what was executed or hit in it passed.
pub(super) fn exit_of_doc(doc: &ReportDoc) -> Exit {
    let summary = &doc.summary;
    let did_something = summary.passed > 0 || (doc.cases.is_empty() && summary.executed + summary.hits > 0);
    if did_something { Exit::Success } else { Exit::NothingRan }
}

/// Puts what people look for where they look: pages, generated tests, and links to the artefacts that the tests load.
/// Gives the paths of all of it.
fn publish(plan: &Plan, finished: &Finished, workplace: &Workplace, out_dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let placed = RefCell::new(Vec::new());
    let store = &workplace.store;
    let output = |id: StepId| finished.results[id.0 as usize].output();
    let copy = |from: &Path, to: &Path| -> anyhow::Result<()> {
        let bytes = std::fs::read(from).with_context(|| format!("failed to read `{}`", from.display()))?;
        bfs::write_if_changed(to, &bytes).with_context(|| format!("failed to write `{}`", to.display()))?;
        placed.borrow_mut().push(to.to_owned());
        Ok(())
    };
    let copy_tree = |id: StepId, folder: &str| -> anyhow::Result<()> {
        let Some(digest) = output(id) else { return Ok(()) };
        let tree = store.tree_path(&digest);
        for name in bfs::files_below(&tree)? {
            copy(&tree.join(&name), &out_dir.join(folder).join(&name))?;
        }
        Ok(())
    };
    copy_tree(plan.report, "report")?;
    for planned in &plan.cases {
        copy_tree(planned.test, "tests")?;
        // The generated test says under which names it looks for what it loads.
        let test: TestContext = serde_json::from_value(plan.step(planned.test).params.clone())?;
        for (label, source) in &plan.step(planned.run).inputs {
            let Source::Step(from) = source else { continue };
            let Some(digest) = output(*from) else { continue };
            let name = match label.as_str() {
                "artefact" => format!("{}-{}", test.model, test.artefact_variant),
                "model" => test.model.clone(),
                _ => continue,
            };
            let link = out_dir.join("artefacts").join(name);
            bfs::link_to(&store.tree_path(&digest), &link)?;
            placed.borrow_mut().push(link);
        }
    }
    Ok(placed.into_inner())
}
