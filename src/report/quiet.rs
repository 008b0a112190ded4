//! Whether a latency may be read as it stands: the one law of it, by which every page marks a figure that may not.
//!
//! | doubt | what was seen |
//! |---|---|
//! | noisy | the interquartile range of all samples is above 10 % of the median |
//! | disturbed | other processes, a hypervisor, heat or a quota slowed rounds down; of three and more, so many that fewer than three or no majority is left |
//! | two modes | the median is more than [`MODES`] times the lowest sample: the same code also runs much faster |
//! | moments differ | the medians of several rounds, or of the moments of a single one, are more than [`APART`] times each other |
//!
//! The law errs on one side: a figure without a mark is at most [`MODES`] times what was seen at best.

use serde::{Deserialize, Serialize};

use super::format::ms;
use super::{Metrics, ReportDoc, Round};
use crate::base::words::words;
use crate::device::Conditions;
use crate::device::conditions::DeviceState;

/// So many times the lowest sample the median may be.
const MODES: f64 = 1.25;
/// So many times each other medians of different moments may be.
const APART: f64 = 1.2;
/// So many rounds that nothing disturbed make a figure, or all where they are fewer.
const ENOUGH: usize = 3;
/// The mark before a figure that is not quiet.
pub(super) const MARK: &str = "~";

words! {
    /// Why a figure is not quiet.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Doubt {
        "noisy" => Noisy,
        "disturbed" => Disturbed,
        "two modes" => TwoModes,
        "moments differ" => MomentsDiffer,
    }
}

impl Metrics {
    /// The law: why this latency may not be read as it stands; nothing of a quiet one.
    pub fn doubts(&self) -> Vec<Doubt> {
        let medians = match self.rounds.as_slice() {
            [one] => one.moments_ms.clone(),
            several => several.iter().map(|round| round.median_ms).collect(),
        };
        let slowest = medians.iter().copied().fold(self.median_ms, f64::max);
        let fastest = medians.iter().copied().fold(self.median_ms, f64::min);
        let seen = [
            (self.noisy, Doubt::Noisy),
            (self.is_disturbed(), Doubt::Disturbed),
            (self.median_ms > MODES * self.min_ms, Doubt::TwoModes),
            (slowest > APART * fastest, Doubt::MomentsDiffer),
        ];
        seen.into_iter()
            .filter(|(is_seen, _)| *is_seen)
            .map(|(_, doubt)| doubt)
            .collect()
    }

    pub fn is_quiet(&self) -> bool {
        self.doubts().is_empty()
    }

    fn is_disturbed(&self) -> bool {
        let all = self.rounds.len();
        let quiet = self
            .rounds
            .iter()
            .filter(|round| !round.is_disturbed())
            .count();
        quiet < ENOUGH.min(all) || (all > 0 && 2 * quiet <= all)
    }

    /// The latency as it stands in cells: `1.23 ms`, or `~1.23 ms (0.98)`, where it is not quiet, with the lowest sample.
    pub(super) fn latency(&self) -> String {
        let median = ms(self.median_ms);
        if self.is_quiet() {
            return median;
        }
        let lowest = ms(self.min_ms);
        let unit = median.rfind(' ').map_or("", |at| &median[at..]);
        format!(
            "{MARK}{median} ({})",
            lowest.strip_suffix(unit).unwrap_or(&lowest)
        )
    }

    /// The figure of a cell of the matrix: that of decoding where the case decodes with a cache, and else the latency.
    pub(super) fn figure(&self) -> String {
        match &self.decoding {
            Some(decoding) => decoding.figure(self.is_quiet()),
            None => self.latency(),
        }
    }

