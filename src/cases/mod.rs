//! What the cases of a plan came to: their results, made of those of their steps, and the report of all of them.

mod case;
mod report_doc;

use std::collections::BTreeSet;

use crate::base::Digest;
use crate::exec::{self, Context, StepResult};
use crate::report::ReportDoc;
use crate::store::{FileDigests, StoreError};

pub use report_doc::report_doc;

/// A run that ended, with its report.
pub struct Finished {
    /// Results by step.
    pub results: Vec<StepResult>,
    pub interrupted: bool,
    /// A bug of orch's own ended a step, an installation or a probe.
    pub met_bug: bool,
    pub doc: ReportDoc,
    /// The user's files as the keys saw them.
    pub files: FileDigests,
    /// Trees that stayed where they were made.
    pub absent: BTreeSet<Digest>,
}

/// Performs the plan, and reports its cases.
pub fn run(context: &Context<'_>) -> Result<Finished, StoreError> {
    let exec::Ended {
        results,
        interrupted,
        met_bug,
        seconds,
        files,
        absent,
    } = exec::run(context)?;
    let doc = report_doc(context, &results, seconds);
    Ok(Finished {
        results,
        interrupted,
        met_bug,
        doc,
        files,
        absent,
    })
}

/// The report of what the store already holds. Cases whose results it lacks are incomplete.
pub fn held(context: &Context<'_>) -> Result<ReportDoc, StoreError> {
    let results = exec::held(context)?;
    Ok(report_doc(context, &results, 0.0))
}
