//! Named tensors in safetensors files: how every runtime reads its inputs and writes its outputs.
//!
//! Bytes are little-endian and row-major, whatever made them; nothing here knows of models, devices or runtimes.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};

use crate::base::fs as bfs;
use crate::base::words::words;

words! {
    /// The element types that models here take and return, as specs and reports call them.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Element {
        "float64" => Float64, "float32" => Float32, "float16" => Float16, "bfloat16" => Bfloat16,
        "int64" => Int64, "int32" => Int32, "int16" => Int16, "int8" => Int8,
        "uint64" => Uint64, "uint32" => Uint32, "uint16" => Uint16, "uint8" => Uint8, "bool" => Bool,
    }
}

/// One row a type: ours, the safetensors one, ONNX's number.
const ELEMENTS: &[(Element, Dtype, i32)] = &[
    (Element::Float64, Dtype::F64, 11),
    (Element::Float32, Dtype::F32, 1),
    (Element::Float16, Dtype::F16, 10),
    (Element::Bfloat16, Dtype::BF16, 16),
    (Element::Int64, Dtype::I64, 7),
    (Element::Int32, Dtype::I32, 6),
    (Element::Int16, Dtype::I16, 5),
    (Element::Int8, Dtype::I8, 3),
    (Element::Uint64, Dtype::U64, 13),
    (Element::Uint32, Dtype::U32, 12),
    (Element::Uint16, Dtype::U16, 4),
    (Element::Uint8, Dtype::U8, 2),
    (Element::Bool, Dtype::BOOL, 9),
];

impl Element {
    fn row(self) -> &'static (Element, Dtype, i32) {
        ELEMENTS
            .iter()
            .find(|row| row.0 == self)
            .expect("BUG: every element type has its row in ELEMENTS")
    }

    /// The type that ONNX, and so ONNX Runtime, gives this number.
    pub fn of_onnx(number: i32) -> Option<Self> {
        ELEMENTS.iter().find(|row| row.2 == number).map(|row| row.0)
    }

    pub fn onnx(self) -> i32 {
        self.row().2
    }

    /// All of them, by name.
    pub fn known() -> String {
        Self::WORDS
            .iter()
            .map(|(word, _)| *word)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        self.row().1.bitsize() / 8
    }
}

/// A tensor that owns its bytes; their number always fits the shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    element: Element,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

/// Tensors by name. The order of a model's inputs is its manifest's, not this map's.
pub type Tensors = BTreeMap<String, Tensor>;

/// A loaded model, as what it makes of inputs.
pub type Infer<'a> = dyn FnMut(&Tensors) -> anyhow::Result<Tensors> + 'a;

impl Tensor {
    pub fn new(element: Element, shape: Vec<usize>, bytes: Vec<u8>) -> anyhow::Result<Self> {
        let count = shape
            .iter()
            .try_fold(1usize, |count, size| count.checked_mul(*size));
        let expected = count.and_then(|count| count.checked_mul(element.size()));
        ensure!(
            expected == Some(bytes.len()),
            "{} bytes do not fill the shape {shape:?} of {}",
            bytes.len(),
            element.word()
        );
        Ok(Self {
            element,
            shape,
            bytes,
        })
    }

    /// The inverse of [`Tensor::to_f64`] for the types that orch itself makes tensors of.
    pub fn of(element: Element, shape: &[usize], values: &[f64]) -> anyhow::Result<Self> {
        let bytes = match element {
            Element::Float32 => bytes_of(values, |value| (value as f32).to_le_bytes()),
            Element::Float16 => bytes_of(values, |value| half::f16::from_f64(value).to_le_bytes()),
            Element::Bfloat16 => {
                bytes_of(values, |value| half::bf16::from_f64(value).to_le_bytes())
            }
            Element::Int64 => bytes_of(values, |value| (value as i64).to_le_bytes()),
            Element::Int32 => bytes_of(values, |value| (value as i32).to_le_bytes()),
            Element::Bool => bytes_of(values, |value| [u8::from(value != 0.0)]),
            other => bail!("token ids and masks in {} are not known", other.word()),
        };
        Self::new(element, shape.to_vec(), bytes)
    }

