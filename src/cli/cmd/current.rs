//! What the store holds for the key that a step has under the spec, as it is now.

use crate::cli::cmd::Warnings;
use crate::cli::cmd::plan::idle_options;
use crate::cli::printer::Printer;
use crate::cli::project::{Project, Workplace};
use crate::exec::{self, Options, Preview};
use crate::step::StepId;

/// What a run of one step would find.
pub(super) fn previews(
    workplace: &Workplace,
    project: &Project,
    id: StepId,
    printer: &Printer,
) -> anyhow::Result<Vec<Preview>> {
    // The report is of everything.
    let wanted = (id != project.plan.report).then(|| [id].into());
    let options = Options { wanted, ..idle_options(project) };
    let listener = Warnings(printer);
    Ok(exec::preview(&workplace.context(project, &options, &listener))?)
}
