//! The verdict: whether outputs agree with the reference, and whether that proves anything.
//!
//! Pure: tensors and a tolerance in, figures and a verdict out. `python/orch_py/judge/judge.py` gives the same verdicts in
//! generated tests; `tests/fixtures/judge` holds both to one table. It knows nothing of models, runtimes and steps.
//!
//! A missing or extra tensor, another shape or type, and a NaN on either side are wrong whatever the tolerance says.

mod again;
mod evidence;
mod generation;
mod ids;
mod sentinel;
mod slices;
mod tensor;
mod tokens;
mod used;
mod values;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};

use crate::spec::Tolerance;

pub use again::Contradiction;
pub use evidence::{Evidence, EvidenceError};
pub use generation::{Generation, OtherToken};
pub use slices::Slices;
use tensor::Known;
pub use tensor::{Rows, TensorNumerics};
use values::with_values;

/// What a case comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The outputs are the reference's, and others would have been refused.
    Pass,
    /// They are not.
    Numerics,
    /// They are, and so would others have been.
    Indecisive,
}

/// The figures of a verdict, the worst over all tensors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Numerics {
    /// What the reference is, e.g. `torch 2.13.0 cpu fp32`.
    pub reference: String,
    /// What was requested.
    pub tolerance: Option<Tolerance>,
    /// Bounds of it that are looser than orch's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looser: Vec<String>,
    pub max_abs: f64,
    pub mae: f64,
    /// None where no tensor has one.
    pub cosine: Option<f64>,
    pub snr_db: Option<f64>,
    /// The least share of equal tokens; None where no output is one of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<f64>,
    /// The largest difference as a multiple of its bound.
    #[serde(default)]
    pub worst: f64,
    pub passed: bool,
    /// The numerics of each output tensor that could be compared.
    pub tensors: BTreeMap<String, TensorNumerics>,
    /// Slices of outputs that are so small beside others that they are judged by their own magnitude, by axis.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub slices: BTreeMap<String, Vec<Slices>>,
    /// What tells the outputs from those of another input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Control>,
    /// What tells them from those of the model without one of its layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<Dropped>,
    /// Why there is no control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_control: Option<String>,
    /// The tokens that were generated, where the model asks for some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<Generation>,
}

/// What the model gives for another input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Control {
    /// How far its outputs are from the reference, the largest difference over all tensors.
    pub differs_by: f64,
    /// `differs_by` as a multiple of the bound.
    pub worst: f64,
    /// The share of tokens that they have in common.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<f64>,
    /// Outputs for which they would have passed as the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undecided: Vec<String>,
    /// The owner of its outputs, where the reference is somebody else's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Inputs that are as given there: another value of them would ask for outputs of other shapes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
    /// Inputs of which another value changes no output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle: Vec<String>,
    /// Rows of the batch that change no output, from 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle_rows: Vec<usize>,
    /// How far the run was from them on that input; None where it was not run there.
    pub max_abs: Option<f64>,
}

/// What the model gives for the same input with all weights of one layer set to zero: the layer that changes least.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Dropped {
    pub layer: String,
    pub differs_by: f64,
    pub worst: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<f64>,
}

/// A reference, with what is known of its tensors of floats whatever is held against them.
pub(crate) struct Reference<'b> {
    pub(crate) tensors: SafeTensors<'b>,
    known: BTreeMap<String, Known>,
}

impl<'b> Reference<'b> {
    pub(crate) fn of(tensors: SafeTensors<'b>) -> Self {
        let known = tensors
            .iter()
            .filter_map(|(name, tensor)| Some((name.to_owned(), known(&tensor)?)));
        let known = known.collect();
        Self { tensors, known }
    }
}

/// None of a tensor that is not of floats.
fn known(tensor: &TensorView<'_>) -> Option<Known> {
    with_values!(tensor.dtype(), [values = tensor.data()], Known::of(values))
}

/// One set of outputs against another.
pub(crate) struct Comparison {
    pub(crate) tensors: BTreeMap<String, TensorNumerics>,
    /// Outputs that agree, and could have disagreed.
    agreeing: Vec<String>,
    reasons: Vec<String>,
}

