//! What a file says of its tensors, as far as its runtime reads that: a reference is held to it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::ensure;

use crate::runtime::tensors::Tensors;

/// The names of a tensor's axes, where they have some, by its own name.
pub type Axes = BTreeMap<String, Vec<Option<String>>>;

/// Nothing, where the format has no such declarations.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Declared {
    pub inputs: Axes,
    pub outputs: Axes,
    /// Operators that draw random numbers, by type.
    pub random: BTreeSet<String>,
}

impl Declared {
    /// An error where an output has another size than the inputs have on an axis of the same name. Names for which the
    /// inputs themselves have several sizes are no claim.
    pub fn axes_hold(&self, inputs: &Tensors, outputs: &Tensors) -> anyhow::Result<()> {
        let mut sizes: BTreeMap<&str, BTreeMap<usize, &str>> = BTreeMap::new();
        for (input, axes) in &self.inputs {
            let Some(tensor) = inputs.get(input) else {
                continue;
            };
            for (name, size) in axes
                .iter()
                .zip(tensor.shape())
                .filter_map(|(name, size)| Some((name.as_ref()?, size)))
            {
                sizes.entry(name).or_default().insert(*size, input);
            }
        }
        for (output, axes) in &self.outputs {
            let Some(tensor) = outputs.get(output) else {
                continue;
            };
            for (axis, (name, found)) in axes.iter().zip(tensor.shape()).enumerate() {
                let of_inputs = name.as_ref().and_then(|name| sizes.get(name.as_str()));
                let Some((size, input)) = of_inputs
                    .filter(|sizes| sizes.len() == 1)
                    .and_then(BTreeMap::first_key_value)
                else {
                    continue;
                };
                ensure!(
                    size == found,
                    "the declared axis `{}` of the output `{output}` (axis {axis}) is {size} by the input `{input}`, and {found} \
                     came; export the model so that every index has its answer, or name the axis otherwise",
                    name.as_deref().unwrap_or_default()
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::tensors::{Element, Tensor};

    fn axes<const N: usize>(named: [(&str, [&str; 2]); N]) -> Axes {
        let one = |names: [&str; 2]| names.map(|name| Some(name.to_owned())).to_vec();
        named
            .into_iter()
            .map(|(name, names)| (name.to_owned(), one(names)))
            .collect()
    }

    fn tensors<const N: usize>(shapes: [(&str, &[usize]); N]) -> Tensors {
        let one = |shape: &[usize]| {
            Tensor::of(Element::Float32, shape, &vec![0.0; shape.iter().product()]).unwrap()
        };
        shapes
            .into_iter()
            .map(|(name, shape)| (name.to_owned(), one(shape)))
            .collect()
    }

    #[test]
    fn a_named_axis_has_one_size() {
        let declared = Declared {
            inputs: axes([("x", ["batch", "n"]), ("z", ["n", "m"])]),
            outputs: axes([("y", ["batch", "m"]), ("w", ["n", "other"])]),
            random: BTreeSet::new(),
        };
        let given = tensors([("x", &[3, 4]), ("z", &[5, 6])]);
        assert!(
            declared
                .axes_hold(&given, &tensors([("y", &[3, 6]), ("w", &[1, 1])]))
                .is_ok(),
            "`n` is 4 and 5"
        );
        let error = declared
            .axes_hold(&given, &tensors([("y", &[1, 6])]))
            .unwrap_err()
            .to_string();
        let expected = "the declared axis `batch` of the output `y` (axis 0) is 3 by the input `x`, and 1 came; ";
        assert!(error.starts_with(expected), "{error}");
    }
}
