//! Masks among inputs, and what they look like where the last third of each row is padding.

use crate::runtime::tensors::{Element, Tensor, Tensors};

/// Names of inputs that say which places of another one count.
const NAMES: [&str; 6] = [
    "attention_mask",
    "decoder_attention_mask",
    "encoder_attention_mask",
    "input_mask",
    "padding_mask",
    "mask",
];

/// The inputs with padding in their masks; None where none of them is a mask without.
pub(super) fn padded(inputs: &Tensors) -> Option<Tensors> {
    let padded: Vec<_> = inputs
        .iter()
        .filter_map(|(name, tensor)| Some((name, of(name, tensor, inputs)?)))
        .collect();
    let mut changed = inputs.clone();
    changed.extend(
        padded
            .iter()
            .map(|(name, tensor)| ((*name).clone(), tensor.clone())),
    );
    (!padded.is_empty()).then_some(changed)
}

/// A mask is called one, or is as large as whole numbers beside it, has two axes and is 1 everywhere.
fn of(name: &str, tensor: &Tensor, inputs: &Tensors) -> Option<Tensor> {
    let [rows, width] = *tensor.shape() else {
        return None;
    };
    let is_ids = |(other, ids): (&String, &Tensor)| {
        other != name && ids.element() == Element::Int64 && ids.shape() == tensor.shape()
    };
    let is_mask =
        NAMES.contains(&name) || tensor.element() == Element::Int64 && inputs.iter().any(is_ids);
    let values = tensor.to_f64();
    if !is_mask || width < 3 || values.iter().any(|value| *value != 1.0) {
        return None;
    }
    let kept = width - width / 3;
    let values: Vec<f64> = (0..rows * width)
        .map(|at| if at % width < kept { 1.0 } else { 0.0 })
        .collect();
    Tensor::of(tensor.element(), tensor.shape(), &values).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_third_of_a_mask_is_padding_and_ids_are_none() {
        let ones = |element| Tensor::of(element, &[2, 7], &[1.0; 14]).unwrap();
        let ids = Tensor::of(
            Element::Int64,
            &[2, 7],
            &(0..14).map(f64::from).collect::<Vec<_>>(),
        )
        .unwrap();
        let given = |name: &str, mask: Tensor| {
            Tensors::from([("ids".to_owned(), ids.clone()), (name.to_owned(), mask)])
        };
        let row = [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0];
        for (name, mask) in [
            ("attention_mask", ones(Element::Float32)),
            ("m", ones(Element::Int64)),
        ] {
            let padded = padded(&given(name, mask)).unwrap();
            assert_eq!(
                (padded[name].to_f64(), &padded["ids"]),
                (row.repeat(2), &ids)
            );
        }
        assert_eq!(padded(&given("scale", ones(Element::Float32))), None);
        assert_eq!(
            padded(&given("attention_mask", ids.clone())),
            None,
            "not 1 everywhere"
        );
    }
}
