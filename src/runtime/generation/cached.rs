//! Decoding with a cache: the prompt first, then a token at a time, each following on what the runtime keeps.
//!
//! What a decoder is, `python/orch_py/generate/cached.py` says; how it is run, only the runtime knows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::{OF_FIXED_LENGTH, likeliest};
use crate::runtime::Decoding;
use crate::runtime::manifest::Manifest;
use crate::runtime::measure::{MeasureParams, millis};
use crate::runtime::tensors::{Element, Tensor, Tensors};

/// The folder of a decoder's tree that holds the encoder of an encoder-decoder model.
const ENCODER: &str = "encoder";

/// The model of an artefact that keeps keys and values.
#[derive(Debug)]
pub struct Decoder {
    pub tree: PathBuf,
    pub manifest: Manifest,
    pub cache: Vec<Kept>,
    /// The model that makes constants of the decoder from the artefact's inputs, once a text.
    pub encoder: Option<Encoder>,
    /// The decoder's inputs besides ids and cache: outputs of the encoder, or inputs of the artefact.
    constants: Vec<String>,
    /// The artefact's inputs.
    inputs: Tensors,
}

#[derive(Debug)]
pub struct Encoder {
    pub tree: PathBuf,
    pub manifest: Manifest,
    /// The tensors that it takes, of the artefact's inputs.
    pub inputs: Tensors,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Kept {
    pub input: String,
    pub output: String,
    /// (row, head, place, width) of an empty one.
    pub shape: Vec<usize>,
}

/// What an input of a decoder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The ids of a step.
    Ids,
    /// The tensor at this place of the cache.
    Kept(usize),
    /// The constant at this place.
    Constant(usize),
}

/// The `decoder` field of the artefact's manifest.
#[derive(Deserialize)]
struct DecoderField {
    folder: Option<String>,
    why_not: Option<String>,
}

/// What the decoder's manifest says besides its inputs and outputs.
#[derive(Deserialize)]
struct Described {
    cache: Vec<Kept>,
    #[serde(default)]
    constants: Vec<Constant>,
}

#[derive(Deserialize)]
struct Constant {
    input: String,
}

impl Decoder {
    /// An artefact's decoder, or why it has none. `inputs` are the artefact's.
    pub(super) fn of(artefact: &Path, inputs: &Tensors) -> anyhow::Result<Result<Self, String>> {
        let field = Manifest::read(artefact)?.rest.remove("decoder");
        let Some(field) = field else {
            return Ok(Err(OF_FIXED_LENGTH.to_owned()));
        };
        let field: DecoderField = serde_json::from_value(field)
            .context("the artefact's manifest does not say what its decoder is")?;
        let Some(folder) = field.folder else {
            return Ok(Err(field
                .why_not
                .context("the artefact has no decoder, and does not say why")?));
        };
        let tree = artefact.join(folder);
        let manifest = Manifest::read(&tree)?;
        let described: Described = serde_json::from_value(Value::Object(manifest.rest.clone()))
            .context("the decoder's manifest has no cache")?;
        let decoder = Self {
            encoder: Encoder::of(&tree, inputs)?,
            tree,
            manifest,
            cache: described.cache,
            constants: described
                .constants
                .into_iter()
                .map(|one| one.input)
                .collect(),
            inputs: inputs.clone(),
        };
        decoder.check()?;
        Ok(Ok(decoder))
    }

    /// Fails unless the decoder takes ids, its cache and its constants, and gives scores and its cache.
    fn check(&self) -> anyhow::Result<()> {
        let count = |wanted: fn(&Source) -> bool| {
            let sources = self.manifest.inputs.iter().map(|name| self.source(name));
            sources.filter(wanted).count()
        };
        let given = self
            .manifest
            .outputs
            .iter()
            .skip(1)
            .eq(self.cache.iter().map(|kept| &kept.output));
        ensure!(
            count(|source| matches!(source, Source::Ids)) == 1
                && count(|source| matches!(source, Source::Kept(_))) == self.cache.len()
                && count(|source| matches!(source, Source::Constant(_))) == self.constants.len()
                && given,
            "the decoder takes {:?} and gives {:?}, which is not what it keeps and one more of each",
            self.manifest.inputs,
            self.manifest.outputs
        );
        Ok(())
    }

    pub fn source(&self, input: &str) -> Source {
        let kept = self.cache.iter().position(|kept| kept.input == input);
        let constant = self.constants.iter().position(|name| name == input);
        kept.map(Source::Kept)
            .or(constant.map(Source::Constant))
            .unwrap_or(Source::Ids)
    }

