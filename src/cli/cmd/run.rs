//! `orch run`

use std::path::Path;

use anyhow::Context as _;

use crate::base::fs as bfs;
use crate::cli::args::{Args, RunArgs};
use crate::cli::console::Console;
use crate::cli::exit::Exit;
use crate::cli::printer::Printer;
use crate::cli::project::{Project, Workplace, absolute};
use crate::exec::{self, Finished, Options};
use crate::plan::Plan;
use crate::record::Outcome;
use crate::report::{self, text::Styles};
use crate::step::{Source, StepId, TestContext};
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
    let finished = exec::run(&workplace.context(&project, &options, &console))?;
    console.close();
    let out_dir = absolute(&run.out_dir)?;
    publish(&project.plan, &finished, &workplace, &out_dir)?;
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

/// Puts what people look for where they look: pages, generated tests, and links to the artefacts that the tests load.
fn publish(plan: &Plan, finished: &Finished, workplace: &Workplace, out_dir: &Path) -> anyhow::Result<()> {
    let store = &workplace.store;
    let output = |id: StepId| finished.results[id.0 as usize].output();
    let copy = |from: &Path, to: &Path| -> anyhow::Result<()> {
        let bytes = std::fs::read(from).with_context(|| format!("failed to read `{}`", from.display()))?;
        bfs::write_if_changed(to, &bytes).with_context(|| format!("failed to write `{}`", to.display()))?;
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
        let test: TestContext = plan.step(planned.test).params.parse()?;
        for (label, source) in &plan.step(planned.run).inputs {
            let Source::Step(from) = source else { continue };
            let Some(digest) = output(*from) else { continue };
            let name = match &**label {
                "artefact" => format!("{}-{}", test.model, test.artefact_variant),
                "model" => test.model.clone(),
                _ => continue,
            };
            bfs::link_to(&store.tree_path(&digest), &out_dir.join("artefacts").join(name))?;
        }
    }
    Ok(())
}
