//! `inputs:<model>`: the named example inputs, made by the model's recipe.

use crate::base::Digest;
use crate::runtime::tensors;
use crate::spec::Input;
use crate::spec::recipe::{self, RecipeInput};
use crate::step::{Places, Step, StepKind, Work, code_digest};

pub struct Inputs;
pub static INPUTS: Inputs = Inputs;

impl StepKind for Inputs {
    fn name(&self) -> &'static str {
        "inputs"
    }

    fn code(&self) -> Digest {
        code_digest!("recipe.rs", "../spec/recipe.rs")
    }

    fn lower(&self, step: &Step, places: &Places) -> anyhow::Result<Work> {
        let params = step.params.clone();
        let out = places.out.join("inputs.safetensors");
        Ok(Work::Pure(Box::new(move || todo(params, out))))
    }
}
