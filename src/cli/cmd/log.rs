//! `orch log`: the output of a step, and what is on record of its executions.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::base::figures::bytes;
use crate::base::text::{printable, shown};
use crate::cli::args::NameArgs;
use crate::cli::cmd::{previews, warnings};
use crate::cli::printer::{BOLD, DIM};
use crate::cli::{Args, Exit, Printer};
use crate::exec::Preview;
use crate::explain;
use crate::record::{Outcome, Record};
use crate::session::{Ask, Meant, Project, Request, Session, is_search};
use crate::step::StepId;
use crate::store::DiskStore;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct LogArgs {
    #[command(flatten)]
    of: NameArgs,
    /// Use the untimed step of `orch run --check`
    #[arg(long)]
    check: bool,
    /// List all recorded executions instead
    #[arg(long)]
    history: bool,
    /// Print the path of the log instead
    #[arg(long, conflicts_with_all = ["history", "json"])]
    path: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

pub(super) fn log(args: &Args, log: &LogArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let store = args.store_to_look()?;
    let mut documents = Vec::new();
    let mut text = String::new();
    let mut any = false;
    for step in steps(args, &store, log, printer)? {
        let step_log = StepLog::of(&store, step)?;
        any |= step_log.is_any();
        let is_current = step_log
            .records
            .first()
            .and_then(|last| is_current(args, log, last, printer));
        if is_current == Some(false) {
            printer.note(&format!(
                "note: the last execution of `{}`, shown here, was of another definition than {} has now: `orch explain {0}`",
                step_log.step,
                log.of.spec().display()
            ));
        }
        if log.json {
            documents.push(step_log.document(log.history, is_current));
        } else if log.path {
            // A pipe wants paths that can be opened and nothing else.
            if let Some((path, _)) = &step_log.log {
                let _ = writeln!(text, "{}", path.display());
            }
        } else if log.history {
            step_log.list(&mut text);
        } else {
            step_log.write(&mut text);
        }
    }
    if log.json {
        printer.json(&documents);
    } else if !text.is_empty() {
        printer.out(&text);
    }
    if !any {
        printer.note(&format!(
            "`{}` has not been executed yet, so there is no log",
            log.of.name()
        ));
        return Ok(Exit::NothingRan);
    }
    Ok(Exit::Success)
}

/// A name that the store knows needs no plan: so a log is there at once, also of a step that no spec names any more.
fn steps(
    args: &Args,
    store: &DiskStore,
    log: &LogArgs,
    printer: &Printer,
) -> anyhow::Result<Vec<String>> {
    let name = log.of.name();
    if !name.contains(['*', '?']) && store.latest(name).is_ok_and(|last| last.is_some()) {
        return Ok(vec![name.to_owned()]);
    }
    let mut project = Project::load(&Request::all(log.of.spec()))?;
    if is_search(name) {
        let session = Session::open_to_look(&args.locations())?;
        project = session.with_searches(project, name, &warnings(printer))?;
    }
    let name_of = |id| project.plan.step(id).name.clone();
    Ok(match project.meant(name)? {
        Meant::Steps(steps) => steps.into_iter().map(name_of).collect(),
        Meant::Case(case) => {
            let is_shown = |id: &StepId| *id == case.run || went_wrong(store, &name_of(*id));
            case.chain
                .iter()
                .copied()
                .filter(is_shown)
                .map(name_of)
                .collect()
        }
    })
}

fn went_wrong(store: &DiskStore, step: &str) -> bool {
    store
        .latest(step)
        .is_ok_and(|last| last.is_some_and(|last| !last.outcome.is_made()))
}

struct StepLog {
    step: String,
    /// Newest first.
    records: Vec<Record>,
    /// The file, and what stands in it.
    log: Option<(PathBuf, String)>,
    /// The log is of an execution that left no record: it was interrupted, or goes on.
    is_later: bool,
    /// The folder of the logs of earlier attempts.
    logs: PathBuf,
}

impl StepLog {
    fn of(store: &DiskStore, step: String) -> anyhow::Result<Self> {
        let records = explain::history(store, &step);
        let path = store.log_path(&step);
        let bytes = match std::fs::read(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            other => Some(
                other.with_context(|| format!("failed to read the log `{}`", path.display()))?,
            ),
        };
        let log = bytes.map(|bytes| (path, String::from_utf8_lossy(&bytes).into_owned()));
        let is_later = log
            .as_ref()
            .is_some_and(|(path, _)| is_later(path, records.first()));
        let logs = store.root().join("logs");
        Ok(Self {
            step,
            records,
            log,
            is_later,
            logs,
        })
    }

    fn is_any(&self) -> bool {
        !self.records.is_empty() || self.log.is_some()
    }

    fn write(&self, text: &mut String) {
        if !self.is_any() {
            return;
        }
        if let Some(record) = self.records.first() {
            let _ = writeln!(text, "{BOLD}{}{BOLD:#}: {}", self.step, outcome(record));
            let _ = writeln!(
                text,
                "{DIM}executed:{DIM:#} {} in {:.2} s on {}",
                record.started, record.seconds, record.host
            );
            let _ = writeln!(text, "{DIM}because: {DIM:#} {}", why(record));
            if let Some(repro) = &record.repro {
                let _ = writeln!(text, "{DIM}again:   {DIM:#} {repro}");
            }
            for (number, attempt) in (1..).zip(&record.attempts) {
                let reason = attempt
                    .reason
                    .as_deref()
                    .unwrap_or("no reason was recorded");
                let log = attempt
                    .log
                    .as_ref()
                    .map(|log| format!("; log: {}", self.logs.join(log).display()));
                let label = attempt.outcome.label();
                let _ = writeln!(
                    text,
                    "{DIM}attempt: {DIM:#} {number}: {label}: {reason}{}",
                    log.unwrap_or_default()
                );
            }
        } else {
            let _ = writeln!(
                text,
                "{BOLD}{}{BOLD:#}: no execution is on record",
                self.step
            );
        }
        if self.is_later {
            let _ = writeln!(
                text,
                "{DIM}note:    {DIM:#} the log belongs to a later execution that was interrupted or is still running"
            );
        }
        match &self.log {
            Some((path, content)) if !content.is_empty() => {
                let _ = writeln!(
                    text,
                    "{DIM}log:     {DIM:#} {} ({})\n",
                    path.display(),
                    bytes(content.len() as u64)
                );
                // Colours too are left out: the file has the text as it was.
                text.push_str(&printable(content));
                if !content.ends_with('\n') {
                    text.push('\n');
                }
            }
            _ => {
                let _ = writeln!(text, "{DIM}log:     {DIM:#} it printed nothing");
            }
        }
    }

    fn list(&self, text: &mut String) {
        if self.records.is_empty() {
            return;
        }
        let _ = writeln!(text, "{BOLD}{}{BOLD:#}", self.step);
        for record in &self.records {
            let label = record.outcome.label();
            let seconds = format!("{:.2} s", record.seconds);
            let _ = writeln!(
                text,
                "  {}  {label:8} {seconds:>10}  {}",
                record.started,
                why(record)
            );
            if let Some(reason) = record
                .reason
                .as_ref()
                .filter(|_| record.outcome != Outcome::Pass)
            {
                let _ = writeln!(text, "    {DIM}{}{DIM:#}", shown(reason));
            }
        }
    }

    fn document(&self, history: bool, is_current: Option<bool>) -> Value {
        let execution = |r: &Record| {
            json!({"outcome": r.outcome, "reason": r.reason, "started": r.started, "seconds": r.seconds, "host": r.host,
                "why": r.why, "key": r.key.digest(), "output": r.output, "repro": r.repro, "attempts": r.attempts})
        };
        if history {
            let executions: Vec<_> = self.records.iter().map(execution).collect();
            return json!({"step": self.step, "executions": executions});
        }
        let log = self
            .log
            .as_ref()
            .map(|(path, text)| json!({"path": path, "text": text, "later": self.is_later}));
        let last = self.records.first().map(execution);
        json!({"step": self.step, "last": last, "log": log, "current": is_current})
    }
}

/// Whether an execution had the key that its step has now. None where no spec says what is now.
fn is_current(args: &Args, log: &LogArgs, last: &Record, printer: &Printer) -> Option<bool> {
    if !log.of.spec().is_file() {
        return None;
    }
    let session = Session::open_to_look(&args.locations()).ok()?;
    let project = session
        .project(
            &Request {
                check: log.check,
                ..Request::all(log.of.spec())
            },
            Ask::Installed,
        )
        .ok()?;
    let project = session
        .with_searches(project, &last.step, &warnings(printer))
        .ok()?;
    let id = project.plan.find(&last.step)?;
    match &previews(&session, &project, Some(id), printer).ok()?[id.0 as usize] {
        Preview::Hit { record } => Some(record.key == last.key),
        Preview::WouldRun { key: Some(key), .. } => Some(*key == last.key),
        Preview::WouldRun { key: None, .. } => Some(false),
        Preview::Skipped { .. } | Preview::NotNeeded => None,
    }
}

/// Whether a log was written to after the execution on record ended. Records keep whole seconds.
fn is_later(path: &std::path::Path, record: Option<&Record>) -> bool {
    let Some(record) = record else { return true };
    let written = path.metadata().and_then(|meta| meta.modified()).ok();
    written
        .and_then(|time| record.seconds_until(time))
        .is_some_and(|seconds| seconds > record.seconds + 1.5)
}

fn outcome(record: &Record) -> String {
    let reason = record
        .reason
        .as_ref()
        .map(|reason| format!(": {}", shown(reason)))
        .unwrap_or_default();
    format!("{}{reason}", record.outcome.label())
}

fn why(record: &Record) -> String {
    record
        .why
        .as_ref()
        .map_or_else(|| "not recorded".to_owned(), ToString::to_string)
}