    /// The cache before anything is known.
    pub fn empty(&self) -> anyhow::Result<Vec<Tensor>> {
        self.cache
            .iter()
            .map(|kept| Tensor::new(Element::Float32, kept.shape.clone(), vec![]))
            .collect()
    }

    /// The constants in their order. `encoded` are the encoder's outputs by the names of its manifest, as a runtime
    /// holds them, and `own` makes the same of an input of the artefact.
    pub fn constants<T>(
        &self,
        encoded: Vec<T>,
        own: impl Fn(&str, &Tensor) -> anyhow::Result<T>,
    ) -> anyhow::Result<Vec<T>> {
        let names = self
            .encoder
            .iter()
            .flat_map(|encoder| &encoder.manifest.outputs);
        let mut encoded: BTreeMap<&String, T> = names.zip(encoded).collect();
        let constant = |name: &String| match encoded.remove(name) {
            Some(value) => Ok(value),
            None => {
                let tensor = self.inputs.get(name).with_context(|| {
                    format!("neither the encoder nor the artefact has `{name}` for the decoder")
                })?;
                own(name, tensor)
            }
        };
        self.constants.iter().map(constant).collect()
    }
}

impl Encoder {
    fn of(decoder: &Path, inputs: &Tensors) -> anyhow::Result<Option<Self>> {
        let tree = decoder.join(ENCODER);
        if !tree.is_dir() {
            return Ok(None);
        }
        let manifest = Manifest::read(&tree)?;
        let taken = |name: &String| {
            let tensor = inputs.get(name);
            let tensor = tensor
                .with_context(|| format!("the artefact has no input `{name}` for its encoder"))?;
            Ok((name.clone(), tensor.clone()))
        };
        let inputs = manifest
            .inputs
            .iter()
            .map(taken)
            .collect::<anyhow::Result<_>>()?;
        Ok(Some(Self {
            tree,
            manifest,
            inputs,
        }))
    }
}

/// A decoder that a runtime has loaded.
pub trait Take {
    /// Forgets all ids that it was given, and runs the encoder where there is one.
    fn begin(&mut self) -> anyhow::Result<()>;

    /// Scores (row, place, token) of ids (row, place) that follow on all that it was given.
    fn take(&mut self, ids: &Tensor) -> anyhow::Result<Tensor>;
}

/// The tokens (row, step); and the times of further texts, where some are requested.
///
/// The first `prompts[row]` of a row's `ids` (row, place) are its prompt. A decoder takes prompts of one length: the whole
/// batch is decoded once for each length, and each row's tokens are those of its own. The longest is timed.
pub(super) fn decode(
    decoder: &mut impl Take,
    ids: &Tensor,
    prompts: &[usize],
    steps: usize,
    measure: Option<&MeasureParams>,
) -> anyhow::Result<(Tensor, Option<Decoding>)> {
    let lengths: BTreeSet<usize> = prompts.iter().copied().collect();
    let longest = *lengths.last().context("a batch without rows")?;
    let mut found = vec![0.0; prompts.len() * steps];
    for length in lengths {
        let (tokens, _) = text(decoder, &beginning(ids, length)?, steps)?;
        let tokens = tokens.to_f64();
        for row in (0..prompts.len()).filter(|row| prompts[*row] == length) {
            let own = row * steps..(row + 1) * steps;
            found[own.clone()].copy_from_slice(&tokens[own]);
        }
    }
    let tokens = Tensor::of(Element::Int64, &[prompts.len(), steps], &found)?;
    let Some(params) = measure else {
        return Ok((tokens, None));
    };
    let prompt = beginning(ids, longest)?;
    let mut times = Decoding {
        rows: prompts.len() as u32,
        prompt: longest as u32,
        first_token_ms: Vec::new(),
        next_token_ms: Vec::new(),
    };
    let begin = Instant::now();
    let is_wanted = |count: usize| {
        count < params.samples as usize && begin.elapsed().as_secs_f64() < params.max_seconds
    };
    while times.first_token_ms.is_empty() || is_wanted(times.first_token_ms.len()) {
        let (_, taken) = text(decoder, &prompt, steps)?;
        times.first_token_ms.extend(taken.first());
        times
            .next_token_ms
            .extend(taken.get(1..).unwrap_or_default());
    }
    Ok((tokens, Some(times)))
}

