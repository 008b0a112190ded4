//! Whether times differ: by how much they vary over the history, and when both sides were measured anew, in turns.
//!
//! The rule, and how often it errs, is measured in `docs/performance.md`, "The gate": the lowest of each side's rounds, and a
//! threshold of three times what is not known of them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Change, Comparison, Figures, Kind, TIME};
use crate::report::format::rounds_of;
use crate::report::stats::{self, Basis};
use crate::report::{CaseResult, Round};

/// The noise above which a machine is too restless for the case: smaller differences are left out.
const RESTLESS: f64 = 0.10;
/// Two processes of the same code differ by so much, ms, by where their memory happens to lie.
const FLOOR_MS: f64 = 0.003;
/// A side has converged when its three lowest rounds are this close: further ones would hardly be lower.
const CLOSE: f64 = 0.01;
/// Samples of so many ms are so many in a round that samples for longer (`plan/clock.rs`) that none has fewer than usual, but on an overloaded machine.
const SHORT: f64 = 5.0;
/// Two may be as close by chance: that called 2 of 66 unchanged cases slower.
const THIRD: usize = 2;

/// How much the figures of one case vary from one execution to the next on one machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Noise {
    /// The noise as a share of the figure.
    pub share: f64,
    /// The number of executions from which it is known.
    pub executions: usize,
}

/// What the history tells of cases, each on a basis.
pub type Noises = BTreeMap<(String, Basis), Noise>;

impl Noise {
    /// Fewer executions tell nothing of how much they vary.
    pub const LEAST: usize = 8;

    /// Stored times that differ by less, as a share, are the same.
    pub(super) fn threshold(&self) -> f64 {
        TIME.max(3.0 * self.share)
    }

    fn hides(&self) -> Option<Verdict> {
        let threshold = self.threshold();
        (threshold > RESTLESS).then_some(Verdict::CannotTell(threshold))
    }
}

/// Why nobody can say that stored times are the same which do not differ by enough.
pub(super) fn hidden(noise: Option<Noise>, old: &CaseResult, new: &CaseResult) -> Option<Verdict> {
    match noise {
        Some(noise) => noise.hides(),
        None => Remeasured::of(old, new)
            .filter(Remeasured::may_hide)
            .map(|_| Verdict::Unsettled),
    }
}

/// What is known of a difference of times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Stored figures differ.
    Suspected,
    /// Stored figures do not differ, but could if there were more of them.
    Unsettled,
    /// Both sides were measured anew, and differ.
    Confirmed,
    /// This machine cannot tell differences below this share: by the rounds when both were measured anew, else by the history.
    CannotTell(f64),
}

/// The rounds of both sides of a case, in the order in which they were taken.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Remeasured {
    pub base: Vec<Round>,
    pub head: Vec<Round>,
}

impl Remeasured {
    /// What both reports hold of a case. None where one of them did not measure it.
    pub(super) fn of(base: &CaseResult, head: &CaseResult) -> Option<Self> {
        let rounds = |case: &CaseResult| Some(case.metrics.as_ref()?.rounds.clone());
        Some(Self {
            base: rounds(base)?,
            head: rounds(head)?,
        })
    }

    /// Whether a side's rounds lie so far apart that the lowest may hide a difference. Fewer than three say nothing of that.
    fn may_hide(&self) -> bool {
        self.sides().is_some_and(|sides| {
            sides
                .iter()
                .any(|side| side.open.is_finite() && side.open > TIME)
        })
    }

    /// Whether more rounds would hardly show another difference. A small one is reported only after all rounds that there may
    /// be: code can run in two tempi, by how its process came to lie in memory, and a few rounds may all be of the slower.
    pub fn has_converged(&self) -> bool {
        let Some([base, head]) = self.sides() else {
            return true;
        };
        let differs = difference(&base, &head);
        base.open.max(head.open) <= CLOSE
            && (differs <= threshold(&base, &head) || differs > RESTLESS)
    }