    /// `noisy, two modes`; None of a quiet figure.
    pub(super) fn why_not_quiet(&self) -> Option<String> {
        let words: Vec<&str> = self.doubts().into_iter().map(Doubt::word).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

impl Round {
    /// Whether something besides the run itself slowed it down.
    pub(super) fn is_disturbed(&self) -> bool {
        self.conditions
            .as_ref()
            .is_some_and(Conditions::is_disturbed)
            || self.device.as_ref().is_some_and(DeviceState::is_disturbed)
    }
}

/// How many of the latencies that pages show are not quiet, and what to do; None where all are.
pub(super) fn note(doc: &ReportDoc) -> Option<String> {
    let shown = doc
        .cases
        .iter()
        .filter(|case| super::format::has_figure(case.status));
    let timed: Vec<&Metrics> = shown.filter_map(|case| case.metrics.as_ref()).collect();
    let doubtful = timed.iter().filter(|metrics| !metrics.is_quiet()).count();
    (doubtful > 0).then(|| {
        format!(
            "{MARK} {doubtful} of {} latencies are not quiet (in brackets the lowest sample): measure them again with `orch bench`, \
             or with `orch bench --strict`, which waits for a quiet machine",
            timed.len()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of these medians, each with a lowest sample of 1 ms.
    fn of(medians: &[f64]) -> Metrics {
        let mut metrics = super::super::fixture()
            .cases
            .into_iter()
            .find_map(|case| case.metrics)
            .unwrap();
        let round = |(median_ms, round): (&f64, u32)| Round {
            round,
            median_ms: *median_ms,
            min_ms: 1.0,
            ..Round::default()
        };
        metrics.rounds = medians.iter().zip(1..).map(round).collect();
        metrics.median_ms = super::super::stats::median_of(medians.iter().copied()).unwrap();
        (metrics.min_ms, metrics.noisy) = (1.0, false);
        metrics
    }

    fn disturb(round: &mut Round, others: f64) {
        let conditions = serde_json::json!({"yardstick_ms": [1.0, 1.0], "others_cores": others, "governor": "powersave"});
        round.conditions = Some(serde_json::from_value(conditions).unwrap());
    }

    #[test]
    fn a_quiet_figure_stands_alone_and_another_carries_its_mark_and_its_lowest() {
        assert_eq!(of(&[1.1, 1.2, 1.15]).latency(), "1.15 ms");
        let two = of(&[2.4]);
        assert_eq!(
            (two.doubts(), two.latency()),
            (vec![Doubt::TwoModes], "~2.40 ms (1.00)".to_owned())
        );
        assert_eq!(
            Metrics {
                noisy: true,
                ..of(&[1.1])
            }
            .doubts(),
            [Doubt::Noisy]
        );
        assert_eq!(of(&[12_000.0]).latency(), "~12.0 s (1.00 ms)");
    }

    #[test]
    fn moments_and_rounds_that_differ_by_more_than_a_fifth_are_reported() {
        assert_eq!(of(&[1.0, 1.19, 1.05]).doubts(), []);
        assert_eq!(of(&[1.0, 1.25, 1.05]).doubts(), [Doubt::MomentsDiffer]);
        let mut one = of(&[1.1]);
        one.rounds[0].moments_ms = vec![1.0, 1.1, 1.3];
        assert_eq!(one.why_not_quiet().as_deref(), Some("moments differ"));
        // Of several rounds each is a moment of its own, and within one of them little is known.
        let mut several = of(&[1.1, 1.1, 1.1]);
        several.rounds[0].moments_ms = vec![1.0, 1.1, 1.3];
        assert!(several.is_quiet());
    }

    #[test]
    fn a_disturbed_round_leaves_a_figure_to_the_others_if_they_are_enough() {
        let with = |disturbed: usize, all: usize| {
            let mut metrics = of(&vec![1.1; all]);
            metrics
                .rounds
                .iter_mut()
                .take(disturbed)
                .for_each(|round| disturb(round, 1.5));
            metrics
                .rounds
                .iter_mut()
                .skip(disturbed)
                .for_each(|round| disturb(round, 0.1));
            metrics.is_quiet()
        };
        assert!(
            with(0, 1) && with(0, 3) && with(1, 5) && with(2, 5),
            "a governor alone disturbs nothing"
        );
        assert!(!with(1, 1) && !with(1, 3) && !with(3, 5) && !with(3, 6));
    }
}
