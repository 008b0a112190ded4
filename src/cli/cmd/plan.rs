//! `orch plan`

use std::fmt::Write;

use serde_json::json;

use crate::cli::args::{Args, PlanArgs, PlanFormat};
use crate::cli::cmd::Warnings;
use crate::cli::exit::Exit;
use crate::cli::printer::{DIM, Printer, WARN};
use crate::cli::project::{Project, Workplace};
use crate::cli::scope::{Asked, Scoped};
use crate::exec::{self, Options, Preview, Verdict};
use crate::plan;

pub(super) fn plan(args: &Args, plan: &PlanArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let workplace = Workplace::open(args)?;
    let asked = Asked { spec: &plan.spec, scope: &plan.scope, steps: &[], rerun: &[] };
    let Scoped { project, wanted, label, nothing, .. } = asked.load(&workplace, printer)?;
    let options = Options { wanted, max_age: plan.scope.max_age.clone(), scope: label, ..idle_options(&project) };
    if let Some(why) = nothing {
        printer.note(&why);
    }
    let listener = Warnings(printer);
    let previews = exec::preview(&workplace.context(&project, &options, &listener))?;
    let is_fresh = |id: crate::step::StepId| matches!(previews[id.0 as usize].verdict, Verdict::Hit { .. });
    match if plan.json { PlanFormat::Json } else { plan.format } {
        PlanFormat::Text => printer.out(&text(&project, &options, &previews, plan.all)),
        PlanFormat::Json => printer.json(&document(&project, &options, &previews)),
        PlanFormat::Dot => printer.out(&plan::dot(&project.plan, &is_fresh)),
        PlanFormat::Mermaid => printer.out(&plan::mermaid(&project.plan, &is_fresh)),
    }
    Ok(Exit::Success)
}

/// Options of commands that look and do not touch.
pub(super) fn idle_options(project: &Project) -> Options {
    Options {
        jobs: 1,
        fail_fast: false,
        rerun: Default::default(),
        wanted: None,
        max_age: None,
        scope: None,
        spec: project.name.clone(),
        flags: String::new(),
        out_dir: "orch-out".into(),
    }
}

fn text(project: &Project, options: &Options, previews: &[Preview], all: bool) -> String {
    let mut out = String::new();
    let width = previews.iter().map(|p| project.plan.step(p.step).name.len()).max().unwrap_or(0).min(48);
    let (mut run, mut hits, mut skipped) = (0, 0, 0);
    for preview in previews {
        let name = &project.plan.step(preview.step).name;
        match &preview.verdict {
            Verdict::WouldRun { reason, .. } => {
                run += 1;
                let _ = writeln!(out, "{WARN}run {WARN:#} {name:width$}  {DIM}{reason}{DIM:#}");
            }
            Verdict::Hit { record, .. } => {
                hits += 1;
                if all {
                    let _ = writeln!(out, "ok   {name:width$}  {DIM}up to date since {}{DIM:#}", record.started);
                }
            }
            Verdict::Skipped { outcome, reason } => {
                skipped += 1;
                if all {
                    let _ = writeln!(out, "{DIM}skip {name:width$}  {}: {reason}{DIM:#}", outcome.label());
                }
            }
            Verdict::NotNeeded if all => {
                let _ = writeln!(out, "{DIM}     {name:width$}  nothing that can run here needs it{DIM:#}");
            }
            Verdict::NotNeeded => {}
        }
    }
    if let Some(scope) = &options.scope {
        let _ = writeln!(out, "{scope}: not the whole spec");
    }
    let hint = if all || hits + skipped == 0 { "" } else { "  (--all lists them)" };
    let _ = write!(
        out,
        "{} steps: {run} would run, {hits} up to date, {skipped} skipped{hint}; {} cases, {} excluded",
        run + hits + skipped,
        project.plan.cases.len(),
        project.plan.excluded.len()
    );
    out
}

fn document(project: &Project, options: &Options, previews: &[Preview]) -> serde_json::Value {
    let steps: Vec<_> = previews
        .iter()
        .map(|preview| {
            let step = project.plan.step(preview.step);
            let inputs: Vec<_> = project.plan.dependencies(preview.step).map(|id| project.plan.step(id).name.as_str()).collect();
            let (verdict, reason) = match &preview.verdict {
                Verdict::Hit { record, .. } => ("hit", json!(format!("up to date since {}", record.started))),
                Verdict::WouldRun { reason, .. } => ("run", json!(reason.to_string())),
                Verdict::Skipped { outcome, reason } => ("skip", json!(format!("{}: {reason}", outcome.label()))),
                Verdict::NotNeeded => ("not-needed", serde_json::Value::Null),
            };
            json!({"step": step.name, "stage": step.stage, "kind": step.kind.name(), "verdict": verdict, "reason": reason, "after": inputs})
        })
        .collect();
    let excluded: Vec<_> = project
        .plan
        .excluded
        .iter()
        .map(|e| json!({"case": e.case.id(), "reason": e.reason, "declared": e.loc.as_ref().map(ToString::to_string)}))
        .collect();
    json!({"spec": project.name, "scope": options.scope, "steps": steps, "cases": project.plan.cases.len(), "excluded": excluded})
}
