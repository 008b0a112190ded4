//! The small computation by which a runtime shows that it computes in half precision: a matrix product and a layer norm.
//!
//! It is laid out as an artefact tree, so that a runtime runs it as it runs every model: through the same provider, on
//! the same device, strictly. Its inputs are exact in fp16 and bf16, so the outputs show the precision of the
//! computation.

use std::path::Path;

use anyhow::Context as _;
use prost::Message;

use crate::base::Precision;
use crate::base::fs as bfs;
use crate::runtime::onnx_proto::{
    GraphProto, ModelProto, NodeProto, TensorProto, TensorShape, ValueInfoProto,
};
use crate::runtime::tensors::{self, Element, Tensor, Tensors};

const ROWS: usize = 4;
const WIDTH: usize = 64;
/// ONNX's default.
const EPSILON: f64 = 1e-5;
/// More than fp32's error, which is below 1e-6 here, and less than the error of half precision.
const COARSE: f64 = 2e-5;

/// Writes the artefact tree, with tensors of this type throughout.
pub fn lay(tree: &Path, element: Element) -> anyhow::Result<()> {
    std::fs::create_dir_all(tree)?;
    bfs::write_new(tree.join("model.onnx"), model(element)?.encode_to_vec())?;
    bfs::write_new(
        tree.join("manifest.json"),
        r#"{"format":"onnx","inputs":["x"],"outputs":["y"]}"#,
    )?;
    let x = Tensor::of(element, &[ROWS, WIDTH], &input())?;
    tensors::write(
        &tree.join("inputs.safetensors"),
        &Tensors::from([("x".to_owned(), x)]),
    )
}

/// The error of outputs in half precision; otherwise why they are not.
pub fn judge(out: &Path, precision: Precision) -> anyhow::Result<Result<f64, String>> {
    let outputs = tensors::read(&out.join("outputs.safetensors"))?;
    let got = outputs
        .get("y")
        .context("it answered without the output `y`")?
        .to_f64();
    let want = expected();
    if got.len() != want.len() {
        return Ok(Err(format!(
            "{} values came out instead of {}",
            got.len(),
            want.len()
        )));
    }
    let off = got.iter().zip(&want).map(|(got, want)| (got - want).abs());
    // A NaN is no small error.
    let off = off.fold(0.0_f64, |most, one| {
        if one.is_nan() {
            f64::INFINITY
        } else {
            most.max(one)
        }
    });
    let bound = if precision == Precision::Bf16 {
        0.1
    } else {
        0.02
    };
    let precision = precision.word();
    Ok(match off {
        _ if off > bound => Err(format!("its {precision} is off by {off:.3}")),
        ..COARSE => Err(format!(
            "asked for {precision}, it computes in fp32: the result is exact to {off:.0e}"
        )),
        _ => Ok(off),
    })
}

fn model(element: Element) -> anyhow::Result<ModelProto> {
    let node = |operator: &str, inputs: &[&str], output: &str| {
        NodeProto::of(operator, &operator.to_lowercase(), inputs, output)
    };
    let constant = |name: &str, shape: &[usize], values: &[f64]| {
        let dims: Vec<_> = shape.iter().map(|size| *size as i64).collect();
        let raw = Tensor::of(element, shape, values)?.bytes().to_vec();
        anyhow::Ok(TensorProto::of(name, element.onnx(), &dims, raw))
    };
    let port = |name: &str| {
        ValueInfoProto::of(
            name,
            element.onnx(),
            Some(TensorShape::of(&[ROWS as i64, WIDTH as i64])),
        )
    };
    let graph = GraphProto {
        name: Some("half".to_owned()),
        node: vec![
            node("MatMul", &["x", "weight"], "product"),
            node("LayerNormalization", &["product", "scale", "shift"], "y"),
        ],
        initializer: vec![
            constant("weight", &[WIDTH, WIDTH], &weight())?,
            constant("scale", &[WIDTH], &[1.0; WIDTH])?,
            constant("shift", &[WIDTH], &[0.0; WIDTH])?,
        ],
        input: vec![port("x")],
        output: vec![port("y")],
        ..GraphProto::default()
    };
    // The opset of the usual domain, as a message of its own: version 17.
    Ok(ModelProto {
        ir_version: Some(8),
        opset_import: vec![vec![0x10, 17]],
        ..ModelProto::of(graph)
    })
}

/// Whole sixty-fourths within 1, spread by `step`.
fn values(count: usize, step: usize) -> Vec<f64> {
    (0..count)
        .map(|at| ((at * step + 11) % 127) as f64)
        .map(|value| (value - 63.0) / 64.0)
        .collect()
}

fn input() -> Vec<f64> {
    values(ROWS * WIDTH, 37)
}

fn weight() -> Vec<f64> {
    values(WIDTH * WIDTH, 59)
}

/// The product that the probe computes, in fp64.
fn expected() -> Vec<f64> {
    let x = input();
    let weight = weight();
    let row = |row: &[f64]| {
        let product = |column: usize| {
            row.iter()
                .zip(0..)
                .map(|(x, at): (_, usize)| x * weight[at * WIDTH + column])
                .sum()
        };
        let product: Vec<f64> = (0..WIDTH).map(product).collect();
        let mean = product.iter().sum::<f64>() / WIDTH as f64;
        let variance = product
            .iter()
            .map(|value| (value - mean).powi(2))
            .sum::<f64>()
            / WIDTH as f64;
        product
            .into_iter()
            .map(move |value| (value - mean) / (variance + EPSILON).sqrt())
            .collect::<Vec<_>>()
    };
    x.chunks(WIDTH).flat_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(
        precision: Precision,
        element: Element,
        change: impl Fn(f64) -> f64,
    ) -> Result<f64, String> {
        let out = tempfile::tempdir().unwrap();
        let values: Vec<f64> = expected().into_iter().map(change).collect();
        let y = Tensor::of(element, &[ROWS, WIDTH], &values).unwrap();
        tensors::write(
            &out.path().join("outputs.safetensors"),
            &Tensors::from([("y".to_owned(), y)]),
        )
        .unwrap();
        judge(out.path(), precision).unwrap()
    }

    #[test]
    fn rounded_outputs_are_half_precision_and_exact_ones_are_not() {
        assert!(judged(Precision::Fp16, Element::Float16, |value| value).unwrap() > 1e-4);
        assert!(judged(Precision::Bf16, Element::Bfloat16, |value| value).unwrap() > 1e-3);
        let exact = judged(Precision::Fp16, Element::Float32, |value| value).unwrap_err();
        assert!(
            exact.starts_with("asked for fp16, it computes in fp32: the result is exact to "),
            "{exact}"
        );
        assert!(
            judged(Precision::Fp16, Element::Float16, |value| value * 1.1)
                .unwrap_err()
                .contains("is off by 0.")
        );
        assert!(
            judged(Precision::Fp16, Element::Float16, |_| f64::NAN)
                .unwrap_err()
                .contains("is off by inf")
        );
    }

    #[test]
    fn nothing_that_it_is_given_is_rounded() {
        let given = [input(), weight()].concat();
        assert!(
            given
                .iter()
                .all(|value| half::bf16::from_f64(*value).to_f64() == *value)
        );
        assert!(
            given
                .iter()
                .all(|value| half::f16::from_f64(*value).to_f64() == *value)
        );
    }
}
