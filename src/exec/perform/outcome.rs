//! How a worker ended → the outcome of its step.

use serde_json::Value;

use crate::base::Bug;
use crate::base::text::error_text;
use crate::record::{Outcome, Record};
use crate::runtime::refusal::Refusal;
use crate::runtime::{FailureCause, JobOutput, JobStatus, RawMeasure};
use crate::worker::{DOWNLOAD, Ended};

/// The outcome of an execution, before its output is published.
pub(in crate::exec) struct Judged {
    pub(in crate::exec) outcome: Outcome,
    pub(in crate::exec) reason: Option<String>,
    pub(in crate::exec) facts: Value,
    pub(in crate::exec) measure: Option<RawMeasure>,
    /// Another attempt may well end otherwise.
    pub(in crate::exec) transient: bool,
}

impl Judged {
    pub(in crate::exec) fn pass() -> Self {
        Self {
            outcome: Outcome::Pass,
            reason: None,
            facts: Value::Null,
            measure: None,
            transient: false,
        }
    }

    pub(in crate::exec) fn failed(outcome: Outcome, reason: impl Into<String>) -> Self {
        Self {
            outcome,
            reason: Some(reason.into()),
            facts: Value::Null,
            measure: None,
            transient: false,
        }
    }

    /// An error around the work, such as a process that could not be started, or a package that the user's own Python
    /// lacks.
    pub(in crate::exec) fn error(error: &anyhow::Error) -> Self {
        let judged = Self::failed(outcome(Refusal::status_of(error)), error_text(error));
        let passes = error
            .chain()
            .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
            .any(may_pass);
        if Bug::is_in(error) {
            return judged;
        }
        if passes || is_shortage(judged.reason.as_deref().unwrap_or_default()) {
            judged.transient()
        } else {
            judged
        }
    }

    /// The outcome of an error in one of orch's own steps. An error of the disk is passed on, because it may not recur;
    /// every other follows from the step's inputs.
    pub(in crate::exec) fn of_itself(error: anyhow::Error) -> anyhow::Result<Self> {
        if Bug::is_in(&error) || error.chain().any(|cause| cause.is::<std::io::Error>()) {
            return Err(error);
        }
        Ok(Self::failed(
            outcome(Refusal::status_of(&error)),
            error_text(&error),
        ))
    }

    /// Whether an error is transient: of the machinery around the work, or one that the work itself calls so. A full
    /// disk is not.
    pub(in crate::exec) fn transient(self) -> Self {
        let is_full = self
            .reason
            .as_ref()
            .is_some_and(|reason| reason.contains("No space left on device"));
        Self {
            transient: !is_full,
            ..self
        }
    }
}

/// Adds to the facts of a worker, which may be anything.
pub(in crate::exec) fn set_fact(facts: &mut Value, name: &str, value: Value) {
    if !facts.is_object() {
        *facts = Value::Object(Default::default());
    }
    facts[name] = value;
}

/// Words of a system that is short of something for a moment.
const SHORTAGES: [i32; 9] = {
    use libc::{EAGAIN, ECONNABORTED, ECONNRESET, EINTR, EMFILE, ENFILE, ENOMEM, EPIPE, ETXTBSY};
    [
        EAGAIN,
        EINTR,
        ENOMEM,
        EMFILE,
        ENFILE,
        ETXTBSY,
        EPIPE,
        ECONNRESET,
        ECONNABORTED,
    ]
};

fn may_pass(error: &std::io::Error) -> bool {
    error
        .raw_os_error()
        .is_some_and(|code| SHORTAGES.contains(&code))
}

/// Whether a text names such a shortage; errors of Rust, Python and C++ may arrive as text.
pub(in crate::exec) fn is_shortage(reason: &str) -> bool {
    let by_number = |code: &i32| {
        reason.contains(&format!("(os error {code})"))
            || reason.contains(&format!("[Errno {code}]"))
    };
    SHORTAGES.iter().any(by_number)
        || ["Resource temporarily unavailable", "Text file busy"]
            .iter()
            .any(|words| reason.contains(words))
}

