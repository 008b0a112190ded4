//! Tensors into and out of a session, byte for byte.

use ::ort::memory::Allocator;
use ::ort::session::{Session, SessionInputValue};
use ::ort::value::{DynTensor, DynValue, TensorElementType, ValueType};
use anyhow::{Context, bail, ensure};

use super::host::plain;
use crate::runtime::tensors::{Element, Tensor, Tensors};

fn element(native: TensorElementType) -> anyhow::Result<Element> {
    let known = Element::of_onnx(::ort::sys::ONNXTensorElementDataType::from(native) as i32);
    known.with_context(|| {
        format!(
            "tensors of type {native} are not handled; known: {}",
            Element::known()
        )
    })
}

/// A session's inputs in its own order, allocated once and used for every inference.
pub(super) struct Feed(Vec<DynTensor>);

impl Feed {
    /// Takes exactly the tensors that the session takes: a name too many or too few is an error.
    pub(super) fn new(session: &Session, tensors: &Tensors) -> anyhow::Result<Self> {
        let wanted: Vec<_> = session.inputs().iter().map(|input| input.name()).collect();
        let given: Vec<_> = tensors.keys().map(String::as_str).collect();
        let same =
            wanted.len() == given.len() && wanted.iter().all(|name| tensors.contains_key(*name));
        ensure!(
            same,
            "the model takes the inputs {wanted:?}, and inputs.safetensors holds {given:?}"
        );
        let mut values = Vec::with_capacity(wanted.len());
        for input in session.inputs() {
            let value = native(input.dtype(), &tensors[input.name()]);
            values.push(value.with_context(|| format!("input `{}`", input.name()))?);
        }
        Ok(Self(values))
    }
}

pub(super) fn native(dtype: &ValueType, tensor: &Tensor) -> anyhow::Result<DynTensor> {
    let ValueType::Tensor { ty, .. } = dtype else {
        bail!("is a {dtype}, not a tensor")
    };
    ensure!(
        element(*ty)? == tensor.element(),
        "the model takes {}, and inputs.safetensors holds {}",
        element(*ty)?.word(),
        tensor.element().word()
    );
    let shape: Vec<i64> = tensor.shape().iter().map(|size| *size as i64).collect();
    let mut value = DynTensor::new(&Allocator::default(), *ty, shape).map_err(plain)?;
    let bytes = tensor.bytes();
    if !bytes.is_empty() {
        // SAFETY: ONNX Runtime allocated the tensor in host memory for this type and shape, and `Tensor` guarantees
        // that its bytes fill the same shape of the same element size.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.data_ptr_mut().cast(), bytes.len())
        };
    }
    Ok(value)
}

/// One inference; the call returns when the outputs are in host memory.
pub(super) fn infer(session: &mut Session, feed: &Feed) -> anyhow::Result<Vec<DynValue>> {
    let inputs: Vec<SessionInputValue<'_>> = feed.0.iter().map(SessionInputValue::from).collect();
    let outputs = session.run::<0>(inputs.as_slice()).map_err(plain)?;
    Ok(outputs.into_iter().map(|(_, value)| value).collect())
}

/// Outputs as tensors, under `names` by position.
pub(super) fn collect(outputs: Vec<DynValue>, names: &[String]) -> anyhow::Result<Tensors> {
    ensure!(
        outputs.len() == names.len(),
        "the model returned {} outputs, and its manifest names {}: {names:?}",
        outputs.len(),
        names.len()
    );
    let mut tensors = Tensors::new();
    for (value, name) in outputs.into_iter().zip(names) {
        let tensor = read(value).with_context(|| format!("output `{name}`"))?;
        ensure!(
            tensors.insert(name.clone(), tensor).is_none(),
            "the manifest names the output `{name}` twice"
        );
    }
    Ok(tensors)
}

pub(super) fn read(value: DynValue) -> anyhow::Result<Tensor> {
    let value: DynTensor = value.downcast().map_err(plain)?;
    let element = element(*value.data_type())?;
    let shape: Vec<usize> = value.shape().iter().map(|size| *size as usize).collect();
    let size = shape.iter().product::<usize>() * element.size();
    let mut bytes = vec![0u8; size];
    if size > 0 {
        // SAFETY: a session without device bindings returns its outputs in host memory, of this type and shape.
        unsafe { std::ptr::copy_nonoverlapping(value.data_ptr().cast(), bytes.as_mut_ptr(), size) };
    }
    Tensor::new(element, shape, bytes)
}
