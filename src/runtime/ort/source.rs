//! The ONNX artefact that is to be compiled: read, checked against its own inputs, folded and lowered.
//!
//! All on the CPU, before any compiler runs; knows no option of QNN.

use std::collections::BTreeMap;
use std::path::Path;

use ::ort::session::Session;
use ::ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ::ort::value::ValueType;
use anyhow::{Context, ensure};

use super::host::{CPU, Host, plain};
use super::infer::{Feed, collect, infer};
use super::lowering::{Shapes, lower};
use crate::base::fs as bfs;
use crate::runtime::manifest::Manifest;
use crate::runtime::tensors::{self, Tensors};
use crate::runtime::{onnx_change, onnx_file};

/// How far a lowered graph may be from the original on the CPU, relative to the largest value (absolute up to 1): every
/// rule is exact, so only the order of summation is left to differ.
const PARITY: f64 = 1e-4;

/// The same of a graph that quantises: a sum in another order may fall on the other side of a rounding, which is a step of
/// a 255th of the range, and more after the layers that follow. The verdict is another matter: it is on the outputs.
const QUANTISED_PARITY: f64 = 0.05;

/// ONNX Runtime 1.31 merges a padding with 0 into the MaxPool behind it, whose own padding is the lowest number.
pub(super) const WRONG_OPTIMISERS: &str = "Pad_Fusion";

pub(super) struct Source<'j> {
    tree: &'j Path,
    pub(super) manifest: Manifest,
    pub(super) inputs: Tensors,
    pub(super) control: Option<Tensors>,
}

/// The model as the compiler gets it: static, folded, lowered, in one piece.
pub(super) struct Prepared {
    pub(super) bytes: Vec<u8>,
    pub(super) rules: BTreeMap<&'static str, u32>,
}

impl<'j> Source<'j> {
    pub(super) fn read(tree: &'j Path) -> anyhow::Result<Self> {
        let inputs = tensors::read(&tree.join("inputs.safetensors"))?;
        Ok(Self {
            tree,
            manifest: Manifest::read(tree)?,
            inputs,
            control: tensors::control_inputs(tree)?,
        })
    }

    /// What the compiler gets. Operators are written by others only where the model `is_rewritten`; whatever changed the
    /// graph, it is compared with the file on the CPU.
    pub(super) fn prepare(
        &self,
        host: &Host,
        is_quantised: bool,
        is_rewritten: bool,
    ) -> anyhow::Result<Prepared> {
        let file = self.tree.join("model.onnx");
        let mut builder = at(host, GraphOptimizationLevel::Disable)?;
        let mut original = builder
            .commit_from_file(&file)
            .map_err(plain)
            .context("failed to load model.onnx")?;
        let outputs: Vec<_> = original
            .outputs()
            .iter()
            .map(|output| output.name().to_owned())
            .collect();
        ensure!(
            outputs == self.manifest.outputs,
            "model.onnx returns {outputs:?}, and its manifest names {:?}",
            self.manifest.outputs
        );

        let parity = if is_quantised {
            QUANTISED_PARITY
        } else {
            PARITY
        };
        let lowered = lower(&self.folded(host)?, self.tree, is_rewritten, |exposed| {
            shapes(host, exposed)
        })?;
        let rewrites = || format!("after its constants were folded, and {:?}", lowered.rules);
        let mut changed = at(host, GraphOptimizationLevel::Disable)?
            .commit_from_memory(&lowered.bytes)
            .map_err(plain)
            .with_context(|| format!("the graph does not load {}", rewrites()))?;
        for inputs in [Some(&self.inputs), self.control.as_ref()]
            .into_iter()
            .flatten()
        {
            let of = |session: &mut Session| {
                collect(infer(session, &Feed::new(session, inputs)?)?, &outputs)
            };
            same(&of(&mut original)?, &of(&mut changed)?, parity).with_context(rewrites)?;
        }
        Ok(Prepared {
            bytes: lowered.bytes,
            rules: lowered.rules,
        })
    }