/// The first `length` ids of each row.
fn beginning(ids: &Tensor, length: usize) -> anyhow::Result<Tensor> {
    let &[rows, declared] = ids.shape() else {
        anyhow::bail!("ids of the shape {:?}", ids.shape())
    };
    ensure!(
        (1..=declared).contains(&length),
        "a prompt of {length} of {declared} ids"
    );
    let values: Vec<f64> = ids
        .to_f64()
        .chunks(declared)
        .flat_map(|row| &row[..length])
        .copied()
        .collect();
    Tensor::of(Element::Int64, &[rows, length], &values)
}

/// One text from the beginning, and the milliseconds from each token to the next.
fn text(
    decoder: &mut impl Take,
    prompt: &Tensor,
    steps: usize,
) -> anyhow::Result<(Tensor, Vec<f64>)> {
    // The encoder's time is a part of the first token's.
    let mut clock = Instant::now();
    decoder.begin()?;
    let mut ids = prompt.clone();
    let mut found = Vec::new();
    let mut taken = Vec::new();
    let rows = prompt.shape()[0];
    for step in 0..steps {
        let scores = decoder
            .take(&ids)
            .with_context(|| format!("step {} of {steps}", step + 1))?;
        let last = vec![ids.shape()[1] - 1; rows];
        let next = likeliest(&scores, ids.shape(), &last)?;
        ids = Tensor::of(Element::Int64, &[rows, 1], &next)?;
        taken.push(millis(clock.elapsed()));
        clock = Instant::now();
        found.push(next);
    }
    let by_row: Vec<f64> = (0..rows)
        .flat_map(|row| found.iter().map(move |tokens| tokens[row]))
        .collect();
    Ok((Tensor::of(Element::Int64, &[rows, steps], &by_row)?, taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its next token is the sum of all ids that it was given, modulo ten.
    struct Sums {
        kept: Vec<i64>,
        taken: Vec<usize>,
    }

    impl Take for Sums {
        fn begin(&mut self) -> anyhow::Result<()> {
            self.kept.fill(0);
            Ok(())
        }

        fn take(&mut self, ids: &Tensor) -> anyhow::Result<Tensor> {
            let length = ids.shape()[1];
            self.taken.push(length);
            let mut scores = vec![0.0; ids.shape()[0] * length * 10];
            for (row, ids) in ids.to_f64().chunks(length).enumerate() {
                for (place, id) in ids.iter().enumerate() {
                    self.kept[row] += *id as i64;
                    scores[(row * length + place) * 10 + self.kept[row] as usize % 10] = 1.0;
                }
            }
            Tensor::of(Element::Float32, &[ids.shape()[0], length, 10], &scores)
        }
    }

    fn sums() -> Sums {
        Sums {
            kept: vec![0, 0],
            taken: vec![],
        }
    }

    fn prompt() -> Tensor {
        Tensor::of(Element::Int64, &[2, 2], &[1.0, 2.0, 3.0, 5.0]).unwrap()
    }

    #[test]
    fn the_prompt_is_taken_whole_and_then_each_token_alone() {
        let mut decoder = sums();
        let (tokens, times) = decode(&mut decoder, &prompt(), &[2, 2], 3, None).unwrap();
        assert_eq!(
            (tokens.shape(), tokens.to_f64()),
            (&[2, 3][..], vec![3.0, 6.0, 2.0, 8.0, 6.0, 2.0])
        );
        assert_eq!((decoder.taken, times), (vec![2, 1, 1], None));
    }

    #[test]
    fn a_row_with_a_shorter_prompt_does_not_see_its_padding() {
        let mut decoder = sums();
        let (tokens, _) = decode(&mut decoder, &prompt(), &[2, 1], 3, None).unwrap();
        assert_eq!(tokens.to_f64(), [3.0, 6.0, 2.0, 3.0, 6.0, 2.0]);
        assert_eq!(decoder.taken, [1, 1, 1, 2, 1, 1]);
    }

    #[test]
    fn each_text_that_is_timed_begins_anew() {
        let params = MeasureParams {
            warmup: 0,
            samples: 2,
            max_seconds: 60.0,
            timeout_seconds: None,
        };
        let mut decoder = sums();
        let (tokens, times) = decode(&mut decoder, &prompt(), &[2, 2], 3, Some(&params)).unwrap();
        let times = times.unwrap();
        assert_eq!(tokens.to_f64(), [3.0, 6.0, 2.0, 8.0, 6.0, 2.0]);
        assert_eq!(
            (
                times.rows,
                times.prompt,
                times.first_token_ms.len(),
                times.next_token_ms.len()
            ),
            (2, 2, 2, 4)
        );
        assert_eq!(decoder.taken, [2, 1, 1].repeat(3));
        // After the last text: the prompt, and the tokens that were taken, of which the last is not one.
        assert_eq!(decoder.kept, [12, 22]);
    }

    #[test]
    fn an_artefact_without_a_decoder_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let with = |field: &str| {
            let text = format!(r#"{{"inputs":[],"outputs":[]{field}}}"#);
            std::fs::write(folder.path().join("manifest.json"), text).unwrap();
            Decoder::of(folder.path(), &Tensors::new())
                .map(|found| found.unwrap_err())
                .map_err(|error| error.to_string())
        };
        assert_eq!(with("").unwrap(), OF_FIXED_LENGTH);
        assert_eq!(
            with(r#","decoder":{"why_not":"no export"}"#).unwrap(),
            "no export"
        );
        assert!(
            with(r#","decoder":{}"#)
                .unwrap_err()
                .contains("does not say why")
        );
    }

    #[test]
    fn a_decoder_keeps_what_it_gives() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("d");
        std::fs::create_dir(&tree).unwrap();
        let artefact = r#"{"inputs":[],"outputs":[],"decoder":{"folder":"d"}}"#;
        std::fs::write(folder.path().join("manifest.json"), artefact).unwrap();
        let with = |outputs: &str| {
            let cache = r#"[{"input":"past","output":"present","shape":[1,2,0,4]}]"#;
            let text =
                format!(r#"{{"inputs":["ids","past"],"outputs":{outputs},"cache":{cache}}}"#);
            std::fs::write(tree.join("manifest.json"), text).unwrap();
            Decoder::of(folder.path(), &Tensors::new()).map(Result::unwrap)
        };
        let decoder = with(r#"["logits","present"]"#).unwrap();
        assert_eq!(
            (decoder.source("ids"), decoder.source("past")),
            (Source::Ids, Source::Kept(0))
        );
        assert_eq!(decoder.empty().unwrap()[0].shape(), [1, 2, 0, 4]);
        assert!(
            with(r#"["logits","other"]"#)
                .unwrap_err()
                .to_string()
                .contains("not what it keeps")
        );
    }

    #[test]
    fn a_decoder_takes_what_its_encoder_makes_and_inputs_of_the_artefact() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("decoder");
        std::fs::create_dir_all(tree.join(ENCODER)).unwrap();
        let write = |path: PathBuf, text: &str| std::fs::write(path, text).unwrap();
        write(
            folder.path().join("manifest.json"),
            r#"{"inputs":[],"outputs":[],"decoder":{"folder":"decoder"}}"#,
        );
        write(
            tree.join("manifest.json"),
            r#"{"inputs":["ids","mask","past","keys"],"outputs":["logits","present"],
                "cache":[{"input":"past","output":"present","shape":[1,2,0,4]}],
                "constants":[{"input":"mask","shape":[2]},{"input":"keys","shape":[2]}]}"#,
        );
        write(
            tree.join(ENCODER).join("manifest.json"),
            r#"{"inputs":["source"],"outputs":["values","keys"]}"#,
        );
        let tensor = |value| Tensor::of(Element::Float32, &[2], &[value; 2]).unwrap();
        let inputs = Tensors::from([
            ("mask".to_owned(), tensor(1.0)),
            ("source".to_owned(), tensor(2.0)),
            ("other".to_owned(), tensor(3.0)),
        ]);
        let decoder = Decoder::of(folder.path(), &inputs).unwrap().unwrap();
        assert_eq!(
            ["ids", "mask", "past", "keys"].map(|name| decoder.source(name)),
            [
                Source::Ids,
                Source::Constant(0),
                Source::Kept(0),
                Source::Constant(1)
            ]
        );
        let taken = &decoder.encoder.as_ref().unwrap().inputs;
        assert_eq!(taken.keys().collect::<Vec<_>>(), ["source"]);
        let made = vec![tensor(4.0), tensor(5.0)];
        let constants = decoder.constants(made, |_, own| Ok(own.clone())).unwrap();
        assert_eq!(constants, [tensor(1.0), tensor(5.0)]);

        let without = Tensors::from([("source".to_owned(), tensor(2.0))]);
        let decoder = Decoder::of(folder.path(), &without).unwrap().unwrap();
        let error = decoder.constants(vec![tensor(4.0), tensor(5.0)], |_, own| Ok(own.clone()));
        assert!(error.unwrap_err().to_string().contains("has `mask`"));
        let error = Decoder::of(folder.path(), &Tensors::new()).unwrap_err();
        assert!(error.to_string().contains("no input `source`"));
    }
}
