//! The pauses between the attempts of a step.

use std::time::Duration;

use crate::base::Digest;

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
}
