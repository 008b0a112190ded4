//! How far outputs may be from the reference.

use serde::{Deserialize, Serialize};

use super::Precision;

/// How far outputs `a` may be from the reference `b`; all of it must hold (docs/specs/agreement.md).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Tolerance {
    /// The absolute part of the bound of each value, |a − b| <= atol · scale + rtol · |b|, where scale is the typical |b|.
    pub atol: f64,
    pub rtol: f64,
    /// Share of the values that may be beyond that bound, though none by more than four times.
    pub budget: f64,
    /// Least cosine similarity: of the tensor and of the first percentile of its rows.
    pub cosine: f64,
    /// Least signal to noise, decibels: of the same two.
    pub snr: f64,
    /// Least share of equal places of an output of tokens: of the same two. Older records know of none.
    #[serde(default = "all")]
    pub tokens: f64,
}

fn all() -> f64 {
    1.0
}

impl Tolerance {
    /// The bounds that hold if a spec gives none.
    pub const fn usual(precision: Precision) -> Self {
        match precision {
            Precision::Fp32 => Self {
                atol: 1e-3,
                rtol: 1e-3,
                budget: 0.0,
                cosine: 0.9999,
                snr: 50.0,
                tokens: 1.0,
            },
            Precision::Fp16 => Self {
                atol: 2e-2,
                rtol: 2e-2,
                budget: 1e-3,
                cosine: 0.999,
                snr: 30.0,
                tokens: 0.9,
            },
            Precision::Bf16 => Self {
                atol: 6e-2,
                rtol: 3e-2,
                budget: 5e-3,
                cosine: 0.995,
                snr: 20.0,
                tokens: 0.85,
            },
            Precision::Int8 => Self {
                atol: 1.5e-1,
                rtol: 1e-1,
                budget: 1e-2,
                cosine: 0.98,
                snr: 14.0,
                tokens: 0.8,
            },
            // The bounds of int8; docs/design/references.md, "Calibrated int8", says why more values may be beyond them.
            Precision::Int8Static => Self {
                budget: 2.5e-2,
                ..Self::usual(Precision::Int8)
            },
            // docs/design/references.md, "16 and 4 bits", says where these are from.
            Precision::A16w8 => Self {
                cosine: 0.99,
                snr: 17.0,
                ..Self::usual(Precision::Int8)
            },
            Precision::Int4 => Self {
                atol: 5e-1,
                rtol: 2e-1,
                budget: 5e-2,
                cosine: 0.85,
                snr: 5.0,
                tokens: 0.6,
            },
        }
    }

    /// The bounds that let through what `other` would not.
    pub fn looser_than(&self, other: &Self) -> Vec<&'static str> {
        let looser = [
            ("atol", self.atol > other.atol),
            ("rtol", self.rtol > other.rtol),
            ("budget", self.budget > other.budget),
            ("cosine", self.cosine < other.cosine),
            ("snr", self.snr < other.snr),
            ("tokens", self.tokens < other.tokens),
        ];
        looser
            .into_iter()
            .filter_map(|(name, is_looser)| is_looser.then_some(name))
            .collect()
    }
}
