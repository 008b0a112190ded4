//! `orch explain`

use std::fmt::Write;

use serde_json::json;

use crate::base::figures::bytes;
use crate::cli::args::NameArgs;
use crate::cli::cmd::warnings;
use crate::cli::printer::{BOLD, DIM};
use crate::cli::{Args, Exit, Printer};
use crate::exec::Preview;
use crate::explain::{self, Cause, Evidence};
use crate::key::{KeyDoc, MissReason};
use crate::record::Record;
use crate::session::{Ask, Request, Session};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ExplainArgs {
    #[command(flatten)]
    of: NameArgs,
    /// Use the untimed step of `orch run --check`
    #[arg(long)]
    check: bool,
    /// Print one JSON document on stdout
    #[arg(long)]
    json: bool,
}

pub(super) fn explain(
    args: &Args,
    explain: &ExplainArgs,
    printer: &Printer,
) -> anyhow::Result<Exit> {
    let session = Session::open_to_look(&args.locations())?;
    let project = session.project(
        &Request {
            check: explain.check,
            ..Request::all(explain.of.spec())
        },
        Ask::Installed,
    )?;
    let listener = warnings(printer);
    let project = session.with_searches(project, explain.of.name(), &listener)?;
    let chosen = project.meant(explain.of.name())?.steps();
    let options = project.idle_options();
    let context = session.context(&project, &options, &listener);
    let previews = context.previews()?;
    let mut documents = Vec::new();
    let mut text = String::new();
    for id in chosen {
        let name = &project.plan.step(id).name;
        let preview = &previews[id.0 as usize];
        let (word, reason, key) = description(preview);
        let last = explain::history(&session.store, name).into_iter().next();
        let causes = explain::causes(&context, &previews, id);
        let roots = explain::roots(&causes);
        let half = project
            .plan
            .cases
            .iter()
            .find(|planned| planned.run == id)
            .and_then(|p| p.case.half.as_ref());
        if explain.json {
            documents.push(json!({
                "step": name, "half": half, "verdict": word, "reason": reason, "causes": causes, "roots": roots,
                "key": key.map(KeyDoc::digest), "document": key,
                "last": last.as_ref().map(|r| json!({"outcome": r.outcome, "started": r.started, "seconds": r.seconds,
                    "reason": r.reason, "why": r.why, "repro": r.repro})),
            }));
            continue;
        }
        let _ = writeln!(text, "{BOLD}{name}{BOLD:#}: {word}");
        if let Some(half) = half {
            let _ = writeln!(text, "  {}", half.summary());
        }
        match preview {
            Preview::Hit { record } => executed(&mut text, name, record, &causes),
            Preview::WouldRun { .. } => tree(&mut text, &causes, 1, name),
            _ => {
                let _ = writeln!(text, "  {reason}");
                tree(&mut text, &causes, 1, name);
            }
        }
        // One line that is its own root need not be printed twice.
        let is_plain = causes.len() == 1 && causes[0].because.is_empty();
        if let [root] = roots.as_slice()
            && !is_plain
        {
            let _ = writeln!(
                text,
                "  {BOLD}root cause:{BOLD:#} {}: {}",
                root.step, root.text
            );
        }
        if let Some(last) = last.filter(|_| !matches!(preview, Preview::Hit { .. })) {
            let reason = last.reason.map(|r| format!(": {r}")).unwrap_or_default();
            let why = last
                .why
                .map(|why| format!(" (it ran then because: {why})"))
                .unwrap_or_default();
            let _ = writeln!(
                text,
                "  last executed {}: {}{reason}{why}",
                last.started,
                last.outcome.label()
            );
        }
        if let Some(key) = key {
            let _ = writeln!(text, "  key {}", key.digest());
            for (name, value) in key.lines() {
                let _ = writeln!(text, "    {DIM}{name}:{DIM:#} {value}");
            }
        }
    }
    printer.answer(explain.json, || &documents, || text.trim_end().to_owned());
    Ok(Exit::Success)
}

