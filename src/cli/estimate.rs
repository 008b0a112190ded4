//! The time that a run has left, from what its steps took before.

use std::collections::BTreeMap;
use std::time::Duration;

/// The share of the work that must be done before its speed says anything.
const ENOUGH: f64 = 0.05;

/// The work of a run in seconds of its steps: what there is, and what is done.
#[derive(Debug, Default)]
pub(super) struct Estimate {
    /// What each step took last; empty if the time of one of them is not known.
    recorded: BTreeMap<String, f64>,
    total: f64,
    done: f64,
}

impl Estimate {
    /// An estimate of `steps` steps. A step without a recorded time makes every estimate of the run a guess, so there is none.
    pub(super) fn new(steps: u32, recorded: BTreeMap<String, f64>) -> Self {
        if recorded.len() < steps as usize {
            return Self::default();
        }
        Self {
            total: recorded.values().sum(),
            recorded,
            done: 0.0,
        }
    }

    /// Counts a step as done by what it took before, not by what it takes now: the rest is counted in the same measure.
    pub(super) fn finish(&mut self, step: &str) {
        self.done += self.recorded.remove(step).unwrap_or(0.0);
    }

    /// The time left if the rest goes as fast as the work so far: several steps at once, and a busier machine, are in it.
    pub(super) fn left(&self, elapsed: Duration) -> Option<f64> {
        let is_known = self.total > 0.0 && self.done >= ENOUGH * self.total;
        is_known.then(|| elapsed.as_secs_f64() * (self.total - self.done).max(0.0) / self.done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(rows: &[(&str, f64)]) -> BTreeMap<String, f64> {
        rows.iter()
            .map(|(step, seconds)| (step.to_string(), *seconds))
            .collect()
    }

    #[test]
    fn the_rest_goes_as_fast_as_the_work_so_far() {
        let mut estimate = Estimate::new(3, recorded(&[("a", 2.0), ("b", 6.0), ("c", 2.0)]));
        assert_eq!(
            estimate.left(Duration::from_secs(1)),
            None,
            "nothing is done"
        );
        estimate.finish("a");
        // 2 s of work in 1 s, so 8 s of work in 4 s.
        assert_eq!(estimate.left(Duration::from_secs(1)), Some(4.0));
        estimate.finish("b");
        estimate.finish("never seen");
        assert_eq!(estimate.left(Duration::from_secs(4)), Some(1.0));
        estimate.finish("c");
        assert_eq!(estimate.left(Duration::from_secs(5)), Some(0.0));
    }

    #[test]
    fn a_step_without_a_record_leaves_no_estimate() {
        let mut estimate = Estimate::new(2, recorded(&[("a", 2.0)]));
        estimate.finish("a");
        assert_eq!(estimate.left(Duration::from_secs(1)), None);
        assert_eq!(Estimate::default().left(Duration::from_secs(1)), None);
    }
}
