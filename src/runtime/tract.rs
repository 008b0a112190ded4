//! The runtime tract: ONNX files on the CPU by a crate in Rust, with nothing installed.
//!
//! The crate is part of orch where orch was built with the feature `tract`; without it the runtime is unavailable. It computes on
//! one thread, and all by its own code, so there is no placement to report. It loads a model for the shapes of the inputs that it is
//! given: open sizes are closed by them.

#[cfg(feature = "tract")]
mod session;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::measure::{self, MeasureParams};
use super::refusal::Refusal;
use super::{Job, JobOutput};

/// Why this build cannot run it, if it cannot.
pub const ABSENT: Option<&str> = if cfg!(feature = "tract") {
    None
} else {
    Some("this build of orch has no tract; hint: build it with `--features tract`")
};

const DEVICE: &str = "cpu";

pub fn execute(job: &Job, progress: &dyn Fn(&str)) -> JobOutput {
    job.perform("tract", &[("run", run)], progress)
}

/// The parameters of `run`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    pub device: String,
    #[serde(with = "measure::wanted")]
    pub measure: Option<MeasureParams>,
}

fn run(job: &Job, progress: &dyn Fn(&str)) -> Result<JobOutput> {
    let params: Params = job.params()?;
    ensure!(
        params.device == DEVICE,
        "tract has no device `{}`; known: `{DEVICE}`",
        params.device
    );
    if let Some(why) = ABSENT {
        return Err(Refusal::unavailable(why));
    }
    progress("compiling");
    computed(job, &params)
}

#[cfg(feature = "tract")]
use session::run as computed;

#[cfg(not(feature = "tract"))]
fn computed(_: &Job, _: &Params) -> Result<JobOutput> {
    unreachable!("BUG: a build without tract refuses before")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::runtime::JobStatus;

    #[test]
    fn another_device_and_an_unknown_parameter_are_refused() {
        let refused = |params| {
            let job = Job {
                op: "run".to_owned(),
                params,
                ..Job::default()
            };
            let output = execute(&job, &|_| ());
            assert_eq!(output.status, JobStatus::Error);
            output.reason.unwrap()
        };
        let message = refused(json!({"device": "cuda", "measure": "none"}));
        assert_eq!(message, "tract has no device `cuda`; known: `cpu`");
        let message = refused(json!({"device": "cpu", "measure": "none", "threads": 2}));
        assert!(message.contains("unknown field `threads`"), "{message}");
    }

    #[test]
    #[cfg(not(feature = "tract"))]
    fn a_build_without_it_is_unavailable_and_says_how_to_get_it() {
        let job = Job {
            op: "run".to_owned(),
            params: json!({"device": "cpu", "measure": "none"}),
            ..Job::default()
        };
        let output = execute(&job, &|_| ());
        assert_eq!(output.status, JobStatus::Unavailable);
        let reason = output.reason.unwrap();
        assert!(reason.contains("`--features tract`"), "{reason}");
    }
}
