//! Slices that are small beside the rest of their tensor: rows, columns and channels for which the tensor's bounds let
//! anything pass, such as confidences beside boxes in pixels.
//!
//! `python/orch_py/judge/judge.py` says the rule (6). It knows of one output at a time, for one or both inputs.

use serde::{Deserialize, Serialize};

use super::tensor::{COLUMN, Known, furthest, ratio};
use super::values::Values;
use crate::spec::Tolerance;

/// A slice of fewer values tells nothing by itself.
const LEAST: usize = 4;
/// What is so many times smaller than the scale is what rounding leaves.
const RESIDUE: f64 = 1e-6;
/// The run may be twice as far from the reference as a wrong answer is, if it is nearer to the reference.
const FARTHEST: f64 = 4.0;
/// So many times the error of all other places is no rounding.
const STANDS_OUT: f64 = 100.0;
/// A value so large is a mark, in another input's outputs too.
const MARK: f64 = 1e30;

/// The slices of one axis that are judged by their own magnitude.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Slices {
    pub axis: usize,
    /// How many indices the axis has, and how many of their slices are judged so.
    pub of: usize,
    pub own: usize,
    /// Indices of slices that are wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrong: Vec<usize>,
    /// Indices of slices that a wrong answer could equal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undecided: Vec<usize>,
    /// The wrong answer that the first of them could be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_for: Option<String>,
}

impl Slices {
    /// The indices of `kind`, and what would pass there: `axis 2, index 4 of 5: zeros would pass as well`.
    pub(super) fn summary(&self, kind: impl Fn(&Self) -> &[usize]) -> Option<String> {
        const SHOWN: usize = 8;
        let indices = kind(self);
        let shown: Vec<_> = indices.iter().take(SHOWN).map(usize::to_string).collect();
        let more = indices.len().saturating_sub(SHOWN);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let Self {
            axis,
            of,
            taken_for,
            ..
        } = self;
        let answer = taken_for.as_deref().unwrap_or("a wrong answer");
        let text = format!(
            "axis {axis}, index {}{more} of {of}: {answer} would pass as well",
            shown.join(", ")
        );
        (!indices.is_empty()).then_some(text)
    }
}

/// One output for one input.
pub(super) struct Side<'k, V> {
    pub(super) ours: V,
    pub(super) reference: V,
    pub(super) known: &'k Known,
    /// What the reference gives for the other input; the reference itself where there is none.
    pub(super) other: V,
}

impl<V: Values> Side<'_, V> {
    fn is_computed(&self, at: usize) -> bool {
        !self.known.sentinels.holds(at) && self.other.at(at).abs() < MARK
    }

    /// The places that hold a computed value.
    fn computed(&self) -> impl Iterator<Item = usize> {
        (0..self.reference.len()).filter(|at| self.is_computed(*at))
    }
}

/// What a slice must not be taken for.
#[derive(Clone, Copy, PartialEq)]
enum Answer {
    Zeros,
    Negative,
    Constant,
    Other,
}

impl Answer {
    const ALL: [Self; 4] = [Self::Zeros, Self::Negative, Self::Constant, Self::Other];

    fn name(self) -> &'static str {
        match self {
            Self::Zeros => "zeros",
            Self::Negative => "its negative",
            Self::Constant => "a constant",
            Self::Other => "another input's",
        }
    }

    fn at<V: Values>(self, side: &Side<'_, V>, at: usize, mean: f64) -> f64 {
        match self {
            Self::Zeros => 0.0,
            Self::Negative => -side.reference.at(at),
            Self::Constant => mean,
            Self::Other => side.other.at(at),
        }
    }
}

/// Sums over a slice of all sides.
#[derive(Clone, Default)]
struct Sums {
    count: usize,
    signal: f64,
    error: f64,
}

/// What comes of a slice if an answer stands in it, on all sides on which the answer is wrong by the slice's own magnitude.
#[derive(Clone, Default)]
struct Answered {
    /// Whether the bounds of values refuse it on any side.
    refused: bool,
    /// Whether they also refuse the constant that is nearest to the run; of other answers, as `refused`.
    refused_as_ours: bool,
    distance: f64,
    from_ours: f64,
    error: f64,
}

