//! One tensor against its reference: by value, by the places of its sentinels, by direction and by noise.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::ids;
use super::sentinel::Sentinels;
use super::values::{BLOCK, Values, median_magnitude};
use crate::spec::Tolerance;

/// How many times the bound a value may be off at most, where a budget lets values beyond the bound.
const FURTHEST: f64 = 4.0;
/// What is beyond the bound lies scattered: of a column no more than half.
pub(super) const COLUMN: f64 = 0.5;
/// A column of fewer values tells nothing by itself.
const LEAST_COLUMN: u32 = 4;
/// Rows whose root mean square is below this share of the tensor's scale have no direction worth asking for.
const FAINT: f64 = 0.1;
/// Decibels that stand for "equal", and, negated, for "nothing right".
const MOST_DB: f64 = 200.0;
/// JSON knows no infinity.
const MOST: f64 = 1e300;

/// How one output tensor lies to its reference. Differences are over the places that the reference computed, that is
/// without its sentinels.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TensorNumerics {
    pub shape: Vec<u64>,
    pub dtype: String,
    /// max |a − b|
    pub max_abs: f64,
    /// mean |a − b|
    pub mae: f64,
    /// The cosine of the whole tensor; None where fewer than two values were computed.
    pub cosine: Option<f64>,
    /// The typical magnitude of the reference's values, which `atol` is multiplied by.
    pub scale: f64,
    /// Share of the values that lie beyond the bound.
    #[serde(default)]
    pub over: f64,
    /// `over` for the worst column: one index of the last axis, over all rows.
    #[serde(default)]
    pub column_over: f64,
    /// The largest |a − b| as a multiple of its bound.
    #[serde(default)]
    pub worst: f64,
    /// Signal to noise of the whole tensor, decibels.
    pub snr_db: Option<f64>,
    pub row_cosine: Option<Rows>,
    pub row_snr_db: Option<Rows>,
    /// The share of equal places of an output of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_tokens: Option<Rows>,
    /// Places of the reference that hold a mask's value or an infinity.
    #[serde(default)]
    pub sentinels: u64,
    /// Whether there is anything that could have been wrong.
    #[serde(default = "yes")]
    pub decides: bool,
}

fn yes() -> bool {
    true
}

impl TensorNumerics {
    /// Those of a tensor in which nothing differs, as far as no figure is known.
    pub(super) fn new(shape: &[usize], dtype: &str) -> Self {
        Self {
            shape: shape.iter().map(|&size| size as u64).collect(),
            dtype: dtype.to_owned(),
            scale: 1.0,
            decides: shape.iter().all(|size| *size > 0),
            ..Self::default()
        }
    }
}

/// A figure over the rows of the last axis.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Rows {
    pub worst: f64,
    /// The first percentile.
    pub p01: f64,
}

/// What a reference tensor of floats is by itself, whatever is held against it.
pub(crate) struct Known {
    nans: usize,
    pub(super) sentinels: Sentinels,
    pub(super) scale: f64,
}

impl Known {
    pub(super) fn of<V: Values>(values: V) -> Self {
        let sentinels = Sentinels::of(values);
        Self {
            nans: values.nans(),
            scale: scale(values, &sentinels),
            sentinels,
        }
    }
}