/// A preview in words: what, why, and the key as far as it is known.
fn description(preview: &Preview) -> (&'static str, String, Option<&KeyDoc>) {
    match preview {
        Preview::Hit { record } => (
            if record.outcome.is_failure() {
                "failed before; a standing failure"
            } else {
                "up to date"
            },
            format!(
                "executed {} in {:.2} s on {}",
                record.started, record.seconds, record.host
            ),
            Some(&record.key),
        ),
        Preview::WouldRun { key, reason } => ("would run", why(reason), key.as_ref()),
        Preview::Skipped {
            outcome, reason, ..
        } => ("skipped", format!("{}: {reason}", outcome.label()), None),
        Preview::NotNeeded => (
            "not needed",
            "nothing that can run here needs it".into(),
            None,
        ),
    }
}

/// Every changed line of the key, old and new.
fn why(reason: &MissReason) -> String {
    match reason {
        MissReason::Changed { changes } => changes
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n  "),
        other => other.to_string(),
    }
}

fn executed(text: &mut String, name: &str, record: &Record, causes: &[Cause]) {
    let Record {
        step,
        started,
        seconds,
        host,
        ..
    } = record;
    let is_own = step == name;
    let whose = if is_own {
        String::new()
    } else {
        format!("{step} was ")
    };
    let _ = writeln!(
        text,
        "  {whose}executed {started} in {seconds:.2} s on {host}"
    );
    if record.outcome.is_failure() {
        let reason = record.reason.as_deref().unwrap_or("no reason was recorded");
        let _ = writeln!(text, "  {}: {reason}", record.outcome.label());
        let _ = writeln!(
            text,
            "  the same key would fail again; `orch run --rerun failed` runs it anyway"
        );
    }
    match record.why {
        _ if !is_own => tree(text, causes, 1, name),
        Some(_) => {
            let _ = writeln!(text, "  it ran then because:");
            tree(text, causes, 2, &record.step);
        }
        None => {
            let _ = writeln!(text, "  the reason for that run was not recorded");
        }
    }
}

/// One line per cause, what it comes from below it. `of` is the step that the lines above speak of.
fn tree(text: &mut String, causes: &[Cause], depth: usize, of: &str) {
    let indent = "  ".repeat(depth);
    for cause in causes {
        let step = if cause.step == of {
            String::new()
        } else {
            format!("{}: ", cause.step)
        };
        let above = if cause.repeated && depth > 1 {
            " (see above)"
        } else {
            ""
        };
        let _ = writeln!(text, "{indent}{step}{}{above}", cause.text);
        for line in cause.evidence.iter().flat_map(lines) {
            let _ = writeln!(text, "{indent}  {DIM}{line}{DIM:#}");
        }
        tree(text, &cause.because, depth + 1, &cause.step);
        if cause.more > 0 {
            let _ = writeln!(text, "{indent}and {} more", cause.more);
        }
    }
}

fn lines(evidence: &Evidence) -> Vec<String> {
    match evidence {
        Evidence::Tree {
            producer,
            files,
            more,
            note,
        } => {
            let mut lines: Vec<_> = files
                .iter()
                .map(|file| format!("in the output of {producer}: {}", file.text()))
                .collect();
            lines.extend((*more > 0).then(|| format!("and {more} more files")));
            lines.extend(
                note.as_ref()
                    .map(|note| format!("the output of {producer}: {note}")),
            );
            lines
        }
        Evidence::File {
            path,
            size,
            modified,
            differs,
            newer,
        } => {
            let size = size
                .map(|size| format!("{}, ", bytes(size)))
                .unwrap_or_default();
            let mut lines = vec![match modified {
                Some(time) => format!("{path} ({size}modified {time})"),
                None => format!("{path} is not there"),
            }];
            lines.extend(differs.as_ref().map(|differs| format!("{path}: {differs}")));
            lines.extend(
                newer
                    .iter()
                    .map(|name| format!("{path}/{name} was written since")),
            );
            lines
        }
    }
}
