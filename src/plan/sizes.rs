//! How large the inputs of a case are, what texts and files are among them, and what is named after it.

use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use crate::matrix::Case;
use crate::spec::{Dim, Fill, Input, Model, recipe};
use crate::step::{Inputs, Source};

/// A model's inputs with every named size replaced by the case's.
pub(super) fn resolved_inputs(model: &Model, case: &Case) -> IndexMap<String, Input> {
    let sizes = |input: &Input| {
        recipe::sizes(&input.shape, &case.dims).expect("BUG: a case has all sizes of its model")
    };
    let resolve = |input: &Input| Input {
        shape: sizes(input).into_iter().map(Dim::Fixed).collect(),
        ..input.clone()
    };
    model
        .inputs
        .iter()
        .map(|(name, input)| (name.clone(), resolve(input)))
        .collect()
}

pub(super) fn sizes(input: &Input) -> Vec<u64> {
    input
        .shape
        .iter()
        .filter_map(|dim| {
            if let Dim::Fixed(n) = dim {
                Some(*n)
            } else {
                None
            }
        })
        .collect()
}

/// Of the inputs that have one: the model's tokenizer and processors fill the others.
pub(super) fn recipes(inputs: &IndexMap<String, Input>) -> Map<String, Value> {
    let recipes = inputs
        .iter()
        .filter(|(_, input)| !input.fill.is_processed());
    recipes
        .map(|(name, input)| (name.clone(), json!(input)))
        .collect()
}

/// Those that the model's tokenizer and processors fill. Files become inputs of the step, and the recipe has them by these inputs'
/// names: so their content is in its key, and where they lie is not.
pub(super) fn processed(
    inputs: &IndexMap<String, Input>,
    sources: &mut Inputs,
) -> Map<String, Value> {
    let mut recipe = |input: &Input| {
        let fill = match input.fill.files() {
            Some((kind, files)) => {
                let names: Vec<_> = files
                    .iter()
                    .map(|file| named(kind, file, sources))
                    .collect();
                json!({kind: names})
            }
            None => json!(input.fill),
        };
        json!({"dtype": input.dtype, "shape": sizes(input), "fill": fill})
    };
    let of_processors = inputs.iter().filter(|(_, input)| input.fill.is_processed());
    of_processors
        .map(|(name, input)| (name.clone(), recipe(input)))
        .collect()
}

/// The name of the step's input that is this file: `picture/0`.
fn named(kind: &str, file: &Path, sources: &mut Inputs) -> Arc<str> {
    let of_kind = |name: &str| {
        name.strip_prefix(kind)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    let is_it = |source: &Source| matches!(source, Source::File(path) if **path == *file);
    if let Some((name, _)) = sources
        .iter()
        .find(|(name, source)| of_kind(name) && is_it(source))
    {
        return name.clone();
    }
    let count = sources.iter().filter(|(name, _)| of_kind(name)).count();
    let name: Arc<str> = format!("{kind}/{count}").into();
    sources.push((name.clone(), Source::File(file.into())));
    name
}

/// The texts that fill an input of the model, if any do.
pub(super) fn texts(model: &Model) -> &[String] {
    let is_text = |input: &&Input| matches!(input.fill, Fill::Text(_));
    match model.inputs.values().find(is_text) {
        Some(Input {
            fill: Fill::Text(texts),
            ..
        }) => texts,
        _ => &[],
    }
}
