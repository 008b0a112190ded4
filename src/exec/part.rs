//! Performs some steps of a plan, with the same scheduler, when what they read of the others is known.
//!
//! It makes no report: that is of the whole plan.

use std::collections::BTreeMap;

use crate::base::Digest;
use crate::event::Event;
use crate::exec::Context;
use crate::exec::schedule::Scheduler;
use crate::exec::state::{StepResult, StepState};
use crate::step::{Stage, StepId};
use crate::store::{FileDigests, StoreError};

pub struct Part {
    /// The outputs of steps that are there only to be read.
    pub known: BTreeMap<StepId, Digest>,
    /// Knows every file that the others read.
    pub files: FileDigests,
    /// How many steps the whole plan has.
    pub steps: u32,
}

pub struct PartEnded {
    /// By step of the part.
    pub results: Vec<StepResult>,
    pub interrupted: bool,
    /// A known output turned out to be damaged, so this came to no end.
    pub lost: bool,
    /// A bug of orch's own ended a step.
    pub met_bug: bool,
    pub files: FileDigests,
}

pub fn run_part(context: &Context<'_>, part: Part) -> Result<PartEnded, StoreError> {
    let Part { known, files, steps } = part;
    let mut scheduler = Scheduler::with(context, files, known);
    scheduler.consult_all();
    let open: Vec<_> = scheduler.wanted.iter().filter(|id| !scheduler.is_done(*id)).collect();
    context.listener.tell(Event::Started { steps, to_run: open.len() as u32 });
    if open.into_iter().any(|id| context.plan.step(id).stage != Stage::Report) {
        scheduler.execute_wanted()?;
    }
    scheduler.close();
    Ok(PartEnded {
        interrupted: context.cancel.is_cancelled(),
        lost: scheduler.lost,
        met_bug: scheduler.met_bug,
        results: scheduler.states.into_iter().map(StepState::into_result).collect(),
        files: scheduler.keys.files,
    })
}