/// Floats: `a` are ours, `b` the reference's, both row-major and of `shape`. The reason is None where they agree; Err where
/// there is nothing to reckon with.
pub(super) fn floats<V: Values>(
    a: V,
    b: V,
    known: &Known,
    shape: &[usize],
    dtype: &str,
    tolerance: &Tolerance,
) -> Result<(TensorNumerics, Option<String>), String> {
    let mut figures = TensorNumerics::new(shape, dtype);
    for (nans, whose) in [(known.nans, "the reference"), (a.nans(), "the output")] {
        if nans > 0 {
            return Err(format!("{whose} holds {nans} NaN of {} values", b.len()));
        }
    }
    let Known {
        sentinels, scale, ..
    } = known;
    figures.sentinels = sentinels.count() as u64;
    figures.scale = *scale;
    let wrong = sentinels.misplaced(a, b).map(|at| {
        format!(
            "at {:?} it is {} where the reference has the sentinel {}",
            place(at, shape),
            six(a.at(at)),
            six(b.at(at))
        )
    });

    let held = Held {
        a,
        b,
        known,
        tolerance,
        width: row_width(shape, b.len()),
    };
    let (blocks, columns) = held.blocks(shape);
    if let Some(at) = blocks.iter().find_map(|block| block.not_finite) {
        return Err(format!(
            "at {:?} it is {} where the reference is {}",
            place(at, shape),
            a.at(at),
            six(b.at(at))
        ));
    }
    let mut total = Sums::default();
    let mut farthest = 0;
    let mut over = 0;
    for block in &blocks {
        total.merge(&block.total);
        over += block.over;
        if block.worst > figures.worst {
            (figures.worst, farthest) = (block.worst, block.farthest);
        }
    }
    figures.max_abs = total.max_abs.min(MOST);
    figures.mae = (total.sum_abs / total.count.max(1) as f64).min(MOST);
    figures.over = over as f64 / total.count.max(1) as f64;
    figures.column_over = columns.worst();
    figures.cosine = (total.count >= 2).then(|| total.cosine());
    figures.snr_db = (total.count >= 2).then(|| total.snr_db());
    figures.row_cosine = worst(
        blocks
            .iter()
            .flat_map(|block| &block.cosines)
            .copied()
            .collect(),
    );
    figures.row_snr_db = worst(
        blocks
            .iter()
            .flat_map(|block| &block.noises)
            .copied()
            .collect(),
    );
    let wrong = wrong.or_else(|| {
        let far = || {
            let at = place(farthest, shape);
            let ours = six(a.at(farthest));
            let theirs = six(b.at(farthest));
            format!("the farthest at {at:?}: {ours} where the reference is {theirs}")
        };
        beyond(&figures, tolerance, over, total.count, far)
    });
    let wrong = wrong.or_else(|| ids::wrong(a, b, shape, tolerance.tokens));
    figures.worst = figures.worst.min(MOST);
    Ok((figures, wrong))
}

/// Two tensors that are held against each other, in blocks of whole rows.
struct Held<'k, V> {
    a: V,
    b: V,
    known: &'k Known,
    tolerance: &'k Tolerance,
    /// Values of a row of the last axis.
    width: usize,
}

/// What a block of rows comes to.
#[derive(Default)]
struct Block {
    total: Sums,
    /// Cosine, and signal to noise, of each row that has a direction.
    cosines: Vec<f64>,
    noises: Vec<f64>,
    over: usize,
    /// The largest ratio to a bound, and where it is.
    worst: f64,
    farthest: usize,
    /// The first place at which ours is not finite.
    not_finite: Option<usize>,
}

impl<V: Values> Held<'_, V> {
    /// The blocks in their order, and the columns of all. Sums are those of one thread, however many there are.
    fn blocks(&self, shape: &[usize]) -> (Vec<Block>, Columns) {
        let rows = self.b.len().div_ceil(self.width);
        let in_block = (BLOCK / self.width).max(1);
        let blocks: Vec<_> = (0..rows)
            .step_by(in_block)
            .map(|first| first..rows.min(first + in_block))
            .collect();
        // Each thread counts columns of its own, which are added: so no more parts than threads.
        let in_part = blocks.len().div_ceil(rayon::current_num_threads()).max(1);
        let parts = blocks.par_chunks(in_part).map(|blocks| {
            let mut columns = Columns::of(self.b.len(), shape);
            let blocks = blocks
                .iter()
                .map(|rows| self.block(rows.clone(), &mut columns));
            (blocks.collect::<Vec<Block>>(), columns)
        });
        let parts: Vec<(Vec<Block>, Columns)> = parts.collect();
        let mut all = Vec::new();
        let mut columns = Columns::of(self.b.len(), shape);
        for (blocks, of_part) in parts {
            all.extend(blocks);
            columns.merge(&of_part);
        }
        (all, columns)
    }

    fn block(&self, rows: std::ops::Range<usize>, columns: &mut Columns) -> Block {
        let Known {
            sentinels, scale, ..
        } = self.known;
        let mut block = Block::default();
        for row in rows {
            let begin = row * self.width;
            let mut sums = Sums::default();
            for at in begin..self.b.len().min(begin + self.width) {
                if sentinels.holds(at) {
                    continue;
                }
                let a = self.a.at(at);
                let b = self.b.at(at);
                if !a.is_finite() {
                    block.not_finite = Some(at);
                    return block;
                }
                sums.add(a, b);
                let ratio = ratio(a, b, *scale, self.tolerance);
                block.over += usize::from(ratio > 1.0);
                columns.add(at - begin, ratio);
                if ratio > block.worst {
                    block.worst = ratio;
                    block.farthest = at;
                }
            }
            let has_direction =
                || (sums.theirs_squared / sums.count as f64).sqrt() >= FAINT * scale;
            if sums.count >= 2 && has_direction() {
                block.cosines.push(sums.cosine());
                block.noises.push(sums.snr_db());
            }
            block.total.merge(&sums);
        }
        block
    }
}

