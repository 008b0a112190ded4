//! The attempts of a step that is executed several times in a run: their outcome and their logs.

#![expect(
    clippy::disallowed_methods,
    reason = "removes the logs of earlier attempts"
)]

use std::path::{Path, PathBuf};

use crate::record::{Attempt, Outcome, Record};

/// A failed execution as one of several attempts.
pub(in crate::exec) fn attempt_of(record: &Record, log: Option<&Path>) -> Attempt {
    Attempt {
        outcome: record.outcome,
        reason: record.reason.clone(),
        started: record.started.clone(),
        seconds: record.seconds,
        log: log
            .and_then(Path::file_name)
            .map(|name| name.to_string_lossy().into_owned()),
        waited_seconds: 0.0,
    }
}

/// The outcome and reason of the last of several attempts.
pub(in crate::exec) fn with_attempts(
    outcome: Outcome,
    reason: Option<String>,
    before: &[Attempt],
) -> (Outcome, Option<String>) {
    let (Some(last), Outcome::Pass) = (before.last(), outcome) else {
        return (outcome, reason);
    };
    let why = last.reason.as_deref().unwrap_or("no reason was given");
    let reason = format!(
        "it passed at attempt {}, after {}: {why}",
        before.len() + 1,
        last.outcome.label()
    );
    (Outcome::Flaky, Some(reason))
}

/// The path of the log of an earlier attempt.
pub(in crate::exec) fn attempt_log(log: &Path, number: u32) -> PathBuf {
    log.with_extension(format!("{number}.attempt"))
}

/// Removes the log of the execution before; before a first attempt, also the logs of earlier attempts.
pub(in crate::exec) fn clear_logs(log: &Path, attempts: &[Attempt]) {
    let _ = std::fs::remove_file(log);
    let mut number = 1;
    while attempts.is_empty() && std::fs::remove_file(attempt_log(log, number)).is_ok() {
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_after_a_failure_is_flaky_and_a_failure_stays_one() {
        let outcome = Outcome::Timeout;
        let reason = Some("slow".into());
        let attempt = attempt_of(
            &Record {
                outcome,
                reason,
                ..Record::default()
            },
            None,
        );
        assert_eq!(
            with_attempts(Outcome::Pass, None, &[]),
            (Outcome::Pass, None)
        );
        let (outcome, reason) = with_attempts(Outcome::Pass, None, std::slice::from_ref(&attempt));
        assert_eq!(
            (outcome, reason.as_deref()),
            (
                Outcome::Flaky,
                Some("it passed at attempt 2, after TIMEOUT: slow")
            )
        );
        assert_eq!(
            with_attempts(Outcome::Fail, Some("x".into()), &[attempt]).0,
            Outcome::Fail
        );
    }
}
