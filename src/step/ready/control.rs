//! The control of a ready file: a second input, by which a run shows that the model looks at what it is given.
//!
//! Of a recipe it is made where the first one is. Of the user's own tensors only these are known, so it is made of them:
//! their values in other places are values that the model takes.

use std::path::Path;

use crate::base::fs as bfs;
use crate::runtime::tensors::{self, CONTROL_INPUTS, Element, Tensor, Tensors};

/// Writes the control's inputs, or says why there are none.
pub(super) fn bring(
    recipe: Option<&Path>,
    given: &Tensors,
    out: &Path,
) -> anyhow::Result<Result<(), String>> {
    match recipe {
        Some(tree) if tree.join(CONTROL_INPUTS).is_file() => {
            bfs::copy_file(&tree.join(CONTROL_INPUTS), &out.join(CONTROL_INPUTS))?
        }
        Some(_) => {
            return Ok(Err(
                "its recipe makes the same inputs whatever the seed".to_owned()
            ));
        }
        None if given.is_empty() => return Ok(Err("the model takes no input".to_owned())),
        None => match perturbed(given) {
            Some(control) => tensors::write(&out.join(CONTROL_INPUTS), &control)?,
            None => {
                return Ok(Err(
                    "the given inputs have no other order: their values are all the same"
                        .to_owned(),
                ));
            }
        },
    }
    Ok(Ok(()))
}

/// The same values, each one place on; floats that are all the same are halved. None where nothing differs afterwards.
fn perturbed(given: &Tensors) -> Option<Tensors> {
    let changed: Tensors = given
        .iter()
        .map(|(name, tensor)| (name.clone(), other(tensor)))
        .collect();
    (changed != *given).then_some(changed)
}

fn other(tensor: &Tensor) -> Tensor {
    let element = tensor.element();
    let mut bytes = tensor.bytes().to_vec();
    if element == Element::Bool || bytes.is_empty() {
        return tensor.clone();
    }
    bytes.rotate_right(element.size());
    if bytes == tensor.bytes() {
        bytes = halved(element, &bytes);
    }
    Tensor::new(element, tensor.shape().to_vec(), bytes).expect("BUG: as many bytes as before")
}

fn halved(element: Element, bytes: &[u8]) -> Vec<u8> {
    fn each<const N: usize>(bytes: &[u8], half: impl Fn([u8; N]) -> [u8; N]) -> Vec<u8> {
        bytes
            .as_chunks::<N>()
            .0
            .iter()
            .flat_map(|value| half(*value))
            .collect()
    }
    match element {
        Element::Float64 => each(bytes, |value| {
            (f64::from_le_bytes(value) * 0.5).to_le_bytes()
        }),
        Element::Float32 => each(bytes, |value| {
            (f32::from_le_bytes(value) * 0.5).to_le_bytes()
        }),
        Element::Float16 => each(bytes, |value| {
            half::f16::from_f32(half::f16::from_le_bytes(value).to_f32() * 0.5).to_le_bytes()
        }),
        Element::Bfloat16 => each(bytes, |value| {
            half::bf16::from_f32(half::bf16::from_le_bytes(value).to_f32() * 0.5).to_le_bytes()
        }),
        _ => bytes.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(element: Element, bytes: &[u8]) -> Tensors {
        let shape = vec![bytes.len() / element.size()];
        Tensors::from([(
            "x".to_owned(),
            Tensor::new(element, shape, bytes.to_vec()).unwrap(),
        )])
    }

    fn of(element: Element, bytes: &[u8]) -> Option<Vec<f64>> {
        perturbed(&one(element, bytes)).map(|control| control["x"].to_f64())
    }

    #[test]
    fn values_move_on_by_one_and_stay_among_the_given_ones() {
        assert_eq!(of(Element::Uint8, &[1, 2, 3]), Some(vec![3.0, 1.0, 2.0]));
        let floats = [1.0f32, 2.0].map(f32::to_le_bytes).concat();
        assert_eq!(of(Element::Float32, &floats), Some(vec![2.0, 1.0]));
    }

    #[test]
    fn equal_floats_are_halved_and_what_cannot_change_has_no_control() {
        assert_eq!(
            of(
                Element::Float32,
                &[2.0f32, 2.0].map(f32::to_le_bytes).concat()
            ),
            Some(vec![1.0, 1.0])
        );
        assert_eq!(
            of(Element::Float16, &half::f16::from_f32(4.0).to_le_bytes()),
            Some(vec![2.0])
        );
        assert_eq!(of(Element::Float32, &0.0f32.to_le_bytes()), None);
        assert_eq!(of(Element::Int8, &[7, 7]), None);
        assert_eq!(of(Element::Bool, &[1, 0]), None);
    }

    #[test]
    fn a_recipe_s_control_is_taken_as_it_is() {
        let recipe = tempfile::tempdir().unwrap();
        let out = tempfile::tempdir().unwrap();
        let given = one(Element::Uint8, &[1, 2]);
        let refusal = bring(Some(recipe.path()), &given, out.path()).unwrap();
        assert_eq!(
            refusal,
            Err("its recipe makes the same inputs whatever the seed".to_owned())
        );
        tensors::write(
            &recipe.path().join(CONTROL_INPUTS),
            &one(Element::Uint8, &[9, 9]),
        )
        .unwrap();
        bring(Some(recipe.path()), &given, out.path())
            .unwrap()
            .unwrap();
        assert_eq!(
            tensors::read(&out.path().join(CONTROL_INPUTS)).unwrap(),
            one(Element::Uint8, &[9, 9])
        );
    }
}