/// Whole numbers and truth values: equal everywhere, or wrong.
pub(super) fn exact(
    a: &[i128],
    b: &[i128],
    shape: &[usize],
    dtype: &str,
) -> (TensorNumerics, Option<String>) {
    let off: Vec<u128> = a.iter().zip(b).map(|(a, b)| a.abs_diff(*b)).collect();
    let differing = off.iter().filter(|off| **off > 0).count();
    let count = off.len().max(1) as f64;
    let most = off.iter().max().map_or(0.0, |off| *off as f64);
    let figures = TensorNumerics {
        max_abs: most,
        mae: off.iter().map(|off| *off as f64).sum::<f64>() / count,
        over: differing as f64 / count,
        worst: most,
        ..TensorNumerics::new(shape, dtype)
    };
    let first = first_off(a, b, shape)
        .map(|first| format!("{differing} of {} values differ, {first}", b.len()));
    (figures, first)
}

/// The first place at which whole numbers differ, with both.
pub(super) fn first_off(a: &[i128], b: &[i128], shape: &[usize]) -> Option<String> {
    let at = a.iter().zip(b).position(|(a, b)| a != b)?;
    Some(format!(
        "the first at {:?}: {} where the reference is {}",
        place(at, shape),
        a[at],
        b[at]
    ))
}

/// |a − b| as a multiple of `atol` · scale + `rtol` · |b|.
pub(super) fn ratio(a: f64, b: f64, scale: f64, tolerance: &Tolerance) -> f64 {
    if a == b {
        0.0
    } else {
        (a - b).abs() / (tolerance.atol * scale + tolerance.rtol * b.abs())
    }
}

/// The root mean square of the nonzero values, each clipped to four times their median: a few giants do not move it.
fn scale<V: Values>(b: V, sentinels: &Sentinels) -> f64 {
    let is_counted = |at: usize| !sentinels.holds(at) && b.at(at) != 0.0;
    let Some(median) = median_magnitude(b, is_counted) else {
        return 1.0;
    };
    let most = 4.0 * median;
    let clipped = b.blocks().map(|block| {
        let counted = block.filter(|at| is_counted(*at));
        counted.fold((0.0, 0usize), |(sum, count), at| {
            (sum + b.at(at).abs().min(most).powi(2), count + 1)
        })
    });
    let clipped: Vec<(f64, usize)> = clipped.collect();
    let sum: f64 = clipped.iter().map(|(sum, _)| sum).sum();
    let count: usize = clipped.iter().map(|(_, count)| count).sum();
    let scale = (sum / count as f64).sqrt();
    if scale > 0.0 { scale } else { 1.0 }
}

/// The bounds that do not hold.
pub(super) fn beyond(
    figures: &TensorNumerics,
    tolerance: &Tolerance,
    over: usize,
    count: usize,
    far: impl Fn() -> String,
) -> Option<String> {
    let mut broken = Vec::new();
    let most = furthest(tolerance.budget);
    if figures.over > tolerance.budget || figures.worst > most {
        broken.push(format!(
            "{over} of {count} values are beyond the bound, by up to {:.3} times, max_abs {:.3e}, {}",
            figures.worst,
            figures.max_abs,
            far()
        ));
    } else if figures.column_over > COLUMN {
        let share = 100.0 * figures.column_over;
        broken.push(format!(
            "{share:.0} % of one column's values are beyond the bound, {}",
            far()
        ));
    }
    for (name, whole, rows, least, least_row) in [
        (
            "cosine",
            figures.cosine,
            figures.row_cosine,
            tolerance.cosine,
            1.0 - 4.0 * (1.0 - tolerance.cosine),
        ),
        (
            "SNR",
            figures.snr_db,
            figures.row_snr_db,
            tolerance.snr,
            tolerance.snr - 6.0,
        ),
    ] {
        let required = [
            ("", whole, least),
            (
                " of the 1st percentile of rows",
                rows.map(|rows| rows.p01),
                least,
            ),
            (" of the worst row", rows.map(|rows| rows.worst), least_row),
        ];
        broken.extend(required.into_iter().find_map(|(of, value, bound)| {
            Some(format!(
                "{name}{of} {:.6} is below {bound}",
                value.filter(|value| *value < bound)?
            ))
        }));
    }
    (!broken.is_empty()).then(|| broken.join("; "))
}

