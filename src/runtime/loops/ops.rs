//! What a loop computes between calls. Sums are reckoned in 64 bits and kept in 32, as in `python/orch_py/generate/loops.py`.

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use super::find;
use crate::runtime::tensors::{Element, Tensor, Tensors};

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Compute {
    of: Vec<String>,
    pub(super) gives: String,
    #[serde(flatten)]
    op: Op,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Op {
    Sum {
        by: Vec<f64>,
        clip: Option<(f64, f64)>,
    },
    Unit,
    Product,
    Best {
        place: Option<usize>,
    },
    Rows,
    Join {
        axis: usize,
    },
    Part {
        axis: usize,
        first: usize,
        last: usize,
    },
    Put {
        place: usize,
    },
}

impl Compute {
    pub(super) fn run(&self, values: &Tensors) -> anyhow::Result<Tensor> {
        let of: Vec<_> = self
            .of
            .iter()
            .map(|name| find(values, name))
            .collect::<anyhow::Result<_>>()?;
        let made = match (&self.op, &of[..]) {
            (Op::Sum { by, clip }, [_, ..]) if by.len() == of.len() => sum(&of, by, *clip),
            (Op::Unit, [value]) => unit(value),
            (Op::Product, [a, b]) => product(a, b),
            (Op::Best { place }, [scores]) => best(scores, *place),
            (Op::Rows, [table, numbers]) => rows(table, numbers),
            (Op::Join { axis }, [_, ..]) => join(&of, *axis),
            (Op::Part { axis, first, last }, [value]) => part(value, *axis, *first, *last),
            (Op::Put { place }, [value, column]) => put(value, column, *place),
            _ => bail!("{:?} takes other values than {}", self.op, self.of.len()),
        };
        made.with_context(|| format!("`{}` of `{}`", self.gives, self.of.join("`, `")))
    }
}

fn sum(of: &[&Tensor], by: &[f64], clip: Option<(f64, f64)>) -> anyhow::Result<Tensor> {
    let shape = of[0].shape();
    let mut total = vec![0.0; shape.iter().product()];
    for (value, by) in of.iter().zip(by) {
        let own: Vec<_> = value
            .shape()
            .iter()
            .copied()
            .skip_while(|size| *size == 1)
            .collect();
        ensure!(
            shape.ends_with(&own),
            "the shape {:?} does not repeat to {shape:?}",
            value.shape()
        );
        let values = value.to_f64();
        total
            .iter_mut()
            .zip(values.iter().cycle())
            .for_each(|(total, value)| *total += by * value);
    }
    if let Some((low, high)) = clip {
        total
            .iter_mut()
            .for_each(|value| *value = value.clamp(low, high));
    }
    Tensor::of(Element::Float32, shape, &total)
}

fn unit(value: &Tensor) -> anyhow::Result<Tensor> {
    let width = *value.shape().last().context("a number has no rows")?;
    let mut values = value.to_f64();
    for row in values.chunks_mut(width.max(1)) {
        let length = row
            .iter()
            .map(|value| value * value)
            .sum::<f64>()
            .sqrt()
            .max(1e-12);
        row.iter_mut().for_each(|value| *value /= length);
    }
    Tensor::of(Element::Float32, value.shape(), &values)
}

fn product(a: &Tensor, b: &Tensor) -> anyhow::Result<Tensor> {
    let (&[n, width], &[m, other]) = (a.shape(), b.shape()) else {
        bail!(
            "the shapes {:?} and {:?} are not those of rows",
            a.shape(),
            b.shape()
        )
    };
    ensure!(
        width == other && width > 0,
        "rows of {width} and of {other} have no product"
    );
    let a = a.to_f64();
    let b = b.to_f64();
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let found: Vec<_> = a
        .chunks(width)
        .flat_map(|x| b.chunks(width).map(move |y| dot(x, y)))
        .collect();
    Tensor::of(Element::Float32, &[n, m], &found)
}

/// Equal scores are decided for the first.
fn best(scores: &Tensor, place: Option<usize>) -> anyhow::Result<Tensor> {
    let (rows, places, kinds, place) = match (scores.shape(), place) {
        (&[rows, kinds], None) => (rows, 1, kinds, 0),
        (&[rows, places, kinds], Some(place)) if place < places => (rows, places, kinds, place),
        (shape, place) => bail!("the shape {shape:?} has no scores at {place:?}"),
    };
    ensure!(kinds > 0, "there is nothing to choose from");
    let values = scores.to_f64();
    let mut found = Vec::with_capacity(rows);
    for row in 0..rows {
        let at = (row * places + place) * kinds;
        let mut best = 0;
        for (kind, score) in values[at..at + kinds].iter().enumerate() {
            ensure!(!score.is_nan(), "a score of row {row} is NaN");
            if *score > values[at + best] {
                best = kind;
            }
        }
        found.push(best as f64);
    }
    Tensor::of(Element::Int64, &[rows], &found)
}

fn rows(table: &Tensor, numbers: &Tensor) -> anyhow::Result<Tensor> {
    let (&count, rest) = table
        .shape()
        .split_first()
        .context("a number has no rows")?;
    let size = table.bytes().len() / count.max(1);
    let mut bytes = Vec::new();
    for number in numbers.to_f64() {
        ensure!(
            (0.0..count as f64).contains(&number),
            "there is no row {number} of {count}"
        );
        bytes.extend(&table.bytes()[number as usize * size..][..size]);
    }
    Tensor::new(table.element(), [numbers.shape(), rest].concat(), bytes)
}

/// How many runs of bytes lie before an axis, how long one of its places is, and how many it has.
fn around(value: &Tensor, axis: usize) -> anyhow::Result<(usize, usize, usize)> {
    let shape = value.shape();
    let places = *shape
        .get(axis)
        .with_context(|| format!("the shape {shape:?} has no axis {axis}"))?;
    let size = shape[axis + 1..].iter().product::<usize>() * value.element().size();
    Ok((shape[..axis].iter().product(), size, places))
}

fn join(of: &[&Tensor], axis: usize) -> anyhow::Result<Tensor> {
    let (before, ..) = around(of[0], axis)?;
    let mut shape = of[0].shape().to_vec();
    shape[axis] = 0;
    for value in of {
        let mut other = value.shape().to_vec();
        ensure!(
            other.len() == shape.len() && value.element() == of[0].element(),
            "they are not of one kind"
        );
        shape[axis] += std::mem::replace(&mut other[axis], shape[axis]);
        other[axis] = shape[axis];
        ensure!(
            other == shape,
            "the shape {:?} does not fit behind {:?}",
            value.shape(),
            of[0].shape()
        );
    }
    let mut bytes = Vec::new();
    for at in 0..before {
        for value in of {
            let size = value.bytes().len() / before;
            bytes.extend(&value.bytes()[at * size..][..size]);
        }
    }
    Tensor::new(of[0].element(), shape, bytes)
}

fn part(value: &Tensor, axis: usize, first: usize, last: usize) -> anyhow::Result<Tensor> {
    let (before, size, places) = around(value, axis)?;
    ensure!(
        first < last && last <= places,
        "there are no places {first} to {last} of {places}"
    );
    let mut shape = value.shape().to_vec();
    shape[axis] = last - first;
    let of_one =
        |at: usize| &value.bytes()[(at * places + first) * size..(at * places + last) * size];
    Tensor::new(
        value.element(),
        shape,
        (0..before).flat_map(of_one).copied().collect(),
    )
}

fn put(value: &Tensor, column: &Tensor, place: usize) -> anyhow::Result<Tensor> {
    let &[rows, places] = value.shape() else {
        bail!("the shape {:?} is not that of rows", value.shape())
    };
    let fits = column.shape() == [rows] && column.element() == value.element() && place < places;
    ensure!(
        fits,
        "{} {:?} does not fit at place {place}",
        column.element().word(),
        column.shape()
    );
    let size = value.element().size();
    let mut bytes = value.bytes().to_vec();
    for row in 0..rows {
        bytes[(row * places + place) * size..][..size]
            .copy_from_slice(&column.bytes()[row * size..][..size]);
    }
    Tensor::new(value.element(), value.shape().to_vec(), bytes)
}
