//! Steps that failed for a transient reason, and are tried again after a pause. They occupy no slot meanwhile.
//!
//! `outcome` says what is transient; the command line and the spec say how often a step is tried.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::base::Digest;
use crate::event::Span;
use crate::record::{Attempt, Outcome, Record};
use crate::step::StepId;

/// Pauses that double, each between half and one and a half of its length, so that steps that failed together do not all
/// come back together.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// The pause before the second attempt.
    pub first: Duration,
    pub most: Duration,
    /// Equal seeds give equal pauses.
    pub seed: u64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            most: Duration::from_secs(60),
            seed: 0,
        }
    }
}

impl Backoff {
    /// The pause after so many failed attempts of a step.
    pub fn pause(&self, step: &str, failed: u32) -> Duration {
        let doubled = self
            .first
            .saturating_mul(2_u32.saturating_pow(failed.saturating_sub(1)));
        let digest = Digest::of(format!("{} {step} {failed}", self.seed).as_bytes());
        let bytes: [u8; 4] = digest.bytes()[..4]
            .try_into()
            .expect("BUG: a digest has 32 bytes");
        let share = f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0);
        doubled.min(self.most).mul_f64(0.5 + share)
    }
}

/// The attempts of this run, and who waits for another one.
#[derive(Default)]
pub(super) struct Retries {
    before: HashMap<StepId, Vec<Attempt>>,
    waiting: Vec<Waiting>,
    /// How often a tree was damaged when a step read it.
    losses: HashMap<(StepId, Digest), u32>,
}

/// So often an input may be damaged while a step reads it. Once is a disk's or somebody's mistake; what happens each time
/// is the step's own doing.
const MOST_LOSSES: u32 = 3;

struct Waiting {
    id: StepId,
    until: Instant,
    last: Last,
}

/// The last attempt, which counts if there is no other.
pub(super) enum Last {
    Executed(Box<Record>, Span),
    Unstarted(String),
}

impl Retries {
    pub(super) fn before(&self, id: StepId) -> Vec<Attempt> {
        self.before.get(&id).cloned().unwrap_or_default()
    }

    /// How many attempts of a step failed.
    pub(super) fn failed(&self, id: StepId) -> u32 {
        self.before
            .get(&id)
            .map_or(0, |attempts| attempts.len() as u32)
    }

    /// Counts a damaged input of the step. Whether the same input was damaged again and again: of many inputs, several may
    /// be damaged once.
    pub(super) fn keeps_losing(&mut self, id: StepId, input: Digest) -> bool {
        let losses = self.losses.entry((id, input)).or_default();
        *losses += 1;
        *losses >= MOST_LOSSES
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Puts a step aside for a pause.
    pub(super) fn wait(
        &mut self,
        id: StepId,
        attempt: Attempt,
        last: Last,
        now: Instant,
        pause: Duration,
    ) {
        let attempt = Attempt {
            waited_seconds: pause.as_secs_f64(),
            ..attempt
        };
        self.before.entry(id).or_default().push(attempt);
        self.waiting.push(Waiting {
            id,
            until: now + pause,
            last,
        });
    }

    /// Takes out those whose pause is over, or all.
    pub(super) fn due(&mut self, now: Instant, all: bool) -> Vec<(StepId, Last)> {
        let due = self
            .waiting
            .extract_if(.., |waiting| all || waiting.until <= now);
        due.map(|Waiting { id, last, .. }| (id, last)).collect()
    }
}

/// A failed execution as one of several attempts.
pub(super) fn attempt_of(record: &Record, log: Option<&Path>) -> Attempt {
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
    let told = format!(
        "it passed at attempt {}, after {}: {why}",
        before.len() + 1,
        last.outcome.label()
    );
    (Outcome::Flaky, Some(told))
}

/// The path of the log of an earlier attempt.
pub(super) fn attempt_log(log: &Path, number: u32) -> PathBuf {
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
    fn pauses_double_within_their_bounds_and_are_the_same_for_the_same_seed() {
        let backoff = Backoff {
            first: Duration::from_secs(1),
            most: Duration::from_secs(5),
            seed: 7,
        };
        for (failed, usual) in [(1, 1.0), (2, 2.0), (3, 4.0), (4, 5.0), (40, 5.0)] {
            let pauses: Vec<_> = (0..50)
                .map(|n| backoff.pause(&format!("run:{n}"), failed).as_secs_f64())
                .collect();
            assert!(
                pauses
                    .iter()
                    .all(|pause| (0.5 * usual..1.5 * usual).contains(pause)),
                "{failed}: {pauses:?}"
            );
            let spread = pauses
                .iter()
                .fold(0.0, |most: f64, pause| most.max((pause - pauses[0]).abs()));
            assert!(spread > 0.3 * usual, "{failed}: {pauses:?}");
        }
        assert_eq!(backoff.pause("run:a", 2), backoff.pause("run:a", 2));
        assert_ne!(
            backoff.pause("run:a", 2),
            Backoff { seed: 8, ..backoff }.pause("run:a", 2)
        );
    }

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
