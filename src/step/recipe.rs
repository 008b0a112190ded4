//! `inputs:<model>`: the named example inputs, made by the model's recipe.

use std::path::Path;

use anyhow::anyhow;
use indexmap::IndexMap;
use serde::Deserialize;

use crate::catalogue::parts;
use crate::runtime::tensors::{self, Element, Tensor, Tensors};
use crate::spec::{Dtype, Input, recipe};
use crate::step::{Code, Part, Places, Step, StepKind, Work};

pub struct Inputs;
pub static INPUTS: Inputs = Inputs;

/// Whatever makes tensors by a recipe is made by these.
pub(super) const PARTS: &[Part] = parts!(
    Rust "step/recipe.rs", "spec/recipe.rs", "runtime/tensors.rs";
    Crate "rand_chacha", "half", "safetensors"
);

impl StepKind for Inputs {
    known_as!("inputs", [PARTS]);

    fn lower(&self, step: &Step, places: &Places) -> anyhow::Result<Work> {
        let seed = step.params.json()["seed"].as_u64().ok_or_else(|| anyhow!("BUG: {} has no seed", step.name))?;
        let inputs: IndexMap<String, Input> = IndexMap::deserialize(&step.params.json()["inputs"])?;
        let out = places.out.clone();
        Ok(Work::Pure(Box::new(move || {
            // Sizes were resolved when the plan was made, so no names are left to look up.
            let made = recipe::tensors(seed, &inputs, &Default::default()).map_err(anyhow::Error::msg)?;
            write(&out.join(tensors::INPUTS), made)?;
            let control = recipe::control(seed, &inputs, &Default::default()).map_err(anyhow::Error::msg)?;
            control.map_or(Ok(()), |made| write(&out.join(tensors::CONTROL_INPUTS), made))
        })))
    }
}

pub(super) fn write(path: &Path, made: Vec<recipe::Tensor>) -> anyhow::Result<()> {
    let mut named = Tensors::new();
    for recipe::Tensor { name, dtype, shape, bytes } in made {
        let shape = shape.into_iter().map(usize::try_from).collect::<Result<_, _>>()?;
        named.insert(name, Tensor::new(element(dtype), shape, bytes)?);
    }
    tensors::write(path, &named)
}

fn element(dtype: Dtype) -> Element {
    match dtype {
        Dtype::Float64 => Element::F64,
        Dtype::Float32 => Element::F32,
        Dtype::Float16 => Element::F16,
        Dtype::Bfloat16 => Element::Bf16,
        Dtype::Int64 => Element::I64,
        Dtype::Int32 => Element::I32,
        Dtype::Int16 => Element::I16,
        Dtype::Int8 => Element::I8,
        Dtype::Uint64 => Element::U64,
        Dtype::Uint32 => Element::U32,
        Dtype::Uint16 => Element::U16,
        Dtype::Uint8 => Element::U8,
        Dtype::Bool => Element::Bool,
    }
}
