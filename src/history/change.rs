//! Places where the level of a series changed: by medians, without assumptions on how its figures are distributed.
//!
//! Of all ways to part the series, the one is taken in which the absolute deviations of the figures from the medians of their parts are the
//! least in sum, where each cut costs 2T as well; found exactly, by dynamic programming. T = max(3 %, 3h), and h is the noise from one
//! figure to the next, which a change of the level does not raise: 1.4826 / √2 × the median of the absolute differences of
//! neighbours, the standard deviation where they are normal. A part has at least four figures: two that are slow in a row
//! are no level. A cut counts if the medians on its sides differ by more than T. All is done with logarithms, so it is relative.

use crate::report::stats::median_of;

/// The fewest figures that make a level.
const LEAST: usize = 4;
/// The least change that counts, as a share.
const SMALLEST: f64 = 0.03;
/// How many times the noise it must exceed.
const TIMES: f64 = 3.0;
/// No more figures than these are looked at, the last: the time that it takes grows with their square.
const MOST: usize = 256;
/// The factor from the median of absolute deviations to a standard deviation.
const NORMAL: f64 = 1.4826;

/// The place of a series from which on it is at another level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The first place of the new level.
    pub at: usize,
    /// The share by which it is higher than the one before: 0.1 is 10 % slower.
    pub by: f64,
}

/// The places where a series of positive figures changed its level, first to last.
pub fn changes(series: &[f64]) -> Vec<Change> {
    let skipped = series.len().saturating_sub(MOST);
    let logs = logarithms(&series[skipped..]);
    let threshold = SMALLEST.ln_1p().max(TIMES * spread(&logs));
    let mut cuts = parts(&logs, 2.0 * threshold);
    prune(&logs, threshold, &mut cuts);
    let change = |at: usize| Change {
        at: skipped + cuts[at],
        by: rise(&logs, &cuts, at).exp_m1(),
    };
    (1..cuts.len().saturating_sub(1)).map(change).collect()
}

/// The ends of the best parts, where each has its price; 0 is the first of them.
fn parts(logs: &[f64], price: f64) -> Vec<usize> {
    let deviations = |part: &[f64]| {
        let middle = median(part);
        part.iter().map(|value| (value - middle).abs()).sum::<f64>()
    };
    // For each end: the least cost up to there, and where its last part begins.
    let mut best = vec![(0.0, 0); logs.len() + 1];
    for end in 1..=logs.len() {
        let starts = (0..=end.saturating_sub(LEAST)).filter(|start| *start == 0 || *start >= LEAST);
        let costs =
            starts.map(|start| (best[start].0 + price + deviations(&logs[start..end]), start));
        best[end] = costs
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .expect("BUG: one part is always possible");
    }
    let mut ends = vec![logs.len()];
    while let Some(&end) = ends.last().filter(|end| **end > 0) {
        ends.push(best[end].1);
    }
    ends.reverse();
    ends
}

/// Takes out the cuts between levels that do not differ.
fn prune(logs: &[f64], threshold: f64, cuts: &mut Vec<usize>) {
    while let Some(at) =
        (1..cuts.len().saturating_sub(1)).find(|at| rise(logs, cuts, *at).abs() <= threshold)
    {
        cuts.remove(at);
    }
}

/// The rise from the level before a cut to the one after it.
fn rise(logs: &[f64], cuts: &[usize], at: usize) -> f64 {
    median(&logs[cuts[at]..cuts[at + 1]]) - median(&logs[cuts[at - 1]..cuts[at]])
}

/// How much the figures of a series vary from one to the next, as a share: h of the page above.
pub fn noise(series: &[f64]) -> f64 {
    spread(&logarithms(series))
}

fn logarithms(series: &[f64]) -> Vec<f64> {
    series
        .iter()
        .map(|value| value.max(f64::MIN_POSITIVE).ln())
        .collect()
}

fn spread(logs: &[f64]) -> f64 {
    let steps: Vec<f64> = logs
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).abs())
        .collect();
    NORMAL * median(&steps) / std::f64::consts::SQRT_2
}

/// 0 of nothing.
fn median(values: &[f64]) -> f64 {
    median_of(values.iter().copied()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rand::{Rng as _, SeedableRng as _};

    use super::*;

    /// Times with a floor and a tail, as they are: `noise` is about their spread.
    fn series(seed: u64, levels: &[(usize, f64)], noise: f64) -> Vec<f64> {
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let mut one = |level: f64| {
            let tail: f64 = -random.random::<f64>().max(1e-9).ln();
            level * (1.0 + noise * tail)
        };
        levels
            .iter()
            .flat_map(|&(count, level)| vec![level; count])
            .map(&mut one)
            .collect()
    }

    #[test]
    fn a_level_is_found_where_it_begins_and_back() {
        let found = changes(&[
            1.0, 1.01, 1.0, 1.02, 1.0, 1.21, 1.2, 1.22, 1.2, 1.0, 1.01, 1.0, 1.0,
        ]);
        assert_eq!(
            found.iter().map(|change| change.at).collect::<Vec<_>>(),
            [5, 9]
        );
        assert!(
            (found[0].by - 0.2).abs() < 0.02 && (found[1].by + 0.17).abs() < 0.02,
            "{found:?}"
        );
    }

    #[test]
    fn a_level_that_comes_and_goes_is_found_whatever_surrounds_it() {
        for (before, within, after) in [(10, 10, 10), (12, 4, 4), (4, 4, 20), (30, 5, 30)] {
            for seed in 0..20 {
                let figures = series(seed, &[(before, 1.0), (within, 1.2), (after, 1.0)], 0.01);
                let at: Vec<_> = changes(&figures).iter().map(|change| change.at).collect();
                assert_eq!(
                    at,
                    [before, before + within],
                    "{before} {within} {after} {seed} {figures:?}"
                );
            }
        }
    }

    #[test]
    fn outliers_noise_and_too_few_figures_are_no_level() {
        assert_eq!(changes(&[]), []);
        assert_eq!(changes(&[1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0]), []);
        assert_eq!(changes(&[1.0; 40]), []);
        assert_eq!(
            changes(&[1.0, 1.0, 1.0, 9.0, 1.0, 1.0, 9.0, 9.0, 1.0, 1.0, 1.0, 1.0]),
            []
        );
        assert_eq!(
            changes(&[1.0, 1.0, 1.0, 1.0, 1.02, 1.02, 1.02, 1.02]),
            [],
            "less than 3 %"
        );
    }

    #[test]
    fn of_two_hundred_steady_series_hardly_any_changes_and_of_as_many_slower_ones_almost_all() {
        let mut alarms = 0;
        let mut found = 0;
        for seed in 0..200 {
            alarms += usize::from(!changes(&series(seed, &[(30, 1.0)], 0.02)).is_empty());
            let slower = changes(&series(1000 + seed, &[(20, 1.0), (10, 1.1)], 0.02));
            found += usize::from(slower.iter().any(|change| change.at.abs_diff(20) <= 1));
        }
        assert!(alarms <= 2, "{alarms} false alarms of 200");
        assert!(found >= 190, "{found} of 200 found");
    }

    #[test]
    fn noise_is_a_share() {
        assert_eq!(noise(&[5.0; 9]), 0.0);
        let of = noise(&[1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.01, 0.99]);
        assert!((0.01..0.03).contains(&of), "{of}");
    }
}
