//! Raw samples to figures: the one place where statistics are made.
//!
//! Quantiles interpolate between order statistics as numpy does by default. A tail quantile is given only from the
//! number of samples on at which a sample lies beyond it with 95 % probability (0.9²⁹, 0.95⁵⁹, 0.99²⁹⁹ ≈ 0.05): below that
//! it would be the maximum under another name. The interval of the median makes no assumption on the distribution: its
//! ends are order statistics, by the binomial.

use super::Metrics;
use crate::runtime::RawMeasure;

/// Statistics of a run; None when it was not timed, has no samples or one that is not a finite number, which is no measurement.
pub fn metrics(raw: &RawMeasure) -> Option<Metrics> {
    let times = raw.times.as_ref()?;
    let finite = |values: &[f64]| values.iter().all(|value| value.is_finite());
    if times.samples_ms.is_empty() || !finite(&times.samples_ms) || !finite(&[times.load_ms, times.first_ms]) {
        return None;
    }
    let mut sorted = times.samples_ms.clone();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let median = quantile(&sorted, 0.5);
    let spread = quantile(&sorted, 0.75) - quantile(&sorted, 0.25);
    let tail = |least: usize, q: f64| (n >= least).then(|| quantile(&sorted, q));
    let ci = median_rank(n).map(|rank| (sorted[rank - 1], sorted[n - rank]));
    Some(Metrics {
        load_ms: times.load_ms,
        first_ms: times.first_ms,
        median_ms: median,
        ci_low_ms: ci.map(|ci| ci.0),
        ci_high_ms: ci.map(|ci| ci.1),
        min_ms: sorted[0],
        max_ms: sorted[n - 1],
        p90_ms: tail(29, 0.9),
        p95_ms: tail(59, 0.95),
        p99_ms: tail(299, 0.99),
        noisy: spread > 0.1 * median,
        samples: n as u32,
        samples_ms: times.samples_ms.clone(),
        warmup: times.warmup_ms.len() as u32,
        peak_rss_bytes: raw.peak_rss_bytes,
        peak_device_bytes: raw.peak_device_bytes,
        sync: times.sync.clone(),
    })
}

/// Quantile `q` of a sorted, non-empty slice, by linear interpolation (Hyndman and Fan's type 7).
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = q * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

/// The rank r, counted from 1, with P(x_(r) <= median <= x_(n+1-r)) >= 95 % and the interval as short as it can be.
/// None below 6 samples, where even the whole range covers less.
fn median_rank(n: usize) -> Option<usize> {
    // P(fewer than r of n samples lie below the median) is the sum of the binomial's first r terms; in logarithms,
    // because 2^-n leaves the range of f64 at n = 1075.
    let mut log_term = -(n as f64) * std::f64::consts::LN_2;
    let mut below = 0.0;
    let mut rank = 0;
    while rank < n / 2 {
        below += log_term.exp();
        if below > 0.025 {
            break;
        }
        log_term += (((n - rank) as f64) / ((rank + 1) as f64)).ln();
        rank += 1;
    }
    (rank > 0).then_some(rank)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::runtime::Times;

    fn of(samples: Vec<f64>) -> Metrics {
        metrics(&raw(samples)).unwrap()
    }

    fn times(samples_ms: Vec<f64>) -> Times {
        let sync = "synchronous call".into();
        Times { load_ms: 5.0, first_ms: 2.0, warmup_ms: vec![1.0; 3], samples_ms, sync }
    }

    fn raw(samples_ms: Vec<f64>) -> RawMeasure {
        RawMeasure {
            times: Some(times(samples_ms)),
            peak_rss_bytes: Some(1 << 20),
            peak_device_bytes: None,
            requested_device: "cpu".into(),
            actual_device: "cpu".into(),
            placement: Default::default(),
        }
    }

    fn up_to(n: u32) -> Vec<f64> {
        // Not in order, so that a forgotten sort is seen.
        (1..=n).rev().map(f64::from).collect()
    }

    #[test]
    fn the_figures_are_numpys() {
        let m = of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!((m.median_ms, m.min_ms, m.max_ms), (2.5, 1.0, 4.0));
        assert_eq!((m.samples, m.warmup, m.peak_rss_bytes), (4, 3, Some(1 << 20)));
        assert_eq!(m.samples_ms, [4.0, 1.0, 3.0, 2.0]);
        let sorted = [1.0, 2.0, 4.0, 8.0];
        assert_eq!((quantile(&sorted, 0.25), quantile(&sorted, 0.75), quantile(&sorted, 0.875)), (1.75, 5.0, 6.5));
        assert_eq!((quantile(&sorted, 0.0), quantile(&sorted, 1.0), quantile(&[7.0], 0.9)), (1.0, 8.0, 7.0));
    }

    #[test]
    fn tails_need_their_number_of_samples() {
        let tails = |n| {
            let m = of(up_to(n));
            (m.p90_ms.is_some(), m.p95_ms.is_some(), m.p99_ms.is_some())
        };
        assert_eq!(tails(28), (false, false, false));
        assert_eq!(tails(29), (true, false, false));
        assert_eq!(tails(58), (true, false, false));
        assert_eq!(tails(59), (true, true, false));
        assert_eq!(tails(298), (true, true, false));
        assert_eq!(tails(299), (true, true, true));
        let m = of(up_to(301));
        assert_eq!((m.p90_ms, m.p95_ms, m.p99_ms), (Some(271.0), Some(286.0), Some(298.0)));
    }

    /// Ranks of the published tables for a two-sided 95 % interval of the median.
    #[test]
    fn the_interval_of_the_median_is_the_tabled_one() {
        for (n, rank) in
            [(6, 1), (8, 1), (9, 2), (10, 2), (12, 3), (15, 4), (20, 6), (25, 8), (30, 10), (50, 18), (100, 40)]
        {
            assert_eq!(median_rank(n), Some(rank), "n = {n}");
        }
        for n in 0..6 {
            assert_eq!(median_rank(n), None, "n = {n}");
        }
        let m = of(up_to(20));
        assert_eq!((m.ci_low_ms, m.ci_high_ms), (Some(6.0), Some(15.0)));
        assert_eq!(of(up_to(5)).ci_low_ms, None);
        // Normal approximation: n/2 − 0.98·√n, so 5000 − 98; 2^-10000 is zero in f64.
        assert!((4900..=4904).contains(&median_rank(10_000).unwrap()), "{:?}", median_rank(10_000));
    }

    #[test]
    fn noise_is_spread_against_the_median() {
        assert!(!of(vec![100.0, 100.0, 105.0, 110.0]).noisy);
        assert!(of(vec![100.0, 100.0, 120.0, 120.0]).noisy);
        assert!(!of(vec![3.0]).noisy);
    }

    #[test]
    fn no_samples_or_odd_ones_are_no_measurement() {
        assert_eq!(metrics(&raw(vec![])), None);
        assert_eq!(metrics(&raw(vec![1.0, f64::NAN])), None);
        let endless = Times { load_ms: f64::INFINITY, ..times(vec![1.0]) };
        assert_eq!(metrics(&RawMeasure { times: Some(endless), ..raw(vec![]) }), None);
        assert_eq!(metrics(&RawMeasure { times: None, ..raw(vec![]) }), None);
    }
}