    /// Whether the first and the second half of what was taken in turns say each by itself that the sides differ by no more
    /// than this share. Where rounds lie far apart, two halves seldom come as close to each other by chance.
    fn halves_are_the_same(&self, share: f64) -> bool {
        let half = |late: bool| {
            let of = |rounds: &[Round]| {
                let (early, rest) = rounds.split_at(rounds.len() / 2);
                if late { rest.to_vec() } else { early.to_vec() }
            };
            Self {
                base: of(&self.base),
                head: of(&self.head),
            }
            .sides()
        };
        [false, true]
            .into_iter()
            .all(|late| half(late).is_some_and(|[base, head]| difference(&base, &head) <= share))
    }

    /// Base and head, on the base's basis. None where a side was not timed.
    fn sides(&self) -> Option<[Lowest; 2]> {
        let basis = stats::basis(&self.base);
        // Of several threads: no moment is quiet for all of them as long as a long sample lasts.
        let is_shared = basis == Basis::LeastWall
            && self
                .base
                .iter()
                .all(|round| round.min_ms >= stats::SHORT_MS);
        let of = |rounds: &[Round]| {
            let each = rounds
                .iter()
                .map(|round| stats::statistic_on(std::slice::from_ref(round), basis));
            Lowest::of(
                each.map(|figure| Some(figure?.ms)).collect::<Option<_>>()?,
                is_shared,
            )
        };
        Some([of(&self.base)?, of(&self.head)?])
    }
}

/// The lowest of one side's rounds.
struct Lowest {
    ms: f64,
    /// What may be missing to the machine's own lowest, as a share: as much as the third lowest is above it, or, where the
    /// machine is never quiet, the median. Infinite where there are too few.
    open: f64,
}

impl Lowest {
    fn of(mut each: Vec<f64>, is_shared: bool) -> Option<Self> {
        each.sort_by(f64::total_cmp);
        let ms = *each.first()?;
        let next = each.get(if is_shared {
            THIRD.max(each.len() / 2)
        } else {
            THIRD
        });
        Some(Self {
            ms,
            open: next.map_or(f64::INFINITY, |next| next / ms - 1.0),
        })
    }
}

impl Comparison {
    /// Cases whose stored times differ, or could.
    pub fn suspects(&self) -> Vec<String> {
        let suspected = self
            .changes
            .iter()
            .filter(|change| change.verdict == Some(Verdict::Suspected));
        suspected
            .chain(&self.unsettled)
            .map(|change| change.case.clone())
            .collect()
    }

    /// Whether a case is so short that a round may sample for longer than usual and still end before the usual count is there.
    pub fn is_short(&self, case: &str) -> bool {
        let mut suspects = self
            .changes
            .iter()
            .filter(|change| change.verdict.is_some())
            .chain(&self.unsettled);
        let figures = suspects
            .find(|change| change.case == case)
            .and_then(|change| change.figures);
        figures.is_some_and(|figures| figures.base.max(figures.head) < SHORT)
    }

    /// Takes what measuring anew found. What is not among it stays suspected.
    pub fn remeasured(&mut self, found: BTreeMap<String, Remeasured>) {
        let rounds = found
            .values()
            .flat_map(|sides| [sides.base.len(), sides.head.len()]);
        if let Some(rounds) = rounds_of(rounds) {
            self.statistic = Some(format!("the lowest of {rounds}"));
        }
        let before = self.changes.len();
        self.changes.retain_mut(|change| {
            match found.get(&change.case).filter(|_| change.verdict.is_some()) {
                None => true,
                Some(rounds) => judge(change, rounds),
            }
        });
        let gone = before - self.changes.len();
        self.same += gone;
        self.refuted = Some(gone);
        for mut change in std::mem::take(&mut self.unsettled) {
            match found.get(&change.case) {
                None => self.unsettled.push(change),
                Some(rounds) if judge(&mut change, rounds) => {
                    // What changed in another way as well was not counted as the same.
                    self.same -=
                        usize::from(self.changes.iter().all(|other| other.case != change.case));
                    self.changes.push(change);
                }
                Some(_) => {}
            }
        }
        self.changes.sort_by_key(|change| change.kind);
        self.rounds = found;
    }
}

