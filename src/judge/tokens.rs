//! Tokens against their reference: ids, codes and labels, which are equal or not, by the share of equal places.
//!
//! Padding, silence and frames fill many places with few tokens, and any answer gets them right. So each token that
//! stands in the reference counts as much as every other, where that is less.

use std::collections::BTreeMap;

use super::tensor::{Rows, TensorNumerics, first_off, row_width, worst};
use crate::spec::Tolerance;

/// What sums of shares may be off by.
pub(super) const ROUNDING: f64 = 1e-9;

/// `a` are ours, `b` the reference's, both row-major and of `shape`. The reason is None where they agree.
pub(super) fn tokens(
    a: &[i128],
    b: &[i128],
    shape: &[usize],
    dtype: &str,
    tolerance: &Tolerance,
) -> (TensorNumerics, Option<String>) {
    let mut figures = TensorNumerics::new(shape, dtype);
    let differing = a.iter().zip(b).filter(|(a, b)| a != b).count();
    let width = row_width(shape, b.len());
    let rows = a
        .chunks(width)
        .zip(b.chunks(width))
        .filter_map(|(a, b)| share(a, b))
        .collect();
    let (Some(whole), Some(rows)) = (share(a, b), worst(rows)) else {
        return (figures, None);
    };
    let off = differing as f64 / b.len() as f64;
    // One token is as far from another as from any.
    (figures.max_abs, figures.mae, figures.over) = (f64::from(u8::from(differing > 0)), off, off);
    (figures.tokens, figures.row_tokens) = (Some(whole), Some(rows));
    let required = required(whole, rows, tolerance.tokens);
    let ratio = |(_, share, bound): (&str, f64, f64)| match () {
        () if share >= 1.0 => 0.0,
        () if bound >= 1.0 => 1.0 + differing as f64,
        () => (1.0 - share) / (1.0 - bound),
    };
    figures.worst = required.into_iter().map(ratio).fold(0.0, f64::max);
    let reason = too_few(whole, rows, tolerance.tokens).map(|(of, share, bound)| {
        let first = first_off(a, b, shape).expect("BUG: a share below 1 has a place that differs");
        format!("{differing} of {} tokens differ, {first}; the equal share{of} {share:.6} is below {bound}", b.len())
    });
    (figures, reason)
}

/// What is required of the share of equal places: which share, how much it is, and the least that it may be.
fn required(whole: f64, rows: Rows, least: f64) -> [(&'static str, f64, f64); 3] {
    [
        ("", whole, least),
        (" of the 1st percentile of rows", rows.p01, least),
        (" of the worst row", rows.worst, 1.0 - 2.0 * (1.0 - least)),
    ]
}

/// The first share that is below what is required.
pub(super) fn too_few(whole: f64, rows: Rows, least: f64) -> Option<(&'static str, f64, f64)> {
    required(whole, rows, least)
        .into_iter()
        .find(|(_, share, bound)| share + ROUNDING < *bound)
}

/// The share of equal places: of all, or the mean over the reference's tokens, whichever is less. None of no places.
fn share(a: &[i128], b: &[i128]) -> Option<f64> {
    let mut kinds: BTreeMap<i128, (u64, u64)> = BTreeMap::new();
    for (a, b) in a.iter().zip(b) {
        let (equal, count) = kinds.entry(*b).or_default();
        *equal += u64::from(a == b);
        *count += 1;
    }
    let equal: u64 = kinds.values().map(|(equal, _)| equal).sum();
    let of_kinds = kinds
        .values()
        .map(|(equal, count)| *equal as f64 / *count as f64)
        .sum::<f64>()
        / kinds.len() as f64;
    (!b.is_empty()).then(|| (equal as f64 / b.len() as f64).min(of_kinds))
}
