//! How large the inputs of a case are, what texts are among them, and what is named after it.

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use crate::matrix::Case;
use crate::spec::{Dim, Fill, Input, Model, recipe};
use crate::step::{MATERIALISE, MATERIALISE_TEXT, StepKind};

/// A model's inputs with every named size replaced by the case's.
pub(super) fn resolved_inputs(model: &Model, case: &Case) -> IndexMap<String, Input> {
    let sizes =
        |input: &Input| recipe::sizes(&input.shape, &case.dims).expect("BUG: a case has all sizes of its model");
    let resolve = |input: &Input| Input { shape: sizes(input).into_iter().map(Dim::Fixed).collect(), ..input.clone() };
    model.inputs.iter().map(|(name, input)| (name.clone(), resolve(input))).collect()
}

pub(super) fn sizes(input: &Input) -> Vec<u64> {
    input.shape.iter().filter_map(|dim| if let Dim::Fixed(n) = dim { Some(*n) } else { None }).collect()
}

/// Of the inputs that have one: the model's tokenizer fills the others.
pub(super) fn recipes(inputs: &IndexMap<String, Input>) -> Map<String, Value> {
    let recipes = inputs.iter().filter(|(_, input)| !matches!(input.fill, Fill::Text(_)));
    recipes.map(|(name, input)| (name.clone(), json!(input))).collect()
}

/// What makes a model: where a row says its text and names no mask, what also fills the mask.
pub(super) fn maker(inputs: &IndexMap<String, Input>) -> &'static dyn StepKind {
    let is_text = inputs.get("input_ids").is_some_and(|input| matches!(input.fill, Fill::Text(_)));
    if is_text && !inputs.contains_key("attention_mask") { &MATERIALISE_TEXT } else { &MATERIALISE }
}

/// The texts that fill an input of the model, if any do.
pub(super) fn texts(model: &Model) -> &[String] {
    let is_text = |input: &&Input| matches!(input.fill, Fill::Text(_));
    match model.inputs.values().find(is_text) {
        Some(Input { fill: Fill::Text(texts), .. }) => texts,
        _ => &[],
    }
}
