//! `orch worker own`: steps that no runtime performs and whose work is as large as a user's files and shapes say.
//!
//! A child does it, because `--job-memory` bounds a child, and because a file that unpacks to more than the machine has then
//! ends a step and not orch.

use serde_json::Value;

use super::{calibration, ready, recipe};
use crate::base::Bug;
use crate::runtime::{FailureCause, Job, JobOutput, refusal};
use crate::step::{Work, Worker, WorkerCall};

/// The word by which `orch worker` knows it.
pub const OWN: &str = "own";

/// The work of a step that this worker performs by `op`.
pub(super) fn work(op: &'static str, params: &Value) -> Work {
    Work::Worker(WorkerCall::of(Worker::Orch(OWN), op, params))
}

/// Performs a job of this worker.
pub fn execute(job: &Job, _: &dyn Fn(&str)) -> JobOutput {
    let done = match job.op.as_str() {
        "ready" => ready::bring(job),
        "inputs" => recipe::make(job),
        "calibration" => calibration::make(job),
        op => Err(anyhow::Error::new(Bug::new(format!(
            "orch's own worker knows no `{op}`"
        )))),
    };
    // A file that could not be read says nothing about the step.
    let is_of_system =
        |error: &anyhow::Error| error.chain().any(|cause| cause.is::<std::io::Error>());
    let cause = match &done {
        Err(error) if is_of_system(error) => Some(FailureCause::System),
        _ => None,
    };
    let answer = refusal::answer(done.map(|()| JobOutput::ok(Value::Null, None)));
    JobOutput { cause, ..answer }
}