/// The difference as a share of the base's time.
fn difference(base: &Lowest, head: &Lowest) -> f64 {
    (head.ms / base.ms - 1.0).abs()
}

/// Sides that differ by less are the same.
fn threshold(base: &Lowest, head: &Lowest) -> f64 {
    TIME.max(FLOOR_MS / base.ms)
        .max(3.0 * base.open.max(head.open))
}

/// Whether a difference is left.
fn judge(change: &mut Change, found: &Remeasured) -> bool {
    let Some([base, head]) = found.sides() else {
        return true;
    };
    let threshold = threshold(&base, &head);
    let differs = difference(&base, &head);
    change.figures = Some(Figures {
        base: base.ms,
        head: head.ms,
    });
    // How much it varies over the history may tell that nothing changed where these rounds alone cannot; never that something did.
    let usual = change
        .noise
        .map(|noise| noise.threshold().max(FLOOR_MS / base.ms))
        .filter(|usual| *usual <= RESTLESS);
    let is_usual = usual.is_some_and(|usual| differs <= usual && found.halves_are_the_same(usual));
    let (kind, verdict) = match (differs > threshold, threshold > RESTLESS && !is_usual) {
        (true, _) if head.ms > base.ms => (Kind::Slower, Verdict::Confirmed),
        (true, _) => (Kind::Faster, Verdict::Confirmed),
        (false, true) => (Kind::CannotTell, Verdict::CannotTell(threshold)),
        (false, false) => return false,
    };
    (change.kind, change.verdict) = (kind, Some(verdict));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(times: [f64; 5]) -> Vec<Round> {
        let round = |(round, min_ms)| Round {
            round,
            min_ms,
            ..Round::default()
        };
        (1..).zip(times).map(round).collect()
    }

    fn suspected() -> Change {
        let kind = Kind::Slower;
        let case = "a:b".into();
        let verdict = Some(Verdict::Suspected);
        Change {
            kind,
            case,
            row: None,
            base: None,
            head: None,
            figures: None,
            verdict,
            noise: None,
            accepted: None,
        }
    }

    /// What is left of a difference, if anything is. Faster and slower are confirmed.
    fn left(base: [f64; 5], head: [f64; 5]) -> Option<Kind> {
        let mut change = suspected();
        let is_left = judge(
            &mut change,
            &Remeasured {
                base: rounds(base),
                head: rounds(head),
            },
        );
        let is_confirmed = change.verdict == Some(Verdict::Confirmed);
        assert!(
            !is_left
                || is_confirmed
                    != matches!(change.verdict, Some(Verdict::CannotTell(below)) if below > 0.1)
        );
        is_left.then_some(change.kind)
    }

    const QUIET: [f64; 5] = [1.0, 1.001, 1.002, 1.004, 1.5];

    #[test]
    fn a_difference_stays_if_the_lowest_of_both_sides_differ() {
        let restless = [1.0, 1.1, 1.25, 1.4, 1.6];
        // Threads that wait for each other need a quiet machine.
        let busy = [10.0, 10.05, 10.9, 11.4, 12.0];
        let quiet = QUIET.map(|ms| ms * 10.0);
        // Microseconds depend on where memory lies.
        let tiny = QUIET.map(|ms| ms * 0.05);
        for (base, head, expected) in [
            (QUIET, QUIET.map(|ms| ms * 1.1), Some(Kind::Slower)),
            (QUIET, QUIET.map(|ms| ms / 1.1), Some(Kind::Faster)),
            (QUIET, QUIET.map(|ms| ms * 1.02), None),
            // One quiet moment of either side is enough.
            (QUIET, [1.6, 1.012, 1.7, 1.01, 1.015], None),
            (
                restless,
                restless.map(|ms| ms * 1.08),
                Some(Kind::CannotTell),
            ),
            (QUIET, restless.map(|ms| ms * 1.08), Some(Kind::CannotTell)),
            (restless, restless.map(|ms| ms * 3.0), Some(Kind::Slower)),
            (busy, busy.map(|ms| ms * 1.06), Some(Kind::CannotTell)),
            (quiet, quiet.map(|ms| ms * 1.06), Some(Kind::Slower)),
            (tiny, tiny.map(|ms| ms + 0.002), None),
            (tiny, tiny.map(|ms| ms * 1.1), Some(Kind::Slower)),
        ] {
            assert_eq!(left(base, head), expected, "{base:?} {head:?}");
        }
    }

    #[test]
    fn where_a_side_has_not_converged_nothing_small_is_reported() {
        let restless = [1.0, 1.1, 1.25, 1.4, 1.6];
        let of = |base, head| Remeasured {
            base: rounds(base),
            head: rounds(head),
        };
        assert!(of(QUIET, QUIET).has_converged() && !of(QUIET, restless).has_converged());
        // A small difference may be one of the moment.
        let slower = |by| of(QUIET, QUIET.map(|ms| ms * by)).has_converged();
        assert!(!slower(1.05) && slower(1.2));
        assert!(!of(QUIET, QUIET).may_hide() && of(QUIET, restless).may_hide());
        let once = |times: [f64; 5]| rounds(times)[..1].to_vec();
        assert!(
            !Remeasured {
                base: once(QUIET),
                head: once(QUIET)
            }
            .may_hide()
        );
    }

    #[test]
    fn what_varies_over_the_history_must_differ_by_more_and_is_not_reported_to_be_the_same() {
        let noise = |share| Noise {
            share,
            executions: 30,
        };
        assert_eq!(
            (noise(0.001).threshold(), noise(0.001).hides()),
            (0.03, None)
        );
        assert_eq!((noise(0.02).threshold(), noise(0.02).hides()), (0.06, None));
        assert!(
            matches!(noise(0.05).hides(), Some(Verdict::CannotTell(below)) if (below - 0.15).abs() < 1e-9)
        );
    }

    #[test]
    fn what_the_history_knows_to_vary_little_is_the_same_if_both_halves_of_the_rounds_say_so() {
        let judged = |share: f64, base: [f64; 6], head: [f64; 6]| {
            let side = |times: [f64; 6]| {
                times
                    .map(|min_ms| Round {
                        min_ms,
                        ..Round::default()
                    })
                    .to_vec()
            };
            let mut change = Change {
                noise: Some(Noise {
                    share,
                    executions: 8,
                }),
                ..suspected()
            };
            judge(
                &mut change,
                &Remeasured {
                    base: side(base),
                    head: side(head),
                },
            )
            .then_some(change.kind)
        };
        let base = [1.2, 1.0, 1.3, 1.25, 1.01, 1.4];
        let same = [1.01, 1.3, 1.2, 1.02, 1.4, 1.2];
        assert_eq!(judged(0.005, base, same), None);
        // One half alone may be luck; and what varies by so much can tell nothing.
        assert_eq!(
            judged(0.005, base, [1.01, 1.3, 1.2, 1.08, 1.4, 1.2]),
            Some(Kind::CannotTell)
        );
        assert_eq!(judged(0.05, base, same), Some(Kind::CannotTell));
        // That something changed is shown by rounds, and by nothing else.
        assert_eq!(
            judged(0.005, base, same.map(|ms| ms * 1.1)),
            Some(Kind::CannotTell)
        );
        assert_eq!(judged(0.005, [1.0; 6], [1.1; 6]), Some(Kind::Slower));
    }
}