    pub fn element(&self) -> Element {
        self.element
    }

    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The values as the widest float, in row-major order: for comparing, not for computing.
    pub fn to_f64(&self) -> Vec<f64> {
        match self.element {
            Element::Float64 => each(&self.bytes, f64::from_le_bytes),
            Element::Float32 => each(&self.bytes, |b| f64::from(f32::from_le_bytes(b))),
            Element::Float16 => each(&self.bytes, |b| half::f16::from_le_bytes(b).to_f64()),
            Element::Bfloat16 => each(&self.bytes, |b| half::bf16::from_le_bytes(b).to_f64()),
            Element::Int64 => each(&self.bytes, |b| i64::from_le_bytes(b) as f64),
            Element::Int32 => each(&self.bytes, |b| f64::from(i32::from_le_bytes(b))),
            Element::Int16 => each(&self.bytes, |b| f64::from(i16::from_le_bytes(b))),
            Element::Int8 => each(&self.bytes, |b| f64::from(i8::from_le_bytes(b))),
            Element::Uint64 => each(&self.bytes, |b| u64::from_le_bytes(b) as f64),
            Element::Uint32 => each(&self.bytes, |b| f64::from(u32::from_le_bytes(b))),
            Element::Uint16 => each(&self.bytes, |b| f64::from(u16::from_le_bytes(b))),
            Element::Uint8 | Element::Bool => each(&self.bytes, |b: [u8; 1]| f64::from(b[0])),
        }
    }
}

fn each<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f64) -> Vec<f64> {
    bytes
        .as_chunks::<N>()
        .0
        .iter()
        .map(|chunk| value(*chunk))
        .collect()
}

fn bytes_of<const N: usize>(values: &[f64], bytes: impl Fn(f64) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|value| bytes(*value)).collect()
}

/// Files of an artefact: the example inputs, and those of the control.
pub const INPUTS: &str = "inputs.safetensors";
pub const CONTROL_INPUTS: &str = "control-inputs.safetensors";
/// Files of a result: the outputs for the two.
pub const OUTPUTS: &str = "outputs.safetensors";
pub const CONTROL_OUTPUTS: &str = "control-outputs.safetensors";

/// The control's inputs of an artefact, if it has any.
pub fn control_inputs(artefact: &Path) -> anyhow::Result<Option<Tensors>> {
    let path = artefact.join(CONTROL_INPUTS);
    path.is_file().then(|| read(&path)).transpose()
}

/// Runs the artefact on the control's inputs, if it has any, and writes what comes out.
pub fn run_control(
    artefact: &Path,
    out: &Path,
    infer: impl FnOnce(&Tensors) -> anyhow::Result<Tensors>,
) -> anyhow::Result<()> {
    let Some(inputs) = control_inputs(artefact)? else {
        return Ok(());
    };
    let outputs = infer(&inputs).context("right so far, but it fails on the control's inputs")?;
    write(&out.join(CONTROL_OUTPUTS), &outputs)
}

pub fn read(path: &Path) -> anyhow::Result<Tensors> {
    let failed = || format!("failed to read tensors from `{}`", path.display());
    parse(&std::fs::read(path).with_context(failed)?).with_context(failed)
}

fn parse(content: &[u8]) -> anyhow::Result<Tensors> {
    let file = SafeTensors::deserialize(content).context("not a safetensors file")?;
    let mut tensors = Tensors::new();
    for (name, view) in file.iter() {
        let Some((element, ..)) = ELEMENTS.iter().find(|row| row.1 == view.dtype()) else {
            bail!(
                "tensor `{name}` has the type {:?}; known: {}",
                view.dtype(),
                Element::known()
            );
        };
        let tensor = Tensor::new(*element, view.shape().to_vec(), view.data().to_vec())
            .with_context(|| format!("tensor `{name}`"))?;
        tensors.insert(name.to_owned(), tensor);
    }
    Ok(tensors)
}

