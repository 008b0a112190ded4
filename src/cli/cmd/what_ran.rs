//! `orch what-ran`: what runs executed, from their journals.

use std::fmt::Write;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::base::figures::counted;
use crate::cli::printer::{BAD, BOLD, DIM, GOOD, WARN};
use crate::cli::{Args, Exit, Printer};
use crate::exec::reproducer;
use crate::explain;
use crate::journal::{self, Ran, Run};
use crate::record::Outcome;
use crate::report::format::seconds;
use crate::session::{UsageError, usage};
use crate::store::DiskStore;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct WhatRanArgs {
    /// The run: 1 is the last that executed anything, 2 the one before; or its id
    #[arg(long, value_name = "N", default_value = "1")]
    run: String,
    /// All runs since this time, e.g. 2026-01-31 or 2026-01-31T08:00:00Z
    #[arg(long, value_name = "DATE", conflicts_with = "run")]
    since: Option<String>,
    /// Only list the runs
    #[arg(long, conflicts_with = "run")]
    runs: bool,
    /// Only steps that failed
    #[arg(long)]
    failed: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

pub(super) fn what_ran(args: &Args, what: &WhatRanArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let store = args.store_to_look()?;
    let found = chosen(&store, what)?;
    if what.json {
        let runs: Vec<_> = found
            .iter()
            .map(|(id, run)| document(id, run, what))
            .collect();
        printer.json(&json!({"runs": runs}));
        return Ok(Exit::Success);
    }
    if found.is_empty() {
        printer.note("no run is on record: a run leaves a journal once it executes a step");
        return Ok(Exit::NothingRan);
    }
    let mut text = String::new();
    for (id, run) in &found {
        heading(&mut text, id, run);
        if !what.runs {
            list(&mut text, run, what.failed);
        }
    }
    printer.out(text.trim_end());
    Ok(Exit::Success)
}

/// The runs that were requested, newest first, with their ids.
fn chosen(store: &DiskStore, what: &WhatRanArgs) -> anyhow::Result<Vec<(String, Run)>> {
    let mut runs = journal::runs(&explain::runs_dir(store))?;
    if let Some(since) = what.since.as_deref().map(moment).transpose()? {
        let is_older = |(_, run): &(String, Run)| {
            run.head
                .started
                .parse::<Timestamp>()
                .is_ok_and(|at| at < since)
        };
        return runs
            .take_while(|found| !found.as_ref().is_ok_and(is_older))
            .collect();
    }
    if what.runs {
        return runs.collect();
    }
    let chosen = match what.run.parse::<usize>() {
        Ok(number) => {
            let mut newest = runs.take(number).collect::<anyhow::Result<Vec<_>>>()?;
            newest.pop().filter(|_| newest.len() + 1 == number)
        }
        Err(_) => runs
            .find(|found| found.as_ref().map_or(true, |(id, _)| *id == what.run))
            .transpose()?,
    };
    if chosen.is_none() && what.run != "1" {
        usage!(
            "no run is called `{}`\n  hint: `orch what-ran --runs` lists those on record",
            what.run
        );
    }
    Ok(Vec::from_iter(chosen))
}

/// A day, which begins where the user is, or a moment.
fn moment(text: &str) -> anyhow::Result<Timestamp> {
    let day = || {
        text.parse::<jiff::civil::Date>()
            .ok()?
            .to_zoned(jiff::tz::TimeZone::system())
            .ok()
            .map(|z| z.timestamp())
    };
    let bad = || {
        UsageError(format!(
            "`{text}` is not a date\n  hint: write 2026-01-31 or 2026-01-31T08:00:00Z"
        ))
    };
    Ok(text
        .parse::<Timestamp>()
        .ok()
        .or_else(day)
        .ok_or_else(bad)?)
}

fn state(run: &Run) -> &'static str {
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
    let _ = writeln!(
        text,
        "{state}\n  {DIM}in {} on {}, {}{DIM:#}",
        head.folder,
        head.host,
        counted(head.jobs, "job")
    );
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
            let _ = writeln!(text, "      {}", crate::base::text::shown(reason));
        }
        let _ = writeln!(
            text,
            "      {DIM}{}{DIM:#}",
            reproducer(&run.head.again, &ran.step)
        );
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
fn shown(run: &Run, failed: bool) -> Vec<&Ran> {
    let mut steps: Vec<_> = run
        .steps
        .iter()
        .filter(|ran| !failed || ran.outcome.is_failure())
        .collect();
    steps.sort_by(|a, b| a.at.total_cmp(&b.at));
    steps
}

fn times(at: f64, took: f64) -> String {
    format!("  {at:9.3} s {took:9.3} s")
}

fn document(id: &str, run: &Run, what: &WhatRanArgs) -> Value {
    let mut document = json!({
        "id": id, "state": state(run), "started": run.head.started, "command": run.head.command,
        "folder": run.head.folder, "host": run.head.host, "jobs": run.head.jobs, "end": run.end,
        "executed": run.steps.len(),
    });
    if !what.runs {
        let steps = shown(run, what.failed).into_iter().map(|ran| {
            let mut step = json!(ran);
            step["repro"] = reproducer(&run.head.again, &ran.step).into();
            step
        });
        document["steps"] = steps.collect();
        document["setups"] = json!(run.setups);
        document["cut_off"] = json!(run.cut_off);
        document["unreadable_lines"] = run.unreadable.into();
    }
    document
}
