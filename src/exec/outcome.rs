//! How a worker ended → the outcome of its step.

use serde_json::Value;

use crate::record::Outcome;
use crate::runtime::{JobOutput, JobStatus, RawMeasure};
use crate::worker::Ended;

/// What an execution came to, before its output is published.
pub(super) struct Judged {
    pub(super) outcome: Outcome,
    pub(super) reason: Option<String>,
    pub(super) facts: Value,
    pub(super) measure: Option<RawMeasure>,
}

impl Judged {
    pub(super) fn pass() -> Self {
        Self { outcome: Outcome::Pass, reason: None, facts: Value::Null, measure: None }
    }

    pub(super) fn failed(outcome: Outcome, reason: impl Into<String>) -> Self {
        Self { outcome, reason: Some(reason.into()), facts: Value::Null, measure: None }
    }
}

pub(super) fn judge(ended: Ended, timeout_seconds: u64) -> Judged {
    match ended {
        Ended::Answered(JobOutput { status, reason, facts, measure }) => {
            let signal = facts["signal"].as_i64();
            let outcome = match status {
                // A program of the user's has no other way to say so.
                JobStatus::Error if signal.is_some() => Outcome::Crash,
                JobStatus::Ok => Outcome::Pass,
                JobStatus::Unsupported => Outcome::SkipUnsupported,
                JobStatus::Unavailable => Outcome::SkipUnavailable,
                JobStatus::Error => Outcome::Fail,
                JobStatus::Numerics => Outcome::Numerics,
                JobStatus::Oom => Outcome::Oom,
            };
            let reason = reason.or_else(|| (outcome != Outcome::Pass).then(|| "the worker gave no reason".to_owned()));
            Judged { outcome, reason, facts, measure }
        }
        Ended::Died { signal: Some(signal), .. } => {
            Judged::failed(Outcome::Crash, format!("the process was ended by {}", signal_name(signal)))
        }
        Ended::Died { code, .. } => {
            let code = code.map_or("an unknown code".into(), |code| format!("code {code}"));
            Judged::failed(Outcome::Crash, format!("the process exited with {code} and gave no result"))
        }
        Ended::OutOfMemory(reason) => Judged::failed(Outcome::Oom, reason),
        Ended::ServerDied(why) => Judged::failed(Outcome::Crash, format!("{why} while this was its only job")),
        Ended::TimedOut => Judged::failed(Outcome::Timeout, format!("it did not end within {timeout_seconds} s")),
        Ended::Interrupted => Judged::failed(Outcome::Incomplete, "interrupted"),
        Ended::Broken(what) => Judged::failed(Outcome::Fail, what),
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGSEGV => "SIGSEGV (invalid memory access)",
        libc::SIGABRT => "SIGABRT (it gave up by itself)",
        libc::SIGKILL => "SIGKILL (killed from outside, not by orch)",
        libc::SIGILL => "SIGILL (an instruction that this CPU lacks)",
        libc::SIGFPE => "SIGFPE (arithmetic error)",
        libc::SIGBUS => "SIGBUS (invalid memory access)",
        libc::SIGTERM => "SIGTERM",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_of_ok_passes() {
        let outcomes = [
            Ended::Died { signal: Some(11), code: None },
            Ended::Died { signal: None, code: Some(0) },
            Ended::TimedOut,
            Ended::Interrupted,
            Ended::Broken("x".into()),
            Ended::Answered(JobOutput::failed(JobStatus::Error, "x")),
        ]
        .map(|ended| judge(ended, 1).outcome);
        use Outcome::{Crash, Fail, Incomplete, Timeout};
        assert_eq!(outcomes, [Crash, Crash, Timeout, Incomplete, Fail, Fail]);
        assert_eq!(judge(Ended::Answered(JobOutput::ok(Value::Null, None)), 1).outcome, Outcome::Pass);
    }
}
