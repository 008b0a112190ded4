//! `inputs:<model>`: the named example inputs, made by the model's recipe.

use std::path::Path;

use anyhow::Context as _;
use indexmap::IndexMap;
use serde::Deserialize;

use crate::base::Bug;
use crate::catalogue::parts;
use crate::runtime::Job;
use crate::runtime::tensors::{self, Element, Tensor, Tensors};
use crate::spec::{Input, recipe};
use crate::step::{Code, Part, Places, Step, StepKind, Work, own};

pub struct Inputs;
pub static INPUTS: Inputs = Inputs;

/// Whatever makes tensors by a recipe is made by these.
pub(super) const PARTS: &[Part] = parts!(
    Rust "step/own.rs", "step/recipe.rs", "spec/recipe.rs", "runtime/tensors.rs";
    Crate "rand_chacha", "half", "safetensors"
);

impl StepKind for Inputs {
    known_as!("inputs", [PARTS]);

    fn lower(&self, step: &Step, _: &Places) -> anyhow::Result<Work> {
        Ok(own::work("inputs", step.params.json()))
    }
}

#[derive(Deserialize)]
struct RecipeRequest {
    seed: u64,
    inputs: IndexMap<String, Input>,
}

/// Writes the inputs and, where the recipe can make another one, those of the control.
pub(super) fn make(job: &Job) -> anyhow::Result<()> {
    let RecipeRequest { seed, inputs } = RecipeRequest::deserialize(&job.params)?;
    // Sizes were resolved when the plan was made, so no names are left to look up.
    let made = recipe::tensors(seed, &inputs, &Default::default()).map_err(anyhow::Error::msg)?;
    write(&job.out.join(tensors::INPUTS), made)?;
    let control =
        recipe::control(seed, &inputs, &Default::default()).map_err(anyhow::Error::msg)?;
    control.map_or(Ok(()), |made| {
        write(&job.out.join(tensors::CONTROL_INPUTS), made)
    })
}

pub(super) fn write(path: &Path, made: Vec<recipe::Tensor>) -> anyhow::Result<()> {
    let mut named = Tensors::new();
    for recipe::Tensor {
        name,
        dtype,
        shape,
        bytes,
    } in made
    {
        let element = Element::named(dtype.word())
            .context(Bug::new("every dtype of a spec is an element type"))?;
        let shape = shape
            .into_iter()
            .map(usize::try_from)
            .collect::<Result<_, _>>()?;
        named.insert(name, Tensor::new(element, shape, bytes)?);
    }
    tensors::write(path, &named)
}