/// How many times its bound a value may be off.
pub(super) fn furthest(budget: f64) -> f64 {
    if budget > 0.0 { FURTHEST } else { 1.0 }
}

/// The columns of a tensor: one for each index of the last axis, or none where a column is no more than a value.
struct Columns(Vec<Column>);

#[derive(Clone, Default)]
struct Column {
    /// How many of its values were computed, and how many of them are beyond the bound.
    count: u32,
    over: u32,
}

impl Columns {
    fn of(count: usize, shape: &[usize]) -> Self {
        let width = shape
            .last()
            .copied()
            .filter(|width| *width >= 2 && count > *width)
            .unwrap_or(0);
        Self(vec![Column::default(); width])
    }

    /// Adds the ratio of a column's value to its bound.
    fn add(&mut self, column: usize, ratio: f64) {
        if let Some(column) = self.0.get_mut(column) {
            column.count += 1;
            column.over += u32::from(ratio > 1.0);
        }
    }

    fn merge(&mut self, others: &Self) {
        for (one, other) in self.0.iter_mut().zip(&others.0) {
            one.count += other.count;
            one.over += other.over;
        }
    }

    fn telling(&self) -> impl Iterator<Item = &Column> {
        self.0.iter().filter(|column| column.count >= LEAST_COLUMN)
    }

    fn worst(&self) -> f64 {
        self.telling()
            .map(|column| f64::from(column.over) / f64::from(column.count))
            .fold(0.0, f64::max)
    }
}

/// Sums over one row or tensor.
#[derive(Default)]
struct Sums {
    count: usize,
    max_abs: f64,
    sum_abs: f64,
    ours_squared: f64,
    theirs_squared: f64,
    product: f64,
    noise: f64,
}

impl Sums {
    fn add(&mut self, a: f64, b: f64) {
        let off = (a - b).abs();
        self.count += 1;
        self.max_abs = self.max_abs.max(off);
        self.sum_abs += off;
        self.ours_squared += a * a;
        self.theirs_squared += b * b;
        self.product += a * b;
        self.noise += off * off;
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.max_abs = self.max_abs.max(other.max_abs);
        self.sum_abs += other.sum_abs;
        self.ours_squared += other.ours_squared;
        self.theirs_squared += other.theirs_squared;
        self.product += other.product;
        self.noise += other.noise;
    }

    /// 1 where both are equal, 0 where one alone is zero or a sum overflows.
    fn cosine(&self) -> f64 {
        if self.noise == 0.0 {
            return 1.0;
        }
        let cosine = self.product / (self.ours_squared.sqrt() * self.theirs_squared.sqrt());
        if cosine.is_finite() {
            cosine.clamp(-1.0, 1.0)
        } else {
            0.0
        }
    }

    fn snr_db(&self) -> f64 {
        if self.noise == 0.0 {
            return MOST_DB;
        }
        let db = 10.0 * (self.theirs_squared / self.noise).log10();
        if db.is_nan() {
            -MOST_DB
        } else {
            db.clamp(-MOST_DB, MOST_DB)
        }
    }
}

/// How many values a row of the last axis has; what has no such axis is one row.
pub(super) fn row_width(shape: &[usize], count: usize) -> usize {
    shape
        .last()
        .copied()
        .filter(|width| *width >= 2)
        .unwrap_or(count)
        .max(1)
}

pub(super) fn worst(mut values: Vec<f64>) -> Option<Rows> {
    values.sort_unstable_by(f64::total_cmp);
    Some(Rows {
        worst: *values.first()?,
        p01: values[(values.len() - 1) / 100],
    })
}

/// Six digits that mean something.
fn six(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || !value.is_finite() {
        value.to_string()
    } else if (1e-4..1e6).contains(&size) {
        let digits = (5 - size.log10().floor() as i32).max(0) as usize;
        let text = format!("{value:.digits$}");
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text
        }
    } else {
        format!("{value:.5e}")
    }
}

/// Row-major index of a flat position.
fn place(mut at: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (slot, &size) in index.iter_mut().zip(shape).rev() {
        *slot = at % size.max(1);
        at /= size.max(1);
    }
    index
}
