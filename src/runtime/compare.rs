//! Outputs against the reference: two safetensors files, tensor by tensor, under a tolerance.
//!
//! Strict on purpose: a missing or extra tensor, another shape or dtype, or a NaN or an infinity that stands on one side
//! only is a failure whatever the tolerance says. Integers and booleans must be equal. Knows nothing of which model or
//! runtime made the files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};

use crate::spec::Tolerance;

/// Outputs against the reference, the worst over all tensors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Numerics {
    /// What the reference is, e.g. `torch 2.13.0 cpu fp32`.
    pub reference: String,
    pub max_abs: f64,
    pub mae: f64,
    /// None when a tensor is all zero on one side only.
    pub cosine: Option<f64>,
    pub passed: bool,
    /// Per output tensor that could be compared: shape, dtype, max_abs, mae, cosine.
    pub tensors: BTreeMap<String, TensorNumerics>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TensorNumerics {
    pub shape: Vec<u64>,
    pub dtype: String,
    /// max |a − b|, unscaled, over the places where both are finite.
    pub max_abs: f64,
    pub mae: f64,
    pub cosine: Option<f64>,
    /// max |b| of the reference: the scale that the tolerance is taken relative to, when above 1.
    pub scale: f64,
}

/// A file that cannot be read as tensors, which says nothing about the numbers in it.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    #[error("cannot read `{}`: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("`{}` is not a safetensors file: {source}", path.display())]
    Format { path: PathBuf, source: safetensors::SafeTensorError },
}

/// Compares two files; the reason is None exactly when the comparison passed. `label` says what the reference is.
pub fn compare(
    outputs: &Path,
    reference: &Path,
    label: &str,
    tolerance: &Tolerance,
) -> Result<(Numerics, Option<String>), CompareError> {
    let (output_bytes, reference_bytes) = (read(outputs)?, read(reference)?);
    let ours = parse(outputs, &output_bytes)?;
    let theirs = parse(reference, &reference_bytes)?;
    Ok(compare_tensors(&ours, &theirs, label, tolerance))
}

fn read(path: &Path) -> Result<Vec<u8>, CompareError> {
    std::fs::read(path).map_err(|source| CompareError::Read { path: path.to_owned(), source })
}

fn parse<'a>(path: &Path, bytes: &'a [u8]) -> Result<SafeTensors<'a>, CompareError> {
    SafeTensors::deserialize(bytes).map_err(|source| CompareError::Format { path: path.to_owned(), source })
}

fn compare_tensors(
    ours: &SafeTensors<'_>,
    theirs: &SafeTensors<'_>,
    label: &str,
    tolerance: &Tolerance,
) -> (Numerics, Option<String>) {
    let ours: BTreeMap<_, _> = ours.iter().collect();
    let theirs: BTreeMap<_, _> = theirs.iter().collect();
    let mut reasons = Vec::new();
    let mut tensors = BTreeMap::new();
    if theirs.is_empty() {
        reasons.push("the reference holds no tensors, so nothing was compared".to_owned());
    }
    for (name, reference) in &theirs {
        let Some(output) = ours.get(name) else {
            let known: Vec<_> = ours.keys().copied().collect();
            reasons.push(format!("the outputs lack tensor `{name}`; they hold [{}]", known.join(", ")));
            continue;
        };
        match compare_one(output, reference, tolerance) {
            Ok((figures, reason)) => {
                reasons.extend(reason.map(|reason| format!("tensor `{name}`: {reason}")));
                tensors.insert((*name).to_owned(), figures);
            }
            Err(reason) => reasons.push(format!("tensor `{name}`: {reason}")),
        }
    }
    for name in ours.keys().filter(|name| !theirs.contains_key(*name)) {
        reasons.push(format!("the outputs hold tensor `{name}`, which the reference lacks"));
    }
    let worst = |pick: fn(&TensorNumerics) -> f64| tensors.values().map(pick).fold(0.0, f64::max);
    let numerics = Numerics {
        reference: label.to_owned(),
        max_abs: worst(|t| t.max_abs),
        mae: worst(|t| t.mae),
        cosine: tensors.values().map(|t| t.cosine).reduce(|a, b| Some(a?.min(b?))).flatten(),
        passed: reasons.is_empty(),
        tensors,
    };
    (numerics, told(&reasons))
}