    /// The model with its open sizes closed and its constants computed, at the level that keeps to ONNX's own operators.
    fn folded(&self, host: &Host) -> anyhow::Result<Vec<u8>> {
        let folder = tempfile::tempdir().context("failed to make a temporary folder")?;
        let file = folder.path().join("folded.onnx");
        let builder = at(host, GraphOptimizationLevel::Level1)?
            .with_optimized_model_path(&file)
            .map_err(plain)?;
        let mut builder = builder
            .with_disabled_optimizers(WRONG_OPTIMISERS)
            .map_err(plain)?;
        let mut model = self.tree.join("model.onnx");
        let closed = onnx_change::closed(&model, &self.inputs)?;
        for (name, size) in closed.named {
            builder = builder
                .with_dimension_override(name, size as i64)
                .map_err(plain)?;
        }
        if let Some(bytes) = closed.model {
            for name in onnx_file::facts(&model)?.external {
                bfs::link_or_copy(&self.tree.join(&name), &folder.path().join(&name))
                    .with_context(|| {
                        format!("failed to bring `{name}`, which model.onnx keeps data in")
                    })?;
            }
            model = folder.path().join("model.onnx");
            bfs::write_new(&model, bytes)
                .context("failed to write the model with its sizes closed")?;
        }
        builder
            .commit_from_file(model)
            .map_err(plain)
            .context("failed to fold model.onnx")?;
        std::fs::read(&file).context("failed to read the folded model")
    }
}

fn at(host: &Host, level: GraphOptimizationLevel) -> anyhow::Result<SessionBuilder> {
    host.builder(CPU, &[])?
        .with_optimization_level(level)
        .map_err(plain)
}

/// The shapes that ONNX Runtime infers for a model's outputs, without running it.
fn shapes(host: &Host, bytes: &[u8]) -> anyhow::Result<Shapes> {
    let session = at(host, GraphOptimizationLevel::Disable)?
        .commit_from_memory(bytes)
        .map_err(plain);
    let session = session.context("failed to infer the shapes of model.onnx")?;
    let mut shapes = Shapes::new();
    for output in session.outputs() {
        let ValueType::Tensor { ty, shape, .. } = output.dtype() else {
            continue;
        };
        if shape.iter().all(|size| *size >= 0) {
            let element = ::ort::sys::ONNXTensorElementDataType::from(*ty) as i32;
            shapes.insert(output.name().to_owned(), (element, shape.to_vec()));
        }
    }
    Ok(shapes)
}

fn same(expected: &Tensors, got: &Tensors, parity: f64) -> anyhow::Result<()> {
    for (name, tensor) in expected {
        let lowered = &got[name];
        ensure!(
            lowered.shape() == tensor.shape(),
            "the lowered graph changes the shape of `{name}`"
        );
        let a = tensor.to_f64();
        let b = lowered.to_f64();
        let scale = a.iter().fold(1.0f64, |scale, value| scale.max(value.abs()));
        // Not finite on both sides at the same place is the same; on one side only it is not, whatever the tolerance.
        let near = |a: f64, b: f64| {
            a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= parity * scale
        };
        let wrong = a.iter().zip(&b).filter(|(a, b)| !near(**a, **b)).count();
        ensure!(
            wrong == 0,
            "the lowered graph computes `{name}` differently at {wrong} of {} places",
            a.len()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::tensors::{Element, Tensor};

    fn one(values: &[f64]) -> Tensors {
        Tensors::from([(
            "y".to_owned(),
            Tensor::of(Element::Float32, &[values.len()], values).unwrap(),
        )])
    }

    #[test]
    fn parity_allows_rounding_and_nothing_else() {
        assert!(same(&one(&[1.0, 100.0]), &one(&[1.00001, 100.005]), PARITY).is_ok());
        assert!(
            same(
                &one(&[f64::NAN, f64::INFINITY]),
                &one(&[f64::NAN, f64::INFINITY]),
                PARITY
            )
            .is_ok()
        );
        let error = same(&one(&[1.0, 2.0]), &one(&[1.0, 2.1]), PARITY)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "the lowered graph computes `y` differently at 1 of 2 places"
        );
        assert!(same(&one(&[1.0]), &one(&[f64::NAN]), PARITY).is_err());
        assert!(same(&one(&[1.0]), &one(&[1.0, 1.0]), PARITY).is_err());
    }
}
