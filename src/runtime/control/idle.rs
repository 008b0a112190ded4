//! What of a model's inputs changes nothing: whole inputs, and rows of a batch.

use crate::runtime::tensors::{Element, Infer, Tensor, Tensors};

/// The number of rows that are tried.
const MOST_ROWS: usize = 8;
/// A change of an output by less than this share of its largest value is none.
const LEAST: f64 = 1e-6;

/// Inputs, and rows of all inputs, that may be others without a change of any output.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Idle {
    pub(super) inputs: Vec<String>,
    pub(super) rows: Vec<usize>,
}

/// Exchanges each input, and each row, for the `other` one alone. What the model does not take so is not idle.
pub(super) fn find(
    given: &Tensors,
    other: &Tensors,
    infer: &mut Infer<'_>,
) -> anyhow::Result<Idle> {
    let usual = infer(given)?;
    let mut is_idle = |tried: &Tensors| {
        let outputs = infer(tried);
        outputs.is_ok_and(|outputs| {
            usual
                .iter()
                .all(|(name, one)| !moves(one, outputs.get(name)))
        })
    };
    let mut idle = Idle::default();
    for (name, tensor) in other
        .iter()
        .filter(|(name, tensor)| given.get(*name).is_some_and(|one| one != *tensor))
    {
        let mut with = |tensor: Tensor| {
            let mut tried = given.clone();
            tried.insert(name.clone(), tensor);
            is_idle(&tried)
        };
        // Another order of its values, since the other values may be those in just the places that matter.
        if with(tensor.clone()) && with(moved_on(&given[name])) {
            idle.inputs.push(name.clone());
        }
    }
    let mut other = other.clone();
    other.retain(|name, _| !idle.inputs.contains(name));
    for row in 0..rows(given).min(MOST_ROWS) {
        let tried = with_row(given, &other, row);
        if tried != *given && is_idle(&tried) {
            idle.rows.push(row);
        }
    }
    Ok(idle)
}

/// The same values, each one place on.
fn moved_on(tensor: &Tensor) -> Tensor {
    let mut bytes = tensor.bytes().to_vec();
    if !bytes.is_empty() {
        bytes.rotate_right(tensor.element().size());
    }
    Tensor::new(tensor.element(), tensor.shape().to_vec(), bytes)
        .expect("BUG: as many bytes as before")
}

/// Whether an output is another one, beyond what the order of sums does.
pub(super) fn moves(one: &Tensor, other: Option<&Tensor>) -> bool {
    let Some(other) = other.filter(|other| other.shape() == one.shape()) else {
        return true;
    };
    if one.bytes() == other.bytes() {
        return false;
    }
    let is_float = matches!(
        one.element(),
        Element::Float64 | Element::Float32 | Element::Float16 | Element::Bfloat16
    );
    let ours = one.to_f64();
    let theirs = other.to_f64();
    let most = ours
        .iter()
        .filter(|value| value.is_finite())
        .fold(0.0f64, |most, value| most.max(value.abs()));
    let least = if is_float { LEAST * most } else { 0.0 };
    let is_near = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= least;
    !ours.iter().zip(&theirs).all(|(a, b)| is_near(*a, *b))
}

/// The rows of a batch: what all inputs with axes have first. One row is no batch.
fn rows(inputs: &Tensors) -> usize {
    let mut firsts = inputs
        .values()
        .filter_map(|tensor| tensor.shape().first().copied());
    let Some(first) = firsts.next().filter(|first| *first >= 2) else {
        return 0;
    };
    if firsts.all(|one| one == first) {
        first
    } else {
        0
    }
}

fn with_row(given: &Tensors, other: &Tensors, row: usize) -> Tensors {
    let one = |(name, tensor): (&String, &Tensor)| {
        let replaced = other
            .get(name)
            .filter(|other| other.shape() == tensor.shape() && !tensor.shape().is_empty());
        let replaced = replaced.map(|other| {
            let width = tensor.bytes().len() / tensor.shape()[0].max(1);
            let mut bytes = tensor.bytes().to_vec();
            bytes[row * width..][..width].copy_from_slice(&other.bytes()[row * width..][..width]);
            Tensor::new(tensor.element(), tensor.shape().to_vec(), bytes)
                .expect("BUG: as many bytes as before")
        });
        (name.clone(), replaced.unwrap_or_else(|| tensor.clone()))
    };
    given.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(shape: &[usize], values: &[f64]) -> Tensor {
        Tensor::of(Element::Float32, shape, values).unwrap()
    }

    #[test]
    fn an_input_and_a_row_that_change_nothing_are_found() {
        let inputs = |x: [f64; 3], unused: f64| {
            Tensors::from([
                ("x".to_owned(), floats(&[3, 1], &x)),
                ("mask".to_owned(), floats(&[3, 1], &[unused; 3])),
            ])
        };
        let mut first_two = |inputs: &Tensors| {
            let x = inputs["x"].to_f64();
            Ok(Tensors::from([("y".to_owned(), floats(&[2], &x[..2]))]))
        };
        let found = find(
            &inputs([1.0, 2.0, 3.0], 1.0),
            &inputs([4.0, 5.0, 6.0], 0.0),
            &mut first_two,
        )
        .unwrap();
        assert_eq!(
            found,
            Idle {
                inputs: vec!["mask".to_owned()],
                rows: vec![2]
            }
        );
    }
}