/// One sentence: the first reason in full, the others counted.
fn told(reasons: &[String]) -> Option<String> {
    let (first, rest) = reasons.split_first()?;
    Some(if rest.is_empty() { first.clone() } else { format!("{first}; and {} more of this kind", rest.len()) })
}

/// Err when the two cannot be compared at all; otherwise the figures, and the reason when they are too far apart.
fn compare_one(
    output: &TensorView<'_>,
    reference: &TensorView<'_>,
    tolerance: &Tolerance,
) -> Result<(TensorNumerics, Option<String>), String> {
    let (dtype, shape) = (reference.dtype(), reference.shape());
    if output.dtype() != dtype {
        return Err(format!("dtype is {}, the reference's is {dtype}", output.dtype()));
    }
    if output.shape() != shape {
        return Err(format!("shape is {:?}, the reference's is {shape:?}", output.shape()));
    }
    let tally = tally(dtype, output.data(), reference.data())?;
    let figures = tally.figures(shape, dtype);
    let reason = match tally.odd {
        Some((at, ours, theirs)) if is_float(dtype) => {
            Some(format!("at {:?} it is {ours} where the reference is {theirs}", place(at, shape)))
        }
        Some((at, ours, theirs)) => Some(format!(
            "{} of {} values differ, the first at {:?}: {ours} where the reference is {theirs}",
            tally.odd_count,
            tally.count,
            place(at, shape)
        )),
        None => beyond(&figures, &tally, tolerance),
    };
    Ok((figures, reason))
}

/// Which bounds do not hold. A NaN holds no bound.
fn beyond(figures: &TensorNumerics, tally: &Tally, tolerance: &Tolerance) -> Option<String> {
    let scale = figures.scale.max(1.0);
    let mut broken = Vec::new();
    for (name, value, bound) in
        [("max_abs", figures.max_abs / scale, tolerance.max_abs), ("mae", figures.mae / scale, tolerance.mae)]
    {
        if value.is_nan() || value > bound {
            broken.push(format!("{name} {value:.3e} is above {bound:e}"));
        }
    }
    match figures.cosine {
        Some(cosine) if cosine.is_nan() || cosine < tolerance.cosine => {
            broken.push(format!("cosine {cosine:.6} is below {}", tolerance.cosine));
        }
        // Zeros instead of small numbers can be within the absolute bounds; they are no answer all the same.
        None if tally.ours_squared == 0.0 => broken.push("all values are zero, the reference's are not".to_owned()),
        // A reference of zeros has no direction: the other two bounds judge it.
        None if tally.theirs_squared > 0.0 => broken.push("the cosine overflows 64-bit floats".to_owned()),
        _ => {}
    }
    if broken.is_empty() {
        return None;
    }
    if figures.scale > 1.0 {
        broken.push(format!("relative to the largest reference value {:.4}", figures.scale));
    }
    Some(broken.join(", "))
}

fn is_float(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::BF16)
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

fn tally(dtype: Dtype, ours: &[u8], theirs: &[u8]) -> Result<Tally, String> {
    Ok(match dtype {
        Dtype::F64 => floats(ours, theirs, f64::from_le_bytes),
        Dtype::F32 => floats(ours, theirs, |b| f64::from(f32::from_le_bytes(b))),
        Dtype::F16 => floats(ours, theirs, |b| half::f16::from_le_bytes(b).to_f64()),
        Dtype::BF16 => floats(ours, theirs, |b| half::bf16::from_le_bytes(b).to_f64()),
        Dtype::I64 => exact(ours, theirs, |b| i128::from(i64::from_le_bytes(b))),
        Dtype::U64 => exact(ours, theirs, |b| i128::from(u64::from_le_bytes(b))),
        Dtype::I32 => exact(ours, theirs, |b| i128::from(i32::from_le_bytes(b))),
        Dtype::U32 => exact(ours, theirs, |b| i128::from(u32::from_le_bytes(b))),
        Dtype::I16 => exact(ours, theirs, |b| i128::from(i16::from_le_bytes(b))),
        Dtype::U16 => exact(ours, theirs, |b| i128::from(u16::from_le_bytes(b))),
        Dtype::I8 => exact(ours, theirs, |b| i128::from(i8::from_le_bytes(b))),
        Dtype::U8 => exact(ours, theirs, |b: [u8; 1]| i128::from(b[0])),
        // Any byte but 0 is true: runtimes differ in which one they write.
        Dtype::BOOL => exact(ours, theirs, |b: [u8; 1]| i128::from(b[0] != 0)),
        other => return Err(format!("values of dtype {other} cannot be compared; have the model return float or int")),
    })
}

