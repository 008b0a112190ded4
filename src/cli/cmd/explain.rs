//! `orch explain`

use std::fmt::Write;

use serde_json::json;

use crate::cli::args::{Args, ExplainArgs, SelectionArgs};
use crate::cli::cmd::Warnings;
use crate::cli::cmd::plan::idle_options;
use crate::cli::exit::Exit;
use crate::cli::printer::{BOLD, DIM, Printer};
use crate::cli::project::{Project, Workplace};
use crate::exec::{self, Verdict};
use crate::key::{KeyDoc, MissReason};

pub(super) fn explain(args: &Args, explain: &ExplainArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let project = Project::load(&explain.spec, &SelectionArgs::none())?;
    let chosen = project.steps(std::slice::from_ref(&explain.step))?;
    let workplace = Workplace::open(args)?;
    let options = idle_options(&project);
    let listener = Warnings(printer);
    let previews = exec::preview(&workplace.context(&project, &options, &listener))?;
    let mut documents = Vec::new();
    let mut text = String::new();
    for id in chosen {
        let name = &project.plan.step(id).name;
        let (verdict, reason, key) = match &previews[id.0 as usize].verdict {
            Verdict::Hit { key, record } => (
                "up to date",
                format!("executed {} in {:.2} s on {}", record.started, record.seconds, record.host),
                Some(key),
            ),
            Verdict::WouldRun { key, reason } => ("would run", why(reason), key.as_ref()),
            Verdict::Skipped { outcome, reason } => ("skipped", format!("{}: {reason}", outcome.label()), None),
            Verdict::NotNeeded => ("not needed", "nothing that can run here needs it".into(), None),
        };
        let last = workplace.store.latest(name).ok().flatten();
        documents.push(json!({
            "step": name, "verdict": verdict, "reason": reason, "key": key.map(KeyDoc::digest), "document": key,
            "last": last.as_ref().map(|r| json!({"outcome": r.outcome, "started": r.started, "reason": r.reason, "repro": r.repro})),
        }));
        let _ = writeln!(text, "{BOLD}{name}{BOLD:#}: {verdict}\n  {reason}");
        if let Some(last) = last.filter(|_| verdict != "up to date") {
            let _ = writeln!(
                text,
                "  last executed {}: {}{}",
                last.started,
                last.outcome.label(),
                last.reason.map(|r| format!(": {r}")).unwrap_or_default()
            );
        }
        if let Some(key) = key {
            let _ = writeln!(text, "  key {}", key.digest());
            for (name, value) in key.lines() {
                let _ = writeln!(text, "    {DIM}{name}:{DIM:#} {value}");
            }
        }
    }
    if explain.json {
        printer.json(&documents)
    } else {
        printer.out(text.trim_end())
    }
    Ok(Exit::Success)
}

/// Every changed line of the key, old and new.
fn why(reason: &MissReason) -> String {
    match reason {
        MissReason::Changed { changes } => changes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n  "),
        other => other.to_string(),
    }
}
