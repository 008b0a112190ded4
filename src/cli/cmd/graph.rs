//! `orch graph`: the plan as a picture, with what would happen to each step.

use std::collections::BTreeSet;

use serde_json::json;

use crate::base::figures::counted;
use crate::cli::args::{SpecArgs, steps};
use crate::cli::cmd::previews;
use crate::cli::{Args, Exit, Printer};
use crate::exec::Preview;
use crate::plan::{self, Look};
use crate::session::{Ask, Project, Session};
use crate::step::StepId;
use crate::store::DiskStore;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct GraphArgs {
    #[command(flatten)]
    spec: SpecArgs,
    #[arg(long, value_enum, default_value_t = GraphFormat::Dot)]
    format: GraphFormat,
    /// Only these steps, what they need, and their dependents
    #[arg(long = "step", value_name = "GLOB", add = steps())]
    steps: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum GraphFormat {
    /// Graphviz: `orch graph | dot -Tsvg > graph.svg`
    Dot,
    /// Mermaid, which GitHub renders in Markdown
    Mermaid,
    Json,
}

pub(super) fn graph(args: &Args, graph: &GraphArgs, printer: &Printer) -> anyhow::Result<Exit> {
    let session = Session::open_to_look(&args.locations())?;
    let project = session.project(&graph.spec.request(), Ask::Installed)?;
    let chosen = project.steps(&graph.steps)?;
    let previews = previews(&session, &project, None, printer)?;
    let shown = if graph.steps.is_empty() {
        project.plan.ids().collect()
    } else {
        plan::around(&project.plan, &chosen)
    };
    draw(
        &project,
        &session.store,
        &previews,
        &shown,
        graph.format,
        printer,
    );
    Ok(Exit::Success)
}

pub(super) fn draw(
    project: &Project,
    store: &DiskStore,
    previews: &[Preview],
    shown: &BTreeSet<StepId>,
    format: GraphFormat,
    printer: &Printer,
) {
    let plan = &project.plan;
    let look = |id: StepId| match &previews[id.0 as usize] {
        Preview::Hit { record } if record.outcome.is_failure() => Look::Failed,
        Preview::Hit { .. } => Look::Fresh,
        Preview::WouldRun { .. } => {
            let last = store.latest(&plan.step(id).name).ok().flatten();
            if last.is_some_and(|last| last.outcome.is_failure()) {
                Look::Failed
            } else {
                Look::Run
            }
        }
        Preview::Skipped { .. } => Look::Unavailable,
        Preview::NotNeeded => Look::NotNeeded,
    };
    match format {
        GraphFormat::Dot => printer.out(&plan::dot(plan, shown, &look)),
        GraphFormat::Mermaid => {
            let (text, left_out) = plan::mermaid(plan, shown, &look);
            printer.out(&text);
            if left_out > 0 {
                printer.note(&format!(
                    "{} left out: renderers of Mermaid refuse more than 500 edges or 50,000 characters\n  \
                     hint: restrict it with --step, --model or --target, or take --format dot",
                    counted(left_out, "step")
                ));
            }
        }
        GraphFormat::Json => {
            let name = |id: StepId| plan.step(id).name.as_str();
            let steps: Vec<_> = shown
                .iter()
                .map(|id| json!({"step": name(*id), "stage": plan.step(*id).stage, "state": look(*id)}))
                .collect();
            let edges: Vec<_> = plan::edges(plan, shown)
                .into_iter()
                .map(|(from, to)| [name(from), name(to)])
                .collect();
            printer.json(&json!({"spec": project.name, "steps": steps, "edges": edges}));
        }
    }
}
