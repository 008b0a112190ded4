//! `orch plan`: what a run would do, and why, by what causes it.

mod picture;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use indexmap::IndexMap;
use serde_json::json;

use crate::base::figures::{counted, plural};
use crate::base::fs;
use crate::cli::args::{ScopeArgs, SpecArgs, steps};
use crate::cli::cmd::plan::picture::Picture;
use crate::cli::cmd::warnings;
use crate::cli::printer::{BOLD, DIM, WARN};
use crate::cli::{Args, Exit, Printer};
use crate::exec::{Options, Preview};
use crate::explain::{self, Forecast, Group, Total};
use crate::key::MissReason;
use crate::plan;
use crate::record::Record;
use crate::report::text::part;
use crate::session::{Ask, Project, Session, usage};
use crate::step::StepId;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct PlanArgs {
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    scope: ScopeArgs,
    /// Output format; `dot` and `mermaid` draw the steps and their inputs
    #[arg(long, value_enum, default_value_t = PlanFormat::Text)]
    format: PlanFormat,
    /// In a picture: only these steps, what they need, and what needs them
    #[arg(long, value_name = "GLOB", add = steps())]
    around: Vec<String>,
    /// Shorthand for --format json
    #[arg(long)]
    json: bool,
    /// List every step, including those that are up to date and those that run only because a listed one does
    #[arg(long, short)]
    all: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum PlanFormat {
    Text,
    Json,
    /// Graphviz: `orch plan --format dot | dot -Tsvg > plan.svg`
    Dot,
    /// Mermaid, which GitHub renders in Markdown
    Mermaid,
}

/// Steps of one cause that are listed by name, and as many that wait for them.
const LISTED: usize = 12;

pub(super) fn plan(args: &Args, plan: &PlanArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let format = if plan.json {
        PlanFormat::Json
    } else {
        plan.format
    };
    if !plan.around.is_empty() && matches!(format, PlanFormat::Text | PlanFormat::Json) {
        usage!("--around is for pictures\n  hint: add `--format dot` or `--format mermaid`");
    }
    let session = Session::open_to_look(&args.locations())?;
    let tell = |text: &str| printer.note(text);
    let request = plan.spec.scoped(&plan.scope);
    let planned = session.plan(&request, Ask::Installed, &tell)?;
    let project = &planned.project;
    let options = &planned.options;
    planned.nothing.iter().for_each(|why| tell(why));
    let listener = warnings(printer);
    let context = session.context(project, options, &listener);
    let previews = context.previews()?;
    let shown: BTreeSet<_> = match plan.around.as_slice() {
        [] => project.plan.ids().collect(),
        around => plan::around(&project.plan, &project.steps(around)?),
    };
    let draw = |picture| {
        let store = &session.store;
        picture::draw(project, store, &previews, &shown, picture, printer);
    };
    let forecasts = explain::forecasts(&context, &previews);
    match format {
        PlanFormat::Text => {
            let origins = explain::origins(&context, &previews);
            printer.out(&text(
                project,
                options,
                &previews,
                &explain::groups(&previews, &origins),
                &forecasts,
                plan.all,
            ));
        }
        PlanFormat::Json => printer.json(&document(
            project,
            options,
            &previews,
            &explain::origins(&context, &previews),
            &forecasts,
        )),
        PlanFormat::Dot => draw(Picture::Dot),
        PlanFormat::Mermaid => draw(Picture::Mermaid),
    }
    let total = Total::of(&project.plan, &forecasts);
    let space = fs::free_bytes(session.store.root());
    for warning in total.too_much(session.host.report.memory_bytes, space) {
        printer.note(&format!("warning: {warning}"));
    }
    let broken = explain::cannot_begin(&project.plan, &previews);
    broken
        .iter()
        .for_each(|error| printer.note(&format!("error: {error}")));
    Ok(if broken.is_empty() {
        Exit::Success
    } else {
        Exit::Usage
    })
}

fn text(
    project: &Project,
    options: &Options,
    previews: &[Preview],
    groups: &IndexMap<String, Group>,
    forecasts: &[Option<Forecast>],
    all: bool,
) -> String {
    let mut out = String::new();
    let name = |id: StepId| project.plan.step(id).name.as_str();
    let width = project
        .plan
        .ids()
        .map(|id| name(id).len())
        .max()
        .unwrap_or(0)
        .min(48);
    let most = if all { usize::MAX } else { LISTED };
    let mut run = 0;
    for (reason, Group { begin, wait }) in groups {
        run += begin.len() + wait.len();
        let mut list = |steps: &[StepId], word: &str| {
            for id in steps.iter().take(most) {
                let Preview::WouldRun { reason, .. } = &previews[id.0 as usize] else {
                    continue;
                };
                let takes = forecasts[id.0 as usize].map(|forecast| forecast.text());
                let takes = takes.filter(|takes| !takes.is_empty());
                let takes = takes
                    .map(|takes| format!("  ({takes})"))
                    .unwrap_or_default();
                let _ = writeln!(
                    out,
                    "{WARN}run {WARN:#} {:width$}  {DIM}{reason}{takes}{DIM:#}",
                    name(*id)
                );
            }
            if let Some(rest) = steps.get(most..).filter(|rest| !rest.is_empty()) {
                let _ = writeln!(
                    out,
                    "     … and {} more {word} ({})",
                    rest.len(),
                    stages(project, rest)
                );
            }
        };
        list(begin, &format!("for this reason: {reason}"));
        list(
            wait,
            &format!("after {}", plural(begin.len(), "it", "these")),
        );
    }
    let count = |is: fn(&Preview) -> bool| previews.iter().filter(|preview| is(preview)).count();
    let failed =
        count(|preview| matches!(preview, Preview::Hit { record } if record.outcome.is_failure()));
    let hits = count(|preview| matches!(preview, Preview::Hit { .. })) - failed;
    let skipped = count(|preview| matches!(preview, Preview::Skipped { .. }));
    for (id, preview) in project.plan.ids().zip(previews).filter(|_| all) {
        let name = name(id);
        let _ = match preview {
            Preview::WouldRun { .. } => Ok(()),
            Preview::Hit { record } if record.outcome.is_failure() => {
                writeln!(
                    out,
                    "{WARN}fail{WARN:#} {name:width$}  {DIM}{}{DIM:#}",
                    failed_before(record)
                )
            }
            Preview::Hit { record } => {
                writeln!(
                    out,
                    "ok   {name:width$}  {DIM}up to date since {}{DIM:#}",
                    record.started
                )
            }
            Preview::Skipped {
                outcome, reason, ..
            } => {
                writeln!(
                    out,
                    "{DIM}skip {name:width$}  {}: {reason}{DIM:#}",
                    outcome.label()
                )
            }
            Preview::NotNeeded => writeln!(
                out,
                "{DIM}     {name:width$}  nothing that can run here needs it{DIM:#}"
            ),
        };
    }
    if let Some(scope) = &options.scope {
        let _ = writeln!(out, "{}", part(scope));
    }
    causes(&mut out, groups, &name);
    if let Some(expected) = Total::of(&project.plan, forecasts).text() {
        let _ = writeln!(out, "{expected}");
    }
    let hidden = groups
        .values()
        .any(|group| group.begin.len() > most || group.wait.len() > most);
    let hint = if all || hits + failed + skipped == 0 && !hidden {
        ""
    } else {
        "  (--all lists them)"
    };
    let kept = match failed {
        0 => String::new(),
        some => {
            format!("{some} failed before and are kept (`orch run --rerun failed` runs them), ")
        }
    };
    let _ = write!(
        out,
        "{}: {run} would run, {hits} up to date, {kept}{skipped} skipped{hint}; {}, {} excluded",
        counted(run + hits + failed + skipped, "step"),
        counted(project.plan.cases.len(), "case"),
        project.plan.excluded.len()
    );
    out
}

/// What is printed about a failure that stands.
fn failed_before(record: &Record) -> String {
    let reason = record.reason.as_deref().unwrap_or("no reason was recorded");
    format!(
        "failed before: {}: {reason}; kept since {}",
        record.outcome.label(),
        record.started
    )
}

/// One line per cause, where there is more to it than the lines above say.
fn causes<'a>(
    out: &mut String,
    groups: &IndexMap<String, Group>,
    name: &impl Fn(StepId) -> &'a str,
) {
    if groups
        .values()
        .all(|group| group.begin.len() + group.wait.len() < 3)
    {
        return;
    }
    let _ = writeln!(out, "\n{BOLD}causes{BOLD:#}");
    for (reason, Group { begin, wait }) in groups {
        let at = match begin.as_slice() {
            [only] => name(*only).to_owned(),
            many => counted(many.len(), "step"),
        };
        let waiting = if wait.is_empty() {
            String::new()
        } else {
            format!(", and {} after it", counted(wait.len(), "step"))
        };
        let _ = writeln!(out, "  {reason}: {at}{waiting}");
    }
    out.push('\n');
}

