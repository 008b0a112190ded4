//! Greedy decoding: the one loop of the runtimes inside orch, with a cache where the artefact brings a decoder that has one
//! (`cached.rs`), and otherwise by whole inferences of fixed shapes.
//!
//! `python/orch_py/generate/greedy.py` says how, and does the same in generated tests. Which tokens are right is not known here,
//! and of whole inferences no time is taken.

mod cached;

use std::path::Path;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::manifest::Manifest;
use super::measure::MeasureParams;
use super::tensors::{self, Element, Infer, Tensor, Tensors};
use super::{Decoding, Job};
use crate::base::Bug;
use crate::base::fs as bfs;

pub use cached::{Decoder, Encoder, Kept, Source, Take};

/// The file of a result that holds the tokens (row, step).
pub const GENERATED: &str = "generated.safetensors";
/// The file of a result, beside the tokens, that says how they were decoded.
pub const DECODED: &str = "generated.json";
/// The file of a model that holds the reference's tokens, and what its judge needs. Nothing is generated without it.
pub const REFERENCE: &str = "generation.safetensors";
pub const TOKENS: &str = "tokens";

/// Why the forms of a model besides ONNX and OpenVINO's are decoded without a cache.
const OF_FIXED_LENGTH: &str = "orch makes this form of a model for one length only";
/// The same of a model that a loop calls.
pub const IN_A_LOOP: &str =
    "the loop of a model of several calls its components on their whole lengths";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Decoded {
    pub cached: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Decoded {
    pub fn without_cache(why: impl Into<String>) -> Self {
        Self {
            cached: false,
            why: Some(why.into()),
        }
    }

    /// None: nobody says.
    pub fn read(path: &Path) -> anyhow::Result<Option<Self>> {
        if !path.is_file() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("failed to read `{}`", path.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("`{}` does not say how tokens were decoded", path.display()))
    }
}

/// What the model's manifest says is to be generated.
#[derive(Debug, Deserialize)]
struct GenerationRequest {
    /// The token ids (row, place) that grow, and their mask.
    input: String,
    mask: Option<String>,
    /// Scores (row, place, token).
    output: String,
    tokens: usize,
    /// How many of its first ids are the prompt of each row.
    prompts: Vec<usize>,
}

impl GenerationRequest {
    fn of(job: &Job) -> anyhow::Result<Option<Self>> {
        let Some(model) = job
            .inputs
            .get("model")
            .filter(|model| model.join(REFERENCE).is_file())
        else {
            return Ok(None);
        };
        let value = Manifest::read(model)?
            .rest
            .remove("generation")
            .unwrap_or(Value::Null);
        serde_json::from_value(value).context("the model's manifest does not say what to generate")
    }
}

/// Generates by whole inferences, where the model asks for it, and writes the tokens beside the outputs.
pub fn run(job: &Job, artefact: &Path, infer: &mut Infer<'_>) -> anyhow::Result<()> {
    run_without_cache(job, artefact, OF_FIXED_LENGTH, infer)
}

/// [`run`] by a runtime that uses no cache for another reason.
pub fn run_without_cache(
    job: &Job,
    artefact: &Path,
    why: &str,
    infer: &mut Infer<'_>,
) -> anyhow::Result<()> {
    let Some(request) = GenerationRequest::of(job)? else {
        return Ok(());
    };
    whole_inferences(job, artefact, &request, why.to_owned(), infer)
}

/// [`run`] with the cache of the artefact's decoder if `open` can open that; otherwise it says why not. Times are taken
/// where `measure` asks for some.
pub fn run_with_cache<T: Take>(
    job: &Job,
    artefact: &Path,
    measure: Option<&MeasureParams>,
    open: impl FnOnce(Decoder) -> anyhow::Result<Result<T, String>>,
    infer: &mut Infer<'_>,
) -> anyhow::Result<Option<Decoding>> {
    let Some(request) = GenerationRequest::of(job)? else {
        return Ok(None);
    };
    let inputs = tensors::read(&artefact.join(tensors::INPUTS))?;
    ids(&request, &inputs)?;
    let opened = match Decoder::of(artefact, &inputs)? {
        Ok(decoder) => open(decoder)?,
        Err(why) => Err(why),
    };
    let mut decoder = match opened {
        Ok(decoder) => decoder,
        Err(why) => return whole_inferences(job, artefact, &request, why, infer).map(|()| None),
    };
    let ids = &inputs[&request.input];
    let (made, times) =
        cached::decode(&mut decoder, ids, &request.prompts, request.tokens, measure)
            .context("right so far, but it fails to generate with a cache")?;
    write(
        &job.out,
        made,
        &Decoded {
            cached: true,
            why: None,
        },
    )?;
    Ok(times)
}

fn whole_inferences(
    job: &Job,
    artefact: &Path,
    request: &GenerationRequest,
    why: String,
    infer: &mut Infer<'_>,
) -> anyhow::Result<()> {
    let inputs = tensors::read(&artefact.join(tensors::INPUTS))?;
    let made = greedy(request, inputs, infer).context("right so far, but it fails to generate")?;
    write(&job.out, made, &Decoded::without_cache(why))
}

/// Writes tokens into a result, and how they were decoded.
pub fn write(out: &Path, tokens: Tensor, decoded: &Decoded) -> anyhow::Result<()> {
    tensors::write(
        &out.join(GENERATED),
        &Tensors::from([(TOKENS.to_owned(), tokens)]),
    )?;
    let text =
        serde_json::to_string(decoded).context(Bug::new("how tokens are decoded is JSON"))?;
    bfs::write_new(out.join(DECODED), text + "\n")
        .context("failed to write how the tokens were decoded")
}

fn ids<'t>(
    request: &GenerationRequest,
    inputs: &'t Tensors,
) -> anyhow::Result<(&'t Tensor, [usize; 2])> {
    let ids = inputs
        .get(&request.input)
        .with_context(|| format!("the artefact has no input `{}`", request.input))?;
    let &[rows, length] = ids.shape() else {
        anyhow::bail!("`{}` has the shape {:?}", request.input, ids.shape())
    };
    let fits = |prompt: &usize| *prompt > 0 && prompt + request.tokens <= length + 1;
    ensure!(
        request.tokens > 0 && request.prompts.len() == rows && request.prompts.iter().all(fits),
        "{} tokens do not fit into `{}` of {:?} after prompts of {:?}",
        request.tokens,
        request.input,
        ids.shape(),
        request.prompts
    );
    Ok((ids, [rows, length]))
}