impl Answered {
    /// Whether the bounds of values let the answer pass where it is wrong.
    fn passes(&self) -> bool {
        self.distance > 0.0 && !(self.refused && self.refused_as_ours)
    }

    /// Whether the run is nearer to the reference than to the answer.
    fn is_distinguished_from_the_run(&self) -> bool {
        self.error < self.from_ours && self.error <= FARTHEST * self.distance
    }
}

/// An axis: where the slice of each place is.
struct Axis {
    size: usize,
    /// How many values lie between two indices.
    stride: usize,
    is_last: bool,
}

impl Axis {
    fn index(&self, at: usize) -> usize {
        at / self.stride % self.size
    }

    /// The places of a slice, of `count` values in all.
    fn places(&self, index: usize, count: usize) -> impl Iterator<Item = usize> {
        let stride = self.stride;
        (index * stride..count)
            .step_by(self.size * stride)
            .flat_map(move |begin| begin..begin + stride)
    }
}

/// The slices of all axes that are judged by their own magnitude.
pub(super) fn small<V: Values>(
    sides: &[Side<'_, V>],
    shape: &[usize],
    tolerance: &Tolerance,
) -> Vec<Slices> {
    let all: usize = shape.iter().product();
    let axes = (0..shape.len()).filter(|axis| shape[*axis] >= 2 && all >= LEAST * shape[*axis]);
    axes.filter_map(|axis| of_axis(sides, shape, axis, tolerance))
        .collect()
}

fn of_axis<V: Values>(
    sides: &[Side<'_, V>],
    shape: &[usize],
    number: usize,
    tolerance: &Tolerance,
) -> Option<Slices> {
    let stride = shape[number + 1..].iter().product();
    let axis = Axis {
        size: shape[number],
        stride,
        is_last: number + 1 == shape.len(),
    };
    let scale = sides
        .iter()
        .map(|side| side.known.scale)
        .fold(0.0, f64::max);
    let residue = (RESIDUE * scale).powi(2);
    let is_settled = |index| is_settled(sides, &axis, index, residue, tolerance);
    if (0..axis.size).all(is_settled) {
        return None;
    }
    by_sums(sides, &axis, number, residue, tolerance)
}

/// The same by sums over all values of each slice.
fn by_sums<V: Values>(
    sides: &[Side<'_, V>],
    axis: &Axis,
    number: usize,
    residue: f64,
    tolerance: &Tolerance,
) -> Option<Slices> {
    let sums = summed(sides, axis);
    let means: Vec<_> = sides.iter().map(|side| means(side, axis)).collect();
    let tells = |index: usize| {
        means[0][index].count >= LEAST
            && sums[index].signal > sums[index].count.max(1) as f64 * residue
    };
    let mut is_own = vec![false; axis.size];
    let mut taken_for = vec![None; axis.size];
    for answer in Answer::ALL {
        let answered = answered(sides, axis, answer, &means, residue, tolerance);
        for (index, found) in answered
            .iter()
            .enumerate()
            .filter(|(index, _)| tells(*index))
        {
            if found.passes() {
                is_own[index] = true;
                if !found.is_distinguished_from_the_run() && taken_for[index].is_none() {
                    taken_for[index] = Some(answer);
                }
            }
        }
    }
    let own = is_own.iter().filter(|is_own| **is_own).count();
    let error: f64 = sums.iter().map(|one| one.error).sum();
    let count: usize = sums.iter().map(|one| one.count).sum();
    let stands_out = |index: usize| {
        let Sums {
            count: ours,
            error: off,
            ..
        } = sums[index];
        let elsewhere = (error - off) / (count - ours).max(1) as f64;
        off / ours.max(1) as f64 > (STANDS_OUT * elsewhere).max(residue)
    };
    let unlike = (0..axis.size).filter(|index| taken_for[*index].is_some());
    let (wrong, undecided) = unlike.partition(|index| stands_out(*index));
    let taken_for = taken_for
        .into_iter()
        .flatten()
        .next()
        .map(|answer| answer.name().to_owned());
    (own > 0).then_some(Slices {
        axis: number,
        of: axis.size,
        own,
        wrong,
        undecided,
        taken_for,
    })
}

/// Whether the slice is not judged by its own magnitude: single values tell it from every wrong answer, or it is no more than
/// what rounding leaves.
///
/// A few values show the former, as a rule, which spares most outputs the sums over all of theirs.
fn is_settled<V: Values>(
    sides: &[Side<'_, V>],
    axis: &Axis,
    index: usize,
    residue: f64,
    tolerance: &Tolerance,
) -> bool {
    let most = furthest(tolerance.budget);
    let mut refused = [false; 4];
    let mut count = 0;
    let mut signal = 0.0;
    for side in sides {
        let bound = |b: f64| most * (tolerance.atol * side.known.scale + tolerance.rtol * b.abs());
        let mut first: Option<f64> = None;
        for at in axis.places(index, side.reference.len()) {
            if !side.is_computed(at) {
                continue;
            }
            let b = side.reference.at(at);
            count += 1;
            signal += b.powi(2);
            refused[0] |= b.abs() > bound(b);
            refused[1] |= 2.0 * b.abs() > bound(b);
            // Two values so far apart that no constant is near to both.
            let first = *first.get_or_insert(b);
            refused[2] |= (b - first).abs() > bound(b) + bound(first);
            refused[3] |= (side.other.at(at) - b).abs() > bound(b);
            if refused == [true; 4] {
                return true;
            }
        }
    }
    signal <= f64::from(count.max(1)) * residue
}

fn summed<V: Values>(sides: &[Side<'_, V>], axis: &Axis) -> Vec<Sums> {
    let mut sums = vec![Sums::default(); axis.size];
    for side in sides {
        for at in side.computed() {
            let one = &mut sums[axis.index(at)];
            one.count += 1;
            one.signal += side.reference.at(at).powi(2);
            one.error += (side.ours.at(at) - side.reference.at(at)).powi(2);
        }
    }
    sums
}

/// How many values a slice of one side has, and their means.
#[derive(Clone, Default)]
struct Means {
    count: usize,
    ours: f64,
    reference: f64,
}

fn means<V: Values>(side: &Side<'_, V>, axis: &Axis) -> Vec<Means> {
    let mut means = vec![Means::default(); axis.size];
    for at in side.computed() {
        let one = &mut means[axis.index(at)];
        one.count += 1;
        one.ours += side.ours.at(at);
        one.reference += side.reference.at(at);
    }
    for one in &mut means {
        let count = one.count.max(1) as f64;
        one.ours /= count;
        one.reference /= count;
    }
    means
}

/// Sums over a slice of one side with an answer in it.
#[derive(Clone, Default)]
struct OnSide {
    count: usize,
    signal: f64,
    error: f64,
    distance: f64,
    from_ours: f64,
    bounds: Bounds,
    bounds_as_ours: Bounds,
}

/// How an answer stands to the bounds of values.
#[derive(Clone, Default)]
struct Bounds {
    is_too_far: bool,
    beyond: usize,
}

impl Bounds {
    fn add(&mut self, ratio: f64, tolerance: &Tolerance) {
        self.is_too_far |= ratio > furthest(tolerance.budget);
        self.beyond += usize::from(ratio > 1.0);
    }

    /// Whether they refuse the answer in a slice of `count` places, of `all` of the tensor.
    fn refuse(&self, count: usize, all: usize, axis: &Axis, tolerance: &Tolerance) -> bool {
        let beyond = self.beyond as f64;
        let is_column_off = axis.is_last && beyond > COLUMN * count as f64;
        self.is_too_far || beyond > tolerance.budget * all as f64 || is_column_off
    }
}

/// What comes of each slice with this answer in it.
fn answered<V: Values>(
    sides: &[Side<'_, V>],
    axis: &Axis,
    answer: Answer,
    means: &[Vec<Means>],
    residue: f64,
    tolerance: &Tolerance,
) -> Vec<Answered> {
    let share = 10f64.powf(-tolerance.snr / 10.0);
    let mut found = vec![Answered::default(); axis.size];
    for (side, means) in sides.iter().zip(means) {
        let all = side.computed().count();
        for (one, on) in found
            .iter_mut()
            .zip(on_side(side, axis, answer, means, tolerance))
        {
            one.refused |= on.bounds.refuse(on.count, all, axis, tolerance);
            one.refused_as_ours |= on.bounds_as_ours.refuse(on.count, all, axis, tolerance);
            let least = (share * on.signal).max(on.count as f64 * residue);
            if on.distance > least {
                one.distance += on.distance;
                one.from_ours += on.from_ours;
                one.error += on.error;
            }
        }
    }
    found
}

fn on_side<V: Values>(
    side: &Side<'_, V>,
    axis: &Axis,
    answer: Answer,
    means: &[Means],
    tolerance: &Tolerance,
) -> Vec<OnSide> {
    let mut found = vec![OnSide::default(); axis.size];
    for at in side.computed() {
        let index = axis.index(at);
        let one = &mut found[index];
        let a = side.ours.at(at);
        let b = side.reference.at(at);
        let w = answer.at(side, at, means[index].reference);
        // Of all constants the nearest to ours.
        let of_ours = if answer == Answer::Constant {
            means[index].ours
        } else {
            w
        };
        one.count += 1;
        one.signal += b.powi(2);
        one.error += (a - b).powi(2);
        one.distance += (w - b).powi(2);
        one.from_ours += (a - of_ours).powi(2);
        one.bounds
            .add(ratio(w, b, side.known.scale, tolerance), tolerance);
        one.bounds_as_ours
            .add(ratio(of_ours, b, side.known.scale, tolerance), tolerance);
    }
    found
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng as _, SeedableRng as _};

    use super::*;
    use crate::base::precision::Precision;

    /// A slice of small values beside larger ones, or of zeros, or like all others.
    fn drawn(random: &mut StdRng, shape: [usize; 2]) -> Vec<f64> {
        let sizes: Vec<f64> = (0..shape[1])
            .map(|_| [1.0, 1.0, 1e-3, 1e-9, 0.0][random.random_range(0..5)])
            .collect();
        let values = (0..shape[0] * shape[1]).map(|at| {
            let value: f64 = random.random_range(-1.0..1.0);
            value * sizes[at % shape[1]]
        });
        values.collect()
    }

    #[test]
    fn what_single_values_settle_sums_settle_alike() {
        let mut random = StdRng::seed_from_u64(7);
        let mut settled = 0;
        for _ in 0..2000 {
            let shape = [random.random_range(2..9), random.random_range(2..9)];
            let [reference, other] = [(); 2].map(|()| drawn(&mut random, shape));
            let ours = reference
                .iter()
                .map(|value| value + 1e-6 * random.random_range(-1.0..1.0))
                .collect::<Vec<f64>>();
            let known = Known::of(&reference[..]);
            let sides = [Side {
                ours: &ours[..],
                reference: &reference[..],
                known: &known,
                other: &other[..],
            }];
            let tolerance = Tolerance::usual(Precision::Fp32);
            for number in 0..2 {
                let axis = Axis {
                    size: shape[number],
                    stride: if number == 0 { shape[1] } else { 1 },
                    is_last: number == 1,
                };
                let residue = (RESIDUE * sides[0].known.scale).powi(2);
                let is_settled = |index| is_settled(&sides, &axis, index, residue, &tolerance);
                if (0..axis.size).all(is_settled) {
                    settled += 1;
                    let found = by_sums(&sides, &axis, number, residue, &tolerance);
                    assert_eq!(found, None, "{:?}", sides[0].reference);
                }
            }
        }
        assert!(settled > 100, "{settled}");
    }
}
