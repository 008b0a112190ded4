//! Values that were put there and not computed: infinities, and what a mask writes (−1e9, the type's lowest number).
//!
//! They are compared as a set of places. As values they would drown all others: one of them makes every sum its own.

use rayon::prelude::*;

use super::values::Values;

/// No computed value of a model is so large.
const ALWAYS: f64 = 1e30;
/// The least magnitude of a mask: −1e4 lies on top of a score.
const LEAST: f64 = 9e3;
/// A mask's value is so many times larger than all that was computed.
const GAP: f64 = 1e3;
/// A mask is one number, to which a small one may have been added.
const SPREAD: f64 = 1.01;
/// The largest value that half precision holds, about.
const HALF: f64 = 65500.0;

/// The places of a reference that hold sentinels.
pub(super) struct Sentinels {
    /// Empty if there are none.
    places: Vec<bool>,
    /// The largest magnitude of all other places.
    largest: f64,
}

impl Sentinels {
    pub(super) fn of<V: Values>(reference: V) -> Self {
        let largest = reference
            .blocks()
            .map(|block| block.fold(0.0, |largest: f64, at| largest.max(reference.at(at).abs())));
        let largest = largest.reduce(|| 0.0, f64::max);
        if largest < LEAST {
            let places = Vec::new();
            return Self { places, largest };
        }
        Self::among_large(reference)
    }

    /// The same where some values are so large that they may be sentinels.
    fn among_large<V: Values>(reference: V) -> Self {
        let values = || (0..reference.len()).map(|at| reference.at(at));
        let above = gap(values());
        let is_always = |value: f64| value.abs() >= ALWAYS;
        let is_candidate =
            |value: f64| above.is_some_and(|above| value.abs() >= above) && !is_always(value);
        let is_mask = [1.0, -1.0].map(|sign: f64| {
            let of_sign = values().filter(|value| is_candidate(*value) && value.signum() == sign);
            let (least, most) = of_sign.fold((f64::INFINITY, 0.0f64), |(least, most), v| {
                (least.min(v.abs()), most.max(v.abs()))
            });
            most <= SPREAD * least
        });
        let is_sentinel = |value: f64| {
            is_always(value)
                || is_candidate(value) && is_mask[usize::from(value.is_sign_negative())]
        };
        let computed = values().filter(|value| !is_sentinel(*value));
        let largest = computed.fold(0.0f64, |largest, value| largest.max(value.abs()));
        let places = if values().any(is_sentinel) {
            values().map(is_sentinel).collect()
        } else {
            Vec::new()
        };
        Self { places, largest }
    }

    pub(super) fn holds(&self, at: usize) -> bool {
        self.places.get(at).copied().unwrap_or(false)
    }

    pub(super) fn count(&self) -> usize {
        self.places
            .iter()
            .filter(|is_sentinel| **is_sentinel)
            .count()
    }

    /// The first of these places at which `ours` holds something else: within 1 %, or as much as half precision can say.
    pub(super) fn misplaced<V: Values>(&self, ours: V, reference: V) -> Option<usize> {
        (0..self.places.len())
            .filter(|at| self.places[*at])
            .find(|&at| {
                let a = ours.at(at);
                let b = reference.at(at);
                let is_saturated = a.abs() >= HALF && a.abs() >= 10.0 * self.largest;
                let is_near = a == b || (a - b).abs() <= 0.01 * b.abs() && b.is_finite();
                a.signum() != b.signum() || !(is_near || is_saturated)
            })
    }
}

/// The magnitude from which on values may be a mask's: above the last gap in the sorted magnitudes.
fn gap(reference: impl Iterator<Item = f64>) -> Option<f64> {
    let magnitudes = reference
        .map(f64::abs)
        .filter(|size| *size > 0.0 && *size < ALWAYS);
    let mut large = Vec::new();
    let mut below = 0.0f64;
    for size in magnitudes {
        if size >= LEAST {
            large.push(size)
        } else {
            below = below.max(size)
        }
    }
    large.sort_unstable_by(f64::total_cmp);
    let before = std::iter::once(below).chain(large.iter().copied());
    let last = before
        .zip(&large)
        .filter(|(before, size)| *before > 0.0 && **size >= GAP * before)
        .last();
    last.map(|(_, size)| *size)
}