/// `transient`: exit codes by which a program asks for another attempt.
pub(in crate::exec) fn judge(ended: Ended, timeout_seconds: u64, transient: &[u32]) -> Judged {
    match ended {
        Ended::Answered(JobOutput {
            status,
            reason,
            mut facts,
            measure,
            cause,
            peak_rss_bytes,
        }) => {
            if let Some(peak) = peak_rss_bytes {
                set_fact(&mut facts, Record::PEAK_RSS_BYTES, peak.into());
            }
            match cause {
                Some(FailureCause::ExitCode(code)) => {
                    set_fact(&mut facts, "exit_code", code.into());
                }
                Some(FailureCause::Signal(signal)) => {
                    set_fact(&mut facts, "signal", signal.into());
                }
                Some(FailureCause::System) | None => {}
            }
            let outcome = match (status, cause) {
                // A program of the user's has no other way to say so.
                (JobStatus::Error, Some(FailureCause::Signal(_))) => Outcome::Crash,
                (status, _) => outcome(status),
            };
            let reason = reason.or_else(|| {
                (outcome != Outcome::Pass).then(|| "the worker gave no reason".to_owned())
            });
            let has_failed = outcome == Outcome::Fail;
            let may_pass = match cause {
                Some(FailureCause::Signal(_)) => true,
                // The last words of a user's program decide nothing: it has exit codes for that.
                Some(FailureCause::ExitCode(code)) => {
                    let is_listed = u32::try_from(code).is_ok_and(|code| transient.contains(&code));
                    has_failed && is_listed
                }
                Some(FailureCause::System) => has_failed,
                None => has_failed && reason.as_deref().is_some_and(is_shortage),
            };
            let judged = Judged {
                outcome,
                reason,
                facts,
                measure,
                transient: false,
            };
            if may_pass { judged.transient() } else { judged }
        }
        Ended::Died {
            signal: Some(signal),
            ..
        } => Judged::failed(
            Outcome::Crash,
            format!("the process was ended by {}", signal_name(signal)),
        )
        .transient(),
        Ended::Died { code, .. } => {
            let code = code.map_or("an unknown code".into(), |code| format!("code {code}"));
            Judged::failed(
                Outcome::Crash,
                format!("the process exited with {code} and gave no result"),
            )
        }
        Ended::OutOfMemory(reason) => Judged::failed(Outcome::Oom, reason),
        // It was tried on a server of its own already.
        Ended::ServerDied(why) => {
            Judged::failed(Outcome::Crash, format!("{why} while this was its only job"))
        }
        Ended::TimedOut => Judged::failed(
            Outcome::Timeout,
            format!("it did not end within {timeout_seconds} s"),
        )
        .transient(),
        Ended::DownloadTimedOut => Judged::failed(
            Outcome::Timeout,
            format!("its downloads did not end within {} s", DOWNLOAD.as_secs()),
        )
        .transient(),
        Ended::Interrupted => Judged::failed(Outcome::Incomplete, "interrupted"),
        // The worker or its server could not be started, or went away.
        Ended::Broken(what) => Judged::failed(Outcome::Fail, what).transient(),
    }
}