/// Writes a safetensors file; equal tensors give equal bytes.
pub fn write(path: &Path, tensors: &Tensors) -> anyhow::Result<()> {
    let views = tensors.iter().map(|(name, tensor)| {
        let view = TensorView::new(tensor.element.row().1, tensor.shape.clone(), &tensor.bytes);
        Ok((name, view.with_context(|| format!("tensor `{name}`"))?))
    });
    let views = views.collect::<anyhow::Result<Vec<_>>>()?;
    let content = safetensors::serialize(views, None).context("failed to serialise tensors")?;
    bfs::write_new(path, content)
        .with_context(|| format!("failed to write tensors to `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_type() -> Tensors {
        let bytes = |element: Element| (0..6 * element.size()).map(|i| (i % 2) as u8).collect();
        Element::WORDS
            .iter()
            .map(|(word, of)| {
                (
                    (*word).to_owned(),
                    Tensor::new(*of, vec![2, 3], bytes(*of)).unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn every_type_survives_the_file_and_the_bytes_are_stable() {
        let folder = tempfile::tempdir().unwrap();
        let first = folder.path().join("a");
        let second = folder.path().join("b");
        write(&first, &every_type()).unwrap();
        let back = read(&first).unwrap();
        assert_eq!(back, every_type());
        write(&second, &back).unwrap();
        assert_eq!(
            std::fs::read(first).unwrap(),
            std::fs::read(second).unwrap()
        );
    }

    #[test]
    fn values_widen_by_their_own_type() {
        let of = |element, bytes: &[u8]| {
            Tensor::new(element, vec![1], bytes.to_vec())
                .unwrap()
                .to_f64()
        };
        assert_eq!(of(Element::Float32, &(-1.5f32).to_le_bytes()), [-1.5]);
        assert_eq!(
            of(Element::Float16, &half::f16::from_f32(0.25).to_le_bytes()),
            [0.25]
        );
        assert_eq!(
            of(Element::Bfloat16, &half::bf16::from_f32(-2.0).to_le_bytes()),
            [-2.0]
        );
        assert_eq!(of(Element::Int64, &(-7i64).to_le_bytes()), [-7.0]);
        assert_eq!(
            (of(Element::Int8, &[0xff]), of(Element::Uint8, &[0xff])),
            (vec![-1.0], vec![255.0])
        );
        assert_eq!(of(Element::Float64, &1e300f64.to_le_bytes()), [1e300]);
        assert_eq!(of(Element::Int16, &(-300i16).to_le_bytes()), [-300.0]);
        assert_eq!(of(Element::Uint16, &65535u16.to_le_bytes()), [65535.0]);
        assert_eq!(of(Element::Uint32, &u32::MAX.to_le_bytes()), [4294967295.0]);
        assert_eq!(
            of(Element::Uint64, &(1u64 << 63).to_le_bytes()),
            [9223372036854775808.0]
        );
    }

    #[test]
    fn a_scalar_has_one_element_and_a_short_tensor_is_refused() {
        assert_eq!(
            Tensor::new(Element::Int32, vec![], vec![1, 0, 0, 0])
                .unwrap()
                .to_f64(),
            [1.0]
        );
        let error = Tensor::new(Element::Float32, vec![2], vec![0; 4])
            .unwrap_err()
            .to_string();
        assert_eq!(error, "4 bytes do not fill the shape [2] of float32");
    }

    #[test]
    fn a_foreign_type_is_named_with_the_known_ones() {
        let view = TensorView::new(Dtype::C64, vec![1], &[0; 8]).unwrap();
        let content = safetensors::serialize([("x", view)], None).unwrap();
        let error = parse(&content).unwrap_err().to_string();
        assert!(
            error.starts_with("tensor `x` has the type C64; known: float64"),
            "{error}"
        );
    }
}