fn greedy(
    request: &GenerationRequest,
    mut inputs: Tensors,
    infer: &mut Infer<'_>,
) -> anyhow::Result<Tensor> {
    if let Some(mask) = request.mask.as_ref().and_then(|mask| inputs.get_mut(mask)) {
        *mask = Tensor::of(
            mask.element(),
            mask.shape(),
            &vec![1.0; mask.shape().iter().product()],
        )?;
    }
    let (ids, shape) = ids(request, &inputs)?;
    let [rows, length] = shape;
    let element = ids.element();
    let mut values = ids.to_f64();
    let mut found = vec![0.0; rows * request.tokens];
    for step in 0..request.tokens {
        let outputs = infer(&inputs)?;
        let scores = outputs
            .get(&request.output)
            .with_context(|| format!("there is no output `{}`", request.output))?;
        let last: Vec<usize> = request
            .prompts
            .iter()
            .map(|known| known - 1 + step)
            .collect();
        for (row, token) in likeliest(scores, &shape, &last)?.into_iter().enumerate() {
            found[row * request.tokens + step] = token;
            if step + 1 < request.tokens {
                values[row * length + last[row] + 1] = token;
            }
        }
        inputs.insert(request.input.clone(), Tensor::of(element, &shape, &values)?);
    }
    Tensor::of(Element::Int64, &[rows, request.tokens], &found)
}

