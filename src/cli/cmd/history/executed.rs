//! What one run executed, and why: from its journal, or, once that is gone, from what it left in the history.

use std::fmt::Write;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::base::figures::counted;
use crate::base::text::shown as printable;
use crate::cli::printer::{BAD, BOLD, DIM, GOOD, Printer, WARN};
use crate::exec::reproducer;
use crate::history::{self, RunFile};
use crate::journal::{self, ExecutedStep, Head, Run};
use crate::record::Outcome;
use crate::report::format::seconds;
use crate::session::usage;

/// Prints the run that `which` names: its name or the beginning of it, or 1 for the last, 2 for the one before.
pub(super) fn print(
    dir: &std::path::Path,
    which: &str,
    failed: bool,
    as_json: bool,
    printer: &Printer,
) -> anyhow::Result<()> {
    let names = history::names(dir);
    let found = match which.parse::<usize>() {
        Ok(number) => number.checked_sub(1).and_then(|at| names.get(at)),
        Err(_) => names.iter().find(|name| name.starts_with(which)),
    };
    let Some(name) = found else {
        usage!("no run is called `{which}`\n  hint: `orch history` lists the runs");
    };
    let run = match journal::read(&journal::path(dir, name))? {
        Some(run) => run,
        None => of_file(history::run_file(dir, name)?),
    };
    printer.answer(
        as_json,
        || document(name, &run, failed),
        || {
            let mut text = String::new();
            heading(&mut text, name, &run);
            list(&mut text, &run, failed);
            text.trim_end().to_owned()
        },
    );
    Ok(())
}

/// A run without a journal: one that executed nothing, was imported, or is older than the journals that are kept. Why its
/// steps ran is not known.
fn of_file(file: RunFile) -> Run {
    let RunFile {
        about, doc, steps, ..
    } = file;
    let began = about.started.parse::<Timestamp>();
    let host = doc.map(|doc| doc.host.name).unwrap_or_default();
    let since = |moment: &str| {
        let (Ok(began), Ok(moment)) = (&began, moment.parse::<Timestamp>()) else {
            return 0.0;
        };
        moment.duration_since(*began).as_secs_f64()
    };
    let ran = |step: history::Executed| ExecutedStep {
        outcome: Outcome::named(&step.state).unwrap_or_default(),
        at: since(&step.started),
        seconds: step.seconds,
        key: Some(step.key),
        step: step.step,
        ..ExecutedStep::default()
    };
    Run {
        head: Head {
            started: about.started.clone(),
            command: about.command.unwrap_or_default(),
            host,
            ..Head::default()
        },
        steps: steps.into_iter().map(ran).collect(),
        setups: Vec::new(),
        cut_off: Vec::new(),
        end: None,
        goes_on: false,
        unreadable: 0,
    }
}

/// How far a run came, in a word.
pub(super) fn state(run: &Run) -> &'static str {
    match &run.end {
        Some(end) if end.interrupted => "interrupted",
        Some(_) => "ended",
        None if run.goes_on => "goes on",
        None => "killed",
    }
}

fn heading(text: &mut String, id: &str, run: &Run) {
    let head = &run.head;
    let _ = writeln!(text, "{BOLD}{}{BOLD:#}  {}", head.started, head.command);
    let mut outcomes = std::collections::BTreeMap::<_, usize>::new();
    run.steps
        .iter()
        .for_each(|ran| *outcomes.entry(ran.outcome).or_default() += 1);
    let outcomes: Vec<_> = outcomes
        .iter()
        .map(|(outcome, n)| format!("{n} {}", outcome.label()))
        .collect();
    let steps = counted(run.steps.len(), "step");
    let _ = write!(
        text,
        "  run {id}: {steps} executed ({})",
        outcomes.join(", ")
    );
    if let Some(end) = &run.end {
        let _ = write!(
            text,
            ", {} up to date, in {}",
            end.hits,
            seconds(end.seconds)
        );
    }
    let state = match state(run) {
        "ended" => String::new(),
        other => format!("; {WARN}{other}{WARN:#}"),
    };
    let _ = writeln!(text, "{state}");
    if head.folder.is_empty() {
        let _ = writeln!(text, "  {DIM}on {}; its journal is gone{DIM:#}", head.host);
    } else {
        let jobs = counted(head.jobs, "job");
        let _ = writeln!(
            text,
            "  {DIM}in {} on {}, {jobs}{DIM:#}",
            head.folder, head.host
        );
    }
}

fn list(text: &mut String, run: &Run, failed: bool) {
    for setup in &run.setups {
        let error = setup
            .error
            .as_ref()
            .map(|e| format!("  {BAD}{e}{BAD:#}"))
            .unwrap_or_default();
        let _ = writeln!(
            text,
            "{}  setup {}{error}",
            times(setup.at, setup.seconds),
            setup.what
        );
    }
    for ran in shown(run, failed) {
        let (style, word) = match ran.outcome {
            Outcome::Pass => (GOOD, "ok"),
            Outcome::Flaky => (WARN, "flaky"),
            outcome if outcome.is_failure() => (BAD, outcome.label()),
            outcome => (WARN, outcome.label()),
        };
        let slot = ran.slot.as_deref().unwrap_or("no slot");
        let _ = writeln!(
            text,
            "{}  {DIM}{slot:9}{DIM:#}  {style}{word:5}{style:#} {}  {DIM}{}{DIM:#}",
            times(ran.at, ran.seconds),
            ran.step,
            ran.why
        );
        if let Some(reason) = &ran.reason {
            let _ = writeln!(text, "      {}", printable(reason));
        }
        if let Some(repro) = repro(run, &ran.step) {
            let _ = writeln!(text, "      {DIM}{repro}{DIM:#}");
        }
    }
    for step in run.cut_off.iter().filter(|_| !failed) {
        let word = if run.goes_on {
            "goes on"
        } else {
            "began and did not end"
        };
        let _ = writeln!(
            text,
            "  {WARN}{word}{WARN:#}  {step}\n      {DIM}{}{DIM:#}",
            reproducer(&run.head.again, step)
        );
    }
    if run.unreadable > 0 {
        let _ = writeln!(
            text,
            "  {} of the journal cannot be read",
            counted(run.unreadable, "line")
        );
    }
    text.push('\n');
}

/// The steps of a run, in the order in which they began.
fn shown(run: &Run, failed: bool) -> Vec<&ExecutedStep> {
    let mut steps: Vec<_> = run
        .steps
        .iter()
        .filter(|ran| !failed || ran.outcome.is_failure())
        .collect();
    steps.sort_by(|a, b| a.at.total_cmp(&b.at));
    steps
}

/// The command that repeats a step; None where the journal is gone.
fn repro(run: &Run, step: &str) -> Option<String> {
    let again = &run.head.again;
    (!again.is_empty()).then(|| reproducer(again, step))
}

fn times(at: f64, took: f64) -> String {
    format!("  {at:9.3} s {took:9.3} s")
}

fn document(name: &str, run: &Run, failed: bool) -> Value {
    let steps = shown(run, failed).into_iter().map(|ran| {
        let mut step = json!(ran);
        step["repro"] = repro(run, &ran.step).into();
        step
    });
    json!({
        "run": name, "state": state(run), "started": run.head.started, "command": run.head.command,
        "folder": run.head.folder, "host": run.head.host, "jobs": run.head.jobs, "end": run.end,
        "executed": run.steps.len(), "steps": steps.collect::<Vec<_>>(), "setups": run.setups,
        "cut_off": run.cut_off, "unreadable_lines": run.unreadable,
    })
}