impl Comparison {
    /// `tokens` names outputs whose whole numbers are tokens.
    pub(crate) fn of(
        ours: &SafeTensors<'_>,
        theirs: &Reference<'_>,
        tolerance: &Tolerance,
        tokens: &[String],
    ) -> Self {
        let ours: BTreeMap<_, _> = ours.iter().collect();
        let known = &theirs.known;
        let theirs: BTreeMap<_, _> = theirs.tensors.iter().collect();
        let mut made = Self {
            tensors: BTreeMap::new(),
            agreeing: Vec::new(),
            reasons: Vec::new(),
        };
        if theirs.is_empty() {
            made.reasons
                .push("the reference holds no tensors, so nothing was compared".to_owned());
        }
        for (name, reference) in &theirs {
            let Some(output) = ours.get(name) else {
                let known: Vec<_> = ours.keys().copied().collect();
                made.reasons.push(format!(
                    "the outputs lack tensor `{name}`; they hold [{}]",
                    known.join(", ")
                ));
                continue;
            };
            match one(
                output,
                reference,
                known.get(*name),
                tolerance,
                tokens.iter().any(|token| token == name),
            ) {
                Ok((figures, reason)) => {
                    if reason.is_none() && figures.decides {
                        made.agreeing.push((*name).to_owned());
                    }
                    made.reasons
                        .extend(reason.map(|reason| format!("tensor `{name}`: {reason}")));
                    made.tensors.insert((*name).to_owned(), figures);
                }
                Err(reason) => made.reasons.push(format!("tensor `{name}`: {reason}")),
            }
        }
        for name in ours.keys().filter(|name| !theirs.contains_key(*name)) {
            made.reasons.push(format!(
                "the outputs hold tensor `{name}`, which the reference lacks"
            ));
        }
        made
    }

    pub(crate) fn agrees(&self) -> bool {
        self.reasons.is_empty()
    }

    fn decides(&self) -> bool {
        self.tensors.values().any(|tensor| tensor.decides)
    }

    fn most(&self, pick: fn(&TensorNumerics) -> f64) -> f64 {
        self.tensors.values().map(pick).fold(0.0, f64::max)
    }

    fn least(&self, pick: fn(&TensorNumerics) -> Option<f64>) -> Option<f64> {
        self.tensors.values().filter_map(pick).reduce(f64::min)
    }

    /// One sentence: the first reason in full, the others counted.
    pub(crate) fn summary(&self) -> Option<String> {
        let (first, rest) = self.reasons.split_first()?;
        Some(if rest.is_empty() {
            first.clone()
        } else {
            format!("{first}; and {} more of this kind", rest.len())
        })
    }
}

/// Err when the two cannot be compared at all; otherwise the figures, and the reason when they are too far apart.
fn one(
    output: &TensorView<'_>,
    reference: &TensorView<'_>,
    known: Option<&Known>,
    tolerance: &Tolerance,
    is_tokens: bool,
) -> Result<(TensorNumerics, Option<String>), String> {
    let dtype = reference.dtype();
    let shape = reference.shape();
    if output.dtype() != dtype {
        return Err(format!(
            "dtype is {}, the reference's is {dtype}",
            output.dtype()
        ));
    }
    if output.shape() != shape {
        return Err(format!(
            "shape is {:?}, the reference's is {shape:?}",
            output.shape()
        ));
    }
    let ours = output.data();
    let theirs = reference.data();
    let name = dtype.to_string();
    if let Some(known) = known {
        let found = with_values!(
            dtype,
            [a = ours, b = theirs],
            tensor::floats(a, b, known, shape, &name, tolerance)
        );
        return found.expect("BUG: floats alone are known by themselves");
    }
    match (as_whole(dtype, ours), as_whole(dtype, theirs)) {
        (Some(a), Some(b)) if is_tokens => Ok(tokens::tokens(&a, &b, shape, &name, tolerance)),
        (Some(a), Some(b)) => Ok(tensor::exact(&a, &b, shape, &name)),
        _ => Err(format!(
            "values of dtype {name} cannot be compared; have the model return float or int"
        )),
    }
}

fn as_floats(dtype: Dtype, bytes: &[u8]) -> Option<Vec<f64>> {
    Some(match dtype {
        Dtype::F64 => each(bytes, f64::from_le_bytes),
        Dtype::F32 => each(bytes, |b| f64::from(f32::from_le_bytes(b))),
        Dtype::F16 => each(bytes, |b| half::f16::from_le_bytes(b).to_f64()),
        Dtype::BF16 => each(bytes, |b| half::bf16::from_le_bytes(b).to_f64()),
        _ => return None,
    })
}

fn as_whole(dtype: Dtype, bytes: &[u8]) -> Option<Vec<i128>> {
    Some(match dtype {
        Dtype::I64 => each(bytes, |b| i64::from_le_bytes(b).into()),
        Dtype::U64 => each(bytes, |b| u64::from_le_bytes(b).into()),
        Dtype::I32 => each(bytes, |b| i32::from_le_bytes(b).into()),
        Dtype::U32 => each(bytes, |b| u32::from_le_bytes(b).into()),
        Dtype::I16 => each(bytes, |b| i16::from_le_bytes(b).into()),
        Dtype::U16 => each(bytes, |b| u16::from_le_bytes(b).into()),
        Dtype::I8 => each(bytes, |b| i8::from_le_bytes(b).into()),
        Dtype::U8 => each(bytes, |b: [u8; 1]| b[0].into()),
        // Any byte but 0 is true: runtimes differ in which one they write.
        Dtype::BOOL => each(bytes, |b: [u8; 1]| (b[0] != 0).into()),
        _ => return None,
    })
}

fn each<const N: usize, T>(bytes: &[u8], decode: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes
        .as_chunks::<N>()
        .0
        .iter()
        .map(|chunk| decode(*chunk))
        .collect()
}
