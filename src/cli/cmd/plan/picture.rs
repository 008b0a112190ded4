//! The plan as a picture, with what would happen to each step.

use std::collections::BTreeSet;

use crate::base::figures::counted;
use crate::cli::Printer;
use crate::exec::Preview;
use crate::plan::{self, Look};
use crate::session::Project;
use crate::step::StepId;
use crate::store::DiskStore;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Picture {
    /// Graphviz's language.
    Dot,
    /// Mermaid, which GitHub renders in Markdown.
    Mermaid,
}

/// Prints the steps `shown`, coloured by what would happen to them.
pub(super) fn draw(
    project: &Project,
    store: &DiskStore,
    previews: &[Preview],
    shown: &BTreeSet<StepId>,
    format: Picture,
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
        Picture::Dot => printer.out(&plan::dot(plan, shown, &look)),
        Picture::Mermaid => {
            let (text, left_out) = plan::mermaid(plan, shown, &look);
            printer.out(&text);
            if left_out > 0 {
                printer.note(&format!(
                    "{} left out: renderers of Mermaid refuse more than 500 edges or 50,000 characters\n  \
                     hint: restrict it with --around, --model or --target, or take --format dot",
                    counted(left_out, "step")
                ));
            }
        }
    }
}
