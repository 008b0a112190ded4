//! What the store holds for the key that a step has under the spec, as it is now.

use crate::cli::cmd::Warnings;
use crate::cli::printer::Printer;
use crate::exec::{Options, Preview};
use crate::session::{Project, Session};
use crate::step::StepId;

/// What a run of one step would find.
pub(super) fn previews(
    session: &Session,
    project: &Project,
    id: StepId,
    printer: &Printer,
) -> anyhow::Result<Vec<Preview>> {
    let options = Options { wanted: Some([id].into()), ..project.idle_options() };
    let listener = Warnings(printer);
    session.preview(project, &options, &listener)
}