/// `40 convert, 60 run`
fn stages(project: &Project, steps: &[StepId]) -> String {
    let mut counts = BTreeMap::<_, usize>::new();
    steps
        .iter()
        .for_each(|id| *counts.entry(project.plan.step(*id).stage).or_default() += 1);
    counts
        .iter()
        .map(|(stage, count)| format!("{count} {}", stage.word()))
        .collect::<Vec<_>>()
        .join(", ")
}

fn document(
    project: &Project,
    options: &Options,
    previews: &[Preview],
    origins: &[StepId],
    forecasts: &[Option<Forecast>],
) -> serde_json::Value {
    let name = |id: StepId| project.plan.step(id).name.as_str();
    let steps: Vec<_> = project
        .plan
        .ids()
        .zip(previews)
        .map(|(id, preview)| {
            let step = project.plan.step(id);
            let inputs: Vec<_> = project.plan.dependencies(id).map(name).collect();
            let (verdict, reason) = match preview {
                Preview::Hit { record } if record.outcome.is_failure() => ("failed", json!(failed_before(record))),
                Preview::Hit { record } => ("hit", json!(format!("up to date since {}", record.started))),
                Preview::WouldRun { reason, .. } => ("run", json!(reason.to_string())),
                Preview::Skipped { outcome, reason, .. } => ("skip", json!(format!("{}: {reason}", outcome.label()))),
                Preview::NotNeeded => ("not-needed", serde_json::Value::Null),
            };
            let mut row = json!({"step": step.name, "stage": step.stage, "kind": step.kind.name(), "verdict": verdict,
                "reason": reason, "after": inputs});
            if let Preview::WouldRun { reason, .. } = preview {
                row["why"] = json!(reason);
                row["cause"] = name(origins[id.0 as usize]).into();
                row["expected"] = json!(forecasts[id.0 as usize]);
            }
            row
        })
        .collect();
    let causes: Vec<_> = explain::groups(previews, origins)
        .into_iter()
        .map(|(reason, Group { begin, wait })| {
            let why: Option<&MissReason> =
                begin.first().and_then(|id| match &previews[id.0 as usize] {
                    Preview::WouldRun { reason, .. } => Some(reason),
                    _ => None,
                });
            let steps: Vec<_> = begin.iter().map(|id| name(*id)).collect();
            json!({"reason": reason, "why": why, "steps": steps, "waiting": wait.len()})
        })
        .collect();
    let excluded: Vec<_> = project
        .plan
        .excluded
        .iter()
        .map(|e| json!({"case": e.case.id(), "reason": e.reason, "declared": e.loc.as_ref().map(ToString::to_string)}))
        .collect();
    let half: Vec<_> = project
        .plan
        .cases
        .iter()
        .filter_map(|planned| {
            Some(json!({"case": planned.case.id(), "half": planned.case.half.as_ref()?}))
        })
        .collect();
    json!({"half": half, "spec": project.name, "scope": options.scope, "steps": steps, "causes": causes, "cases": project.plan.cases.len(), "excluded": excluded, "expected": Total::of(&project.plan, forecasts)})
}
