//! How much of a tolerance the outputs use: nothing where they are the reference's, all of it where they are about to fail.
//!
//! Each bound has a share of its own, and the greatest counts. Decibels and cosines say little by themselves: 118 dB and 128 dB are
//! alike where 50 are required.

use super::tensor::furthest;
use super::{Numerics, Rows, TensorNumerics};
use crate::spec::Tolerance;

impl Numerics {
    /// The greatest share of a tolerance's bounds that the outputs use; 1 is all of it.
    pub fn used(&self, tolerance: &Tolerance) -> f64 {
        let whole = [
            of_values(self.worst, tolerance),
            of_cosine(self.cosine, tolerance.cosine),
            of_noise(self.snr_db, tolerance.snr),
            of_tokens(self.tokens, tolerance),
        ];
        let tensors = self
            .tensors
            .values()
            .flat_map(|tensor| of_tensor(tensor, tolerance));
        whole.into_iter().chain(tensors).fold(0.0, f64::max)
    }
}

/// What the figures of the whole do not hold: the rows of a tensor, and how many of its values are beyond their bounds.
fn of_tensor(tensor: &TensorNumerics, tolerance: &Tolerance) -> [f64; 4] {
    let typical = |rows: Option<Rows>| rows.map(|rows| rows.p01);
    let beyond = if tolerance.budget > 0.0 {
        tensor.over / tolerance.budget
    } else {
        0.0
    };
    [
        beyond,
        of_cosine(typical(tensor.row_cosine), tolerance.cosine),
        of_noise(typical(tensor.row_snr_db), tolerance.snr),
        of_tokens(typical(tensor.row_tokens), tolerance),
    ]
}

fn of_values(worst: f64, tolerance: &Tolerance) -> f64 {
    worst / furthest(tolerance.budget)
}

fn of_cosine(cosine: Option<f64>, least: f64) -> f64 {
    cosine
        .filter(|_| least < 1.0)
        .map_or(0.0, |cosine| (1.0 - cosine) / (1.0 - least))
}

/// The noise as a share of the noise that is let through.
fn of_noise(snr: Option<f64>, least: f64) -> f64 {
    snr.map_or(0.0, |snr| 10f64.powf((least - snr) / 20.0))
}

fn of_tokens(tokens: Option<f64>, tolerance: &Tolerance) -> f64 {
    tokens
        .filter(|_| tolerance.tokens < 1.0)
        .map_or(0.0, |tokens| (1.0 - tokens) / (1.0 - tolerance.tokens))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Precision;

    fn numerics(snr: f64, worst: f64) -> Numerics {
        let json = serde_json::json!({"reference": "", "tolerance": null, "max_abs": 0.0, "mae": 0.0, "cosine": null,
            "snr_db": snr, "worst": worst, "passed": true, "tensors": {}});
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn the_bound_that_is_nearest_to_being_broken_says_how_much_is_used() {
        let used = |precision, snr, worst| numerics(snr, worst).used(&Tolerance::usual(precision));
        let fp32 = Precision::Fp32;
        assert!(used(fp32, 128.2, 0.0) < 0.001 && used(fp32, 118.6, 0.0) < 0.001);
        assert!((used(fp32, 50.0, 0.1) - 1.0).abs() < 1e-9);
        assert!((used(fp32, 56.0, 0.1) - 0.501).abs() < 1e-3);
        assert!((used(fp32, 200.0, 0.4) - 0.4).abs() < 1e-9);
        // A budget lets values be four times as far.
        assert!((used(Precision::Int8, 200.0, 2.0) - 0.5).abs() < 1e-9);
    }
}
