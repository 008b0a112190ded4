//! Ids among floats: slices of whole numbers, such as the classes of detections beside their boxes.
//!
//! The distance between two ids means nothing, so a bound that is made for values of another size must not hold for them.

use super::tokens::ROUNDING;
use super::values::Values;

/// A slice of fewer places shows nothing by itself.
const LEAST: usize = 4;
/// Whole numbers from here on are what half precision makes of others.
const MOST: f64 = 16_777_216.0;
/// What bfloat16 may be off by, as a share of the number.
const STEP: f64 = 1.0 / 256.0;

/// Names the first slice of whole numbers of which more than the share `least` allows are other ones.
pub(super) fn wrong<V: Values>(a: V, b: V, shape: &[usize], least: f64) -> Option<String> {
    (0..shape.len())
        .filter(|axis| b.len() >= LEAST * shape[*axis].max(1))
        .find_map(|axis| {
            let stride: usize = shape[axis + 1..].iter().product();
            if !may_be_ids(b, shape, axis) {
                return None;
            }
            let index = |at: usize| at / stride % shape[axis];
            let mut is_ids = vec![true; shape[axis]];
            let mut is_any = vec![false; shape[axis]];
            for at in 0..b.len() {
                let value = b.at(at);
                is_ids[index(at)] &= is_whole(value);
                is_any[index(at)] |= value != 0.0;
            }
            if !is_ids
                .iter()
                .zip(&is_any)
                .any(|(is_ids, is_any)| *is_ids && *is_any)
            {
                return None;
            }
            let mut off = vec![0usize; shape[axis]];
            for at in 0..b.len() {
                let a = a.at(at);
                let b = b.at(at);
                let is_near = (a - b).abs() <= (STEP * b.abs()).max(0.5);
                off[index(at)] += usize::from(!is_near);
            }
            let count = b.len() / shape[axis];
            let is_wrong = |at: &usize| {
                let share = 1.0 - off[*at] as f64 / count as f64;
                is_ids[*at] && is_any[*at] && share + ROUNDING < least
            };
            let at = (0..shape[axis]).find(is_wrong)?;
            Some(format!(
                "{} of the {count} whole numbers at index {at} of axis {axis} are other ones",
                off[at]
            ))
        })
}

fn is_whole(value: f64) -> bool {
    value.fract() == 0.0 && value.abs() < MOST
}

/// Whether the first few places of any slice of the axis are whole numbers, as all places of ids are.
fn may_be_ids<V: Values>(b: V, shape: &[usize], axis: usize) -> bool {
    const FEW: usize = 16;
    let stride: usize = shape[axis + 1..].iter().product();
    (0..shape[axis]).any(|index| {
        (index * stride..b.len())
            .step_by(shape[axis] * stride)
            .flat_map(|begin| begin..begin + stride)
            .take(FEW)
            .all(|at| is_whole(b.at(at)))
    })
}
