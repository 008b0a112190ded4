//! Geometry of pictures: points and widths, no markup. Knows not which cases belong into one.

use serde::Serialize;

use super::format::ms;
use super::place::Place;
use super::{CaseResult, Metrics};

/// Above this ratio of the slowest to the fastest the small bars of a linear scale are no longer readable.
const LINEAR_RANGE: f64 = 20.0;
/// More points than a sparkline has pixels are drawn as the extremes of groups.
const POINTS: usize = 160;

/// One model's medians at one size side by side; widths are percent of the chart.
#[derive(Debug, Serialize)]
pub(super) struct Chart {
    model: String,
    /// `from 0 to 12.3 ms`, `logarithmic, from 1.00 ms to 100 ms`
    scale: String,
    bars: Vec<Bar>,
    /// Results that are not compared, counted: `1 emulated or software result left out`.
    left_out: Option<String>,
}

#[derive(Debug, Serialize)]
struct Bar {
    case: usize,
    name: String,
    text: String,
    noisy: bool,
    width: f64,
    /// Ends of the confidence interval of the median.
    interval: Option<(f64, f64)>,
}

impl Chart {
    /// Of cases, each with its position.
    pub(super) fn of(model: String, shown: &[(usize, &CaseResult, &Metrics)], left_out: Option<String>) -> Self {
        let ends = |m: &Metrics| [m.median_ms, m.ci_low_ms.unwrap_or(m.median_ms), m.ci_high_ms.unwrap_or(m.median_ms)];
        let values = shown.iter().flat_map(|(_, _, metrics)| ends(metrics));
        let scale = Scale::over(values);
        let bars = shown
            .iter()
            .map(|(at, case, m)| Bar {
                case: *at,
                name: Place::from(*case).variant.name(),
                text: ms(m.median_ms),
                noisy: m.noisy,
                width: scale.percent(m.median_ms),
                interval: m.ci_low_ms.zip(m.ci_high_ms).map(|(low, high)| (scale.percent(low), scale.percent(high))),
            })
            .collect();
        Chart { model, scale: scale.text(), bars, left_out }
    }
}

/// From 0, or in decades when the values are far apart.
struct Scale {
    low: f64,
    high: f64,
    decades: bool,
}

impl Scale {
    fn over(values: impl Iterator<Item = f64> + Clone) -> Self {
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let most = values.fold(0.0, f64::max);
        if most / least <= LINEAR_RANGE {
            return Self { low: 0.0, high: most, decades: false };
        }
        // The floor lies below the least value, so that no bar has length 0.
        let low = 10f64.powf((least * 0.999).log10().floor());
        Self { low, high: most, decades: true }
    }

    fn percent(&self, value: f64) -> f64 {
        let part = match self.decades {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => value / self.high,
        };
        tenths(part * 100.0)
    }

    fn text(&self) -> String {
        match self.decades {
            true => format!("logarithmic, from {} to {}", ms(self.low), ms(self.high)),
            false => format!("from 0 to {}", ms(self.high)),
        }
    }
}

/// The samples of a run in their order, in a box of 100 × 24.
#[derive(Debug, Serialize)]
pub(super) struct Sparkline {
    points: String,
    median_y: f64,
    low: String,
    high: String,
}

/// None below three samples: there is no course to see.
pub(super) fn sparkline(metrics: &Metrics) -> Option<Sparkline> {
    let samples = thinned(&metrics.samples_ms);
    if samples.len() < 3 {
        return None;
    }
    // Equal samples make a line in the middle.
    let (low, high) = (metrics.min_ms, metrics.max_ms);
    let y = |value: f64| if high > low { tenths(22.0 - 20.0 * (value - low) / (high - low)) } else { 12.0 };
    let step = 100.0 / (samples.len() - 1) as f64;
    let points: Vec<String> =
        samples.iter().enumerate().map(|(at, &value)| format!("{},{}", tenths(at as f64 * step), y(value))).collect();
    Some(Sparkline { points: points.join(" "), median_y: y(metrics.median_ms), low: ms(low), high: ms(high) })
}

/// At most `POINTS` values: the least and the greatest of each group, so that no outlier is lost.
fn thinned(samples: &[f64]) -> Vec<f64> {
    if samples.len() <= POINTS {
        return samples.to_vec();
    }
    let group = samples.len().div_ceil(POINTS / 2);
    let ends = |group: &[f64]| {
        [group.iter().copied().fold(f64::INFINITY, f64::min), group.iter().copied().fold(f64::NEG_INFINITY, f64::max)]
    };
    samples.chunks(group).flat_map(ends).collect()
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_values_share_a_linear_scale_and_far_ones_a_logarithmic_one() {
        let near = Scale::over([1.0, 5.0, 10.0].into_iter());
        assert_eq!((near.percent(5.0), near.percent(10.0), near.text()), (50.0, 100.0, "from 0 to 10.0 ms".into()));
        let far = Scale::over([1.0, 10.0, 1000.0].into_iter());
        assert_eq!((far.percent(1.0), far.percent(10.0), far.percent(1000.0)), (25.0, 50.0, 100.0));
        assert_eq!(far.text(), "logarithmic, from 0.10 ms to 1000 ms");
    }

    #[test]
    fn thinning_keeps_the_extremes() {
        let mut samples = vec![1.0; 5000];
        samples[1234] = 9.0;
        samples[4321] = 0.5;
        let thin = thinned(&samples);
        assert!(thin.len() <= POINTS, "{}", thin.len());
        assert!(thin.contains(&9.0) && thin.contains(&0.5));
        assert_eq!(thinned(&[1.0, 2.0]), [1.0, 2.0]);
    }
}
