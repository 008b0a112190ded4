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
    fn is_told_from_the_run(&self) -> bool {
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
        let answered = answered(sides, &axis, answer, &means, residue, tolerance);
        for (index, found) in answered
            .iter()
            .enumerate()
            .filter(|(index, _)| tells(*index))
        {
            if found.passes() {
                is_own[index] = true;
                if !found.is_told_from_the_run() && taken_for[index].is_none() {
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
fn answered(
    sides: &[Side],
    axis: &Axis,
    answer: Answer,
    means: &[Vec<Means>],
    residue: f64,
    tolerance: &Tolerance,
) -> Vec<Answered> {
    let share = 10f64.powf(-tolerance.snr / 10.0);
    let mut found = vec![Answered::default(); axis.size];
    for (side, means) in sides.iter().zip(means) {
        let all = side.computed.iter().filter(|computed| **computed).count();
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

fn on_side(
    side: &Side,
    axis: &Axis,
    answer: Answer,
    means: &[Means],
    tolerance: &Tolerance,
) -> Vec<OnSide> {
    let mut found = vec![OnSide::default(); axis.size];
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
        one.count += 1;
        one.signal += b.powi(2);
        one.error += (a - b).powi(2);
        one.distance += (w - b).powi(2);
        one.from_ours += (a - of_ours).powi(2);
        one.bounds
            .add(ratio(w, b, side.scale, tolerance), tolerance);
        one.bounds_as_ours
            .add(ratio(of_ours, b, side.scale, tolerance), tolerance);
    }
    found
}