fn outcome(status: JobStatus) -> Outcome {
    match status {
        JobStatus::Ok => Outcome::Pass,
        JobStatus::Unsupported => Outcome::SkipUnsupported,
        JobStatus::Unavailable => Outcome::SkipUnavailable,
        JobStatus::Error => Outcome::Fail,
        JobStatus::Numerics => Outcome::Numerics,
        JobStatus::Indecisive => Outcome::Indecisive,
        JobStatus::Oom => Outcome::Oom,
        JobStatus::Crash => Outcome::Crash,
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
            Ended::Died {
                signal: Some(11),
                code: None,
            },
            Ended::Died {
                signal: None,
                code: Some(0),
            },
            Ended::TimedOut,
            Ended::Interrupted,
            Ended::Broken("x".into()),
            Ended::Answered(JobOutput::failed(JobStatus::Error, "x")),
        ]
        .map(|ended| judge(ended, 1, &[]).outcome);
        use Outcome::{Crash, Fail, Incomplete, Timeout};
        assert_eq!(outcomes, [Crash, Crash, Timeout, Incomplete, Fail, Fail]);
        assert_eq!(
            judge(Ended::Answered(JobOutput::ok(Value::Null, None)), 1, &[]).outcome,
            Outcome::Pass
        );
    }

    #[test]
    fn only_what_may_pass_next_time_is_transient() {
        let exited = |cause: FailureCause| {
            Ended::Answered(JobOutput {
                cause: Some(cause),
                ..JobOutput::failed(JobStatus::Error, "ended with exit status: 75")
            })
        };
        let answered = |reason: &str| Ended::Answered(JobOutput::failed(JobStatus::Error, reason));
        let cases = [
            (
                Ended::Died {
                    signal: Some(11),
                    code: None,
                },
                true,
            ),
            (
                Ended::Died {
                    signal: None,
                    code: Some(1),
                },
                false,
            ),
            (Ended::TimedOut, true),
            (Ended::DownloadTimedOut, true),
            (Ended::Broken("the Python server ended".into()), true),
            (
                Ended::Broken(
                    "failed to write the log: No space left on device (os error 28)".into(),
                ),
                false,
            ),
            (Ended::Interrupted, false),
            (exited(FailureCause::ExitCode(75)), true),
            (exited(FailureCause::ExitCode(1)), false),
            (exited(FailureCause::Signal(9)), true),
            (
                Ended::Answered(JobOutput::failed(JobStatus::Oom, "x")),
                false,
            ),
            (
                answered("OSError: [Errno 11] Resource temporarily unavailable"),
                true,
            ),
            (
                answered("failed to start the browser: Text file busy (os error 26)"),
                true,
            ),
            (
                answered("thread constructor failed: Resource temporarily unavailable"),
                true,
            ),
            (answered("ValueError: the model has no layer 11"), false),
            // A user's program says by its exit code whether it may be tried again.
            (
                Ended::Answered(JobOutput {
                    cause: Some(FailureCause::ExitCode(1)),
                    ..JobOutput::failed(
                        JobStatus::Error,
                        "its last words: fork: Resource temporarily unavailable",
                    )
                }),
                false,
            ),
        ];
        for (ended, transient) in cases {
            let shown = format!("{ended:?}");
            assert_eq!(judge(ended, 1, &[75]).transient, transient, "{shown}");
        }
        assert_eq!(
            judge(exited(FailureCause::Signal(9)), 1, &[]).outcome,
            Outcome::Crash
        );
    }

    #[test]
    fn a_step_of_orch_s_own_refuses_or_fails_and_the_disk_is_no_outcome() {
        use anyhow::Context;
        let of = |error: anyhow::Error| {
            Judged::of_itself(error.context("m.onnx")).map(|judged| judged.outcome)
        };
        let refused = Refusal::because(JobStatus::Unsupported, "it takes strings");
        assert_eq!(of(refused).unwrap(), Outcome::SkipUnsupported);
        assert_eq!(of(anyhow::anyhow!("no model")).unwrap(), Outcome::Fail);
        let missing: anyhow::Result<()> =
            Err(std::io::Error::from(std::io::ErrorKind::NotFound).into());
        assert!(of(missing.context("failed to read m.onnx").unwrap_err()).is_err());
    }

    #[test]
    fn an_error_around_the_work_is_transient_if_the_system_was_short_of_something() {
        use anyhow::Context;
        let of = |code: i32| {
            let failed: anyhow::Result<()> = Err(std::io::Error::from_raw_os_error(code).into());
            Judged::error(
                &failed
                    .context("failed to start the Python server of `torch`")
                    .unwrap_err(),
            )
        };
        for code in [
            libc::EAGAIN,
            libc::ETXTBSY,
            libc::ENOMEM,
            libc::ECONNRESET,
            libc::EPIPE,
        ] {
            let judged = of(code);
            assert_eq!(
                (judged.outcome, judged.transient),
                (Outcome::Fail, true),
                "{:?}",
                judged.reason
            );
        }
        let reason = of(libc::EAGAIN).reason.unwrap();
        assert!(
            reason
                .starts_with("failed to start the Python server of `torch`: Resource temporarily"),
            "{reason}"
        );
        for code in [libc::ENOENT, libc::EACCES, libc::ENOSPC] {
            assert!(!of(code).transient, "{code}");
        }
        // On the way it may have become a sentence.
        let error = anyhow::anyhow!(
            "failed to fork: {}",
            std::io::Error::from_raw_os_error(libc::EAGAIN)
        );
        assert!(Judged::error(&error).transient);
        assert!(!Judged::error(&anyhow::Error::new(Bug::new("no input"))).transient);
    }
}
