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
    let resolve = |input: &Input| {
        let sizes = sizes(input);
        let own = recipe::sizes(&input.shape, &model.dims).unwrap_or_default();
        let fill = match &input.fill {
            Fill::Text(texts) if own != sizes => {
                Fill::Text(of_size(texts, &own, &sizes, model.generates()))
            }
            fill => fill.clone(),
        };
        Input {
            shape: sizes.into_iter().map(Dim::Fixed).collect(),
            fill,
            ..input.clone()
        }
    };
    model
        .inputs
        .iter()
        .map(|(name, input)| (name.clone(), resolve(input)))
        .collect()
}

/// Texts for another batch and length than they were written for.
///
/// A text that comes again in a larger batch begins with a later word, so that no two rows are the same. For a greater
/// length each is repeated: the tokenizer cuts off what is too much, and little is padding, at which a model's outputs
/// mean nothing. Where tokens follow a text (`generates`), the whole of it fits.
fn of_size(texts: &[String], own: &[u64], sizes: &[u64], generates: bool) -> Vec<String> {
    let (&[batch, length], &[_, own_length]) = (sizes, own) else {
        return texts.to_vec();
    };
    let own_length = own_length.max(1);
    let times = if length <= own_length {
        1
    } else if generates {
        length / own_length
    } else {
        length.div_ceil(own_length) + 1
    };
    let row = |at: u64| {
        let at = at as usize;
        let mut words: Vec<&str> = texts[at % texts.len()].split_whitespace().collect();
        let later = at / texts.len() % words.len().max(1);
        words.rotate_left(later);
        words.repeat(times as usize).join(" ")
    };
    (0..batch).map(row).collect()
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

/// The recipes of the inputs that have one: the model's tokenizer and processors fill the others.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fill_other_sizes_and_no_two_rows_are_the_same() {
        let texts = ["a b c".to_owned(), "x y".to_owned()];
        assert_eq!(of_size(&texts, &[2, 4], &[1, 4], false), ["a b c"]);
        assert_eq!(
            of_size(&texts, &[2, 4], &[4, 2], false),
            ["a b c", "x y", "b c a", "y x"]
        );
        let longer = |generates| of_size(&texts, &[2, 4], &[1, 10], generates);
        assert_eq!(longer(false), ["a b c a b c a b c a b c"]);
        assert_eq!(longer(true), ["a b c a b c"]);
    }
}