/// The first greatest score of each row at its place. Scores may be those of the last places alone.
fn likeliest(scores: &Tensor, ids: &[usize], places: &[usize]) -> anyhow::Result<Vec<f64>> {
    let shape = scores.shape();
    ensure!(
        shape.len() == 3 && shape[0] == ids[0] && shape[1] <= ids[1],
        "scores of the shape {shape:?} are not for {ids:?} tokens"
    );
    let length = shape[1];
    let skipped = ids[1] - length;
    let kinds = shape[2];
    let size = kinds * scores.element().size();
    let best = |row: usize| {
        let place = places[row];
        ensure!(
            place >= skipped,
            "place {place} of row {row} has no scores: those of the last {length} places are computed"
        );
        let at = (row * length + place - skipped) * size;
        // Of a long prompt's scores only one place counts, and to read them all would take time.
        let scores = Tensor::new(
            scores.element(),
            vec![kinds],
            scores.bytes()[at..at + size].to_vec(),
        )?
        .to_f64();
        ensure!(
            !scores.iter().any(|score| score.is_nan()),
            "a score is NaN at place {place} of row {row}"
        );
        Ok((0..kinds).fold(0, |best, token| {
            if scores[token] > scores[best] {
                token
            } else {
                best
            }
        }) as f64)
    };
    (0..ids[0]).map(best).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request_of(tokens: usize) -> GenerationRequest {
        GenerationRequest {
            input: "ids".to_owned(),
            mask: Some("mask".to_owned()),
            output: "logits".to_owned(),
            tokens,
            prompts: vec![5 - tokens; 2],
        }
    }

    fn inputs() -> Tensors {
        let ids = Tensor::of(Element::Int64, &[2, 4], &[1., 2., 9., 9., 3., 5., 9., 9.]).unwrap();
        let mask = Tensor::of(Element::Int32, &[2, 4], &[1., 1., 0., 0., 1., 1., 0., 0.]).unwrap();
        Tensors::from([("ids".to_owned(), ids), ("mask".to_owned(), mask)])
    }

    /// Its next token is the sum of those so far, modulo ten.
    fn sums(inputs: &Tensors) -> anyhow::Result<Tensors> {
        assert_eq!(inputs["mask"].to_f64(), [1.0; 8]);
        let mut scores = vec![0.0; 2 * 4 * 10];
        for (row, ids) in inputs["ids"].to_f64().chunks(4).enumerate() {
            for place in 0..4 {
                let sum = ids[..=place].iter().sum::<f64>() as usize % 10;
                scores[(row * 4 + place) * 10 + sum] = 1.0;
            }
        }
        Ok(Tensors::from([(
            "logits".to_owned(),
            Tensor::of(Element::Float32, &[2, 4, 10], &scores)?,
        )]))
    }

    #[test]
    fn each_token_is_seen_by_the_next_step_and_padding_by_none() {
        let made = greedy(&request_of(3), inputs(), &mut sums).unwrap();
        assert_eq!(
            (made.shape(), made.to_f64()),
            (&[2, 3][..], vec![3.0, 6.0, 2.0, 8.0, 6.0, 2.0])
        );
    }

    #[test]
    fn the_whole_length_may_be_generated_and_no_more() {
        let whole = greedy(&request_of(4), inputs(), &mut sums).unwrap();
        assert_eq!(whole.to_f64(), [1.0, 2.0, 4.0, 8.0, 3.0, 6.0, 2.0, 4.0]);
        let error = greedy(&request_of(5), inputs(), &mut sums)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "5 tokens do not fit into `ids` of [2, 4] after prompts of [0, 0]"
        );
    }

    #[test]
    fn scores_of_the_last_places_are_enough_for_tokens_that_stand_there() {
        let mut last = |inputs: &Tensors| {
            let whole = &sums(inputs)?["logits"];
            let scores: Vec<f64> = whole
                .to_f64()
                .chunks(40)
                .flat_map(|row| row[10..].to_vec())
                .collect();
            Ok(Tensors::from([(
                "logits".to_owned(),
                Tensor::of(Element::Float32, &[2, 3, 10], &scores)?,
            )]))
        };
        let made = greedy(&request_of(3), inputs(), &mut last).unwrap();
        assert_eq!(made.to_f64(), [3.0, 6.0, 2.0, 8.0, 6.0, 2.0]);
        let error = greedy(&request_of(4), inputs(), &mut last)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "place 0 of row 0 has no scores: those of the last 3 places are computed"
        );
    }

    #[test]
    fn rows_have_prompts_of_their_own_lengths() {
        let request = GenerationRequest {
            prompts: vec![2, 1],
            ..request_of(3)
        };
        let made = greedy(&request, inputs(), &mut sums).unwrap();
        assert_eq!(made.to_f64(), [3.0, 6.0, 2.0, 3.0, 6.0, 2.0]);
    }

    #[test]
    fn scores_that_are_no_numbers_are_an_error() {
        let mut nan = |_: &Tensors| {
            Ok(Tensors::from([(
                "logits".to_owned(),
                Tensor::of(Element::Float32, &[2, 4, 1], &[f64::NAN; 2 * 4])?,
            )]))
        };
        let error = greedy(&request_of(1), inputs(), &mut nan)
            .unwrap_err()
            .to_string();
        assert_eq!(error, "a score is NaN at place 3 of row 0");
    }
}
