//! Slices that are small beside the rest of their tensor: rows, columns and channels for which the tensor's bounds let
//! anything pass, such as confidences beside boxes in pixels.
//!
//! `python/orch_py/judge.py` says the rule (6). It knows of one output at a time, for one or both inputs.

use serde::{Deserialize, Serialize};

use super::sentinel::Sentinels;
use super::tensor::{COLUMN, furthest, ratio, scale};
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slices {
    pub axis: usize,
    /// How many indices the axis has, and how many of their slices are judged so.
    pub of: usize,
    pub own: usize,
    /// Indices of slices that are wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrong: Vec<usize>,
    /// Indices of slices that cannot be told from a wrong answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undecided: Vec<usize>,
    /// The wrong answer that the first of them could be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_for: Option<String>,
}

impl Slices {
    /// The indices of `kind`, and what would pass there: `axis 2, index 4 of 5: zeros would pass as well`.
    pub(super) fn told(&self, kind: impl Fn(&Self) -> &[usize]) -> Option<String> {
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
        let told = format!(
            "axis {axis}, index {}{more} of {of}: {answer} would pass as well",
            shown.join(", ")
        );
        (!indices.is_empty()).then_some(told)
    }
}

/// One output for one input.
pub(super) struct Side {
    ours: Vec<f64>,
    reference: Vec<f64>,
    /// What the reference gives for the other input.
    other: Vec<f64>,
    computed: Vec<bool>,
    scale: f64,
}

impl Side {
    pub(super) fn new(ours: Vec<f64>, reference: Vec<f64>, other: Option<Vec<f64>>) -> Self {
        let sentinels = Sentinels::of(&reference);
        let scale = scale(&reference, &sentinels);
        let other = other.unwrap_or_else(|| reference.clone());
        let computed = (0..reference.len())
            .map(|at| !sentinels.holds(at) && other[at].abs() < MARK)
            .collect();
        Self {
            ours,
            reference,
            other,
            computed,
            scale,
        }
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

    fn at(self, side: &Side, at: usize, mean: f64) -> f64 {
        match self {
            Self::Zeros => 0.0,
            Self::Negative => -side.reference[at],
            Self::Constant => mean,
            Self::Other => side.other[at],
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

/// The same of a slice if an answer stood in it.
#[derive(Clone, Default)]
struct Answered {
    refused: bool,
    distance: f64,
    from_ours: f64,
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
}

/// The slices of all axes that are judged by their own magnitude.
pub(super) fn small(sides: &[Side], shape: &[usize], tolerance: &Tolerance) -> Vec<Slices> {
    let all: usize = shape.iter().product();
    let axes = (0..shape.len()).filter(|axis| shape[*axis] >= 2 && all >= LEAST * shape[*axis]);
    axes.filter_map(|axis| of_axis(sides, shape, axis, tolerance))
        .collect()
}

fn of_axis(
    sides: &[Side],
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
    let sums = summed(sides, &axis);
    let means: Vec<_> = sides.iter().map(|side| means(side, &axis)).collect();
    let scale = sides.iter().map(|side| side.scale).fold(0.0, f64::max);
    let residue = (RESIDUE * scale).powi(2);
    let tells = |index: usize| {
        means[0][index].count >= LEAST
            && sums[index].signal > sums[index].count.max(1) as f64 * residue
    };
    let mut is_own = vec![false; axis.size];
    let mut taken_for = vec![None; axis.size];
    for answer in Answer::ALL {
        let answered = answered(sides, &axis, answer, &means, tolerance);
        for (index, found) in answered
            .iter()
            .enumerate()
            .filter(|(index, _)| tells(*index))
        {
            let is_wrong = found.distance > sums[index].signal * 10f64.powf(-tolerance.snr / 10.0);
            if is_wrong && !found.refused {
                is_own[index] = true;
                let error = sums[index].error;
                let is_told = error < found.from_ours && error <= FARTHEST * found.distance;
                if !is_told && taken_for[index].is_none() {
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

fn summed(sides: &[Side], axis: &Axis) -> Vec<Sums> {
    let mut sums = vec![Sums::default(); axis.size];
    for side in sides {
        for at in (0..side.reference.len()).filter(|at| side.computed[*at]) {
            let one = &mut sums[axis.index(at)];
            one.count += 1;
            one.signal += side.reference[at].powi(2);
            one.error += (side.ours[at] - side.reference[at]).powi(2);
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

fn means(side: &Side, axis: &Axis) -> Vec<Means> {
    let mut means = vec![Means::default(); axis.size];
    for at in (0..side.reference.len()).filter(|at| side.computed[*at]) {
        let one = &mut means[axis.index(at)];
        one.count += 1;
        one.ours += side.ours[at];
        one.reference += side.reference[at];
    }
    for one in &mut means {
        let count = one.count.max(1) as f64;
        one.ours /= count;
        one.reference /= count;
    }
    means
}

/// What comes of each slice with this answer in it.
fn answered(
    sides: &[Side],
    axis: &Axis,
    answer: Answer,
    means: &[Vec<Means>],
    tolerance: &Tolerance,
) -> Vec<Answered> {
    let mut found = vec![Answered::default(); axis.size];
    for (side, means) in sides.iter().zip(means) {
        let all = side.computed.iter().filter(|computed| **computed).count();
        let mut counts = vec![(0usize, 0usize); axis.size];
        for at in (0..side.reference.len()).filter(|at| side.computed[*at]) {
            let index = axis.index(at);
            let one = &mut found[index];
            let a = side.ours[at];
            let b = side.reference[at];
            let w = answer.at(side, at, means[index].reference);
            // Of all constants the nearest to ours.
            let of_ours = if answer == Answer::Constant {
                means[index].ours
            } else {
                w
            };
            one.distance += (w - b).powi(2);
            one.from_ours += (a - of_ours).powi(2);
            let ratio = ratio(w, b, side.scale, tolerance);
            one.refused |= ratio > furthest(tolerance.budget);
            counts[index].0 += 1;
            counts[index].1 += usize::from(ratio > 1.0);
        }
        for (one, (count, beyond)) in found.iter_mut().zip(counts) {
            let beyond = beyond as f64;
            one.refused |= beyond > tolerance.budget * all as f64;
            one.refused |= axis.is_last && beyond > COLUMN * count as f64;
        }
    }
    found
}