/// Sums of one pass over two tensors.
#[derive(Default)]
struct Tally {
    count: usize,
    finite: usize,
    max_abs: f64,
    sum_abs: f64,
    ours_squared: f64,
    theirs_squared: f64,
    product: f64,
    scale: f64,
    /// The first place that fails whatever the tolerance: position, ours, theirs.
    odd: Option<(usize, String, String)>,
    odd_count: usize,
}

impl Tally {
    fn add(&mut self, ours: f64, theirs: f64, difference: f64) {
        self.finite += 1;
        self.max_abs = self.max_abs.max(difference);
        self.sum_abs += difference;
        self.ours_squared += ours * ours;
        self.theirs_squared += theirs * theirs;
        self.product += ours * theirs;
        self.scale = self.scale.max(theirs.abs());
    }

    fn odd(&mut self, at: usize, ours: impl ToString, theirs: impl ToString) {
        self.odd_count += 1;
        if self.odd.is_none() {
            self.odd = Some((at, ours.to_string(), theirs.to_string()));
        }
    }

    /// JSON knows no infinity, so what overflowed is written as the largest number; it fails every tolerance.
    fn figures(&self, shape: &[usize], dtype: Dtype) -> TensorNumerics {
        let cosine = match (self.ours_squared == 0.0, self.theirs_squared == 0.0) {
            (true, true) => Some(1.0),
            // Equal outputs are exactly alike, which two rounded roots would deny.
            _ if self.product.is_finite() && [self.ours_squared, self.theirs_squared] == [self.product; 2] => Some(1.0),
            (false, false) => {
                let cosine = self.product / (self.ours_squared.sqrt() * self.theirs_squared.sqrt());
                cosine.is_finite().then_some(cosine.clamp(-1.0, 1.0))
            }
            _ => None,
        };
        TensorNumerics {
            shape: shape.iter().map(|&size| size as u64).collect(),
            dtype: dtype.to_string(),
            max_abs: self.max_abs.min(f64::MAX),
            mae: (self.sum_abs / self.finite.max(1) as f64).min(f64::MAX),
            cosine,
            scale: self.scale,
        }
    }
}

fn floats<const N: usize>(ours: &[u8], theirs: &[u8], decode: impl Fn([u8; N]) -> f64) -> Tally {
    let mut tally = Tally { count: theirs.len() / N, ..Tally::default() };
    let (ours, theirs) = (ours.as_chunks::<N>().0, theirs.as_chunks::<N>().0);
    for (at, (&a, &b)) in ours.iter().zip(theirs).enumerate() {
        let (a, b) = (decode(a), decode(b));
        if a.is_finite() && b.is_finite() {
            tally.add(a, b, (a - b).abs());
        } else if a != b && !(a.is_nan() && b.is_nan()) {
            tally.odd(at, a, b);
        }
    }
    tally
}

fn exact<const N: usize>(ours: &[u8], theirs: &[u8], decode: impl Fn([u8; N]) -> i128) -> Tally {
    let mut tally = Tally { count: theirs.len() / N, ..Tally::default() };
    let (ours, theirs) = (ours.as_chunks::<N>().0, theirs.as_chunks::<N>().0);
    for (at, (&a, &b)) in ours.iter().zip(theirs).enumerate() {
        let (a, b) = (decode(a), decode(b));
        tally.add(a as f64, b as f64, (a - b).unsigned_abs() as f64);
        if a != b {
            tally.odd(at, a, b);
        }
    }
    tally
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
