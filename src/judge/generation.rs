//! Whether generated tokens are the reference's, by the rule at the head of `python/orch_py/generate/greedy.py`.

use safetensors::SafeTensors;
use serde::{Deserialize, Serialize};

use super::{as_floats, as_whole};
use crate::runtime::generation::Decoded;
use crate::spec::Tolerance;

/// Tokens against those of PyTorch's own greedy decoding.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Generation {
    /// How many tokens were requested, in all rows.
    pub asked: u64,
    /// How many agree before the first other one of their row; None where this runtime does not generate.
    pub agreed: Option<u64>,
    /// How it was decoded with a cache, or why without one; None where nothing was generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoded: Option<Decoded>,
    /// Rows that end in a tie.
    #[serde(default)]
    pub ties: u64,
    /// The first other token; one that is wrong before one that is a tie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<OtherToken>,
    /// Why it is no pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong: Option<String>,
    /// Why it proves nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undecided: Option<String>,
}

/// The place at which a row leaves the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct OtherToken {
    pub row: u64,
    /// The number of the step, from 1.
    pub step: u64,
    pub token: i64,
    pub expected: i64,
    /// The difference by which the reference's score of its own token is higher; the least that it can be, where the
    /// reference does not tell the score of ours.
    pub margin: f64,
    /// Up to here it would be a tie.
    pub bound: f64,
    pub tie: bool,
}

/// The reference, as its file holds it.
struct Reference {
    rows: usize,
    steps: usize,
    tokens: Vec<i64>,
    /// (row, step, rank), the best first.
    likeliest: Vec<i64>,
    scores: Vec<f64>,
    ranks: usize,
    /// (row, step)
    scale: Vec<f64>,
    /// What wrong models generate, and whose it is.
    others: Vec<(Vec<i64>, &'static str)>,
}

const OTHERS: [(&str, &str); 2] = [
    ("control", "another prompt"),
    ("dropped", "the model without one of its layers"),
];
/// Those that a cache may be mistaken for.
const OTHER_CACHES: [(&str, &str); 3] = [
    ("zeroed", "a cache that holds zeros"),
    ("shifted", "a cache that lags by one place"),
    ("unseen", "a decoder that sees nothing of its source"),
];

impl Generation {
    /// `ours` is None where nothing was generated, `decoded` says how it was. Err: the reference's file is none.
    pub fn judge(
        ours: Option<&SafeTensors<'_>>,
        decoded: Option<Decoded>,
        reference: &SafeTensors<'_>,
        tolerance: &Tolerance,
    ) -> Result<Self, String> {
        let reference = Reference::of(
            reference,
            decoded.as_ref().is_some_and(|decoded| decoded.cached),
        )?;
        let rows = reference.rows;
        let steps = reference.steps;
        let count = (rows * steps) as u64;
        let nothing = Self {
            asked: count,
            decoded,
            ..Self::default()
        };
        let Some(ours) = ours else { return Ok(nothing) };
        let (shape, tokens) = whole(ours, "tokens")?;
        if shape != [rows, steps] {
            let wrong = format!(
                "{shape:?} tokens were generated, and {:?} asked for",
                [rows, steps]
            );
            return Ok(Self {
                agreed: Some(0),
                wrong: Some(wrong),
                ..nothing
            });
        }
        let agreed: Vec<usize> = (0..rows)
            .map(|row| reference.agreed(row, &tokens))
            .collect();
        let left = (0..rows).filter(|row| agreed[*row] < steps);
        let other = |row: usize| {
            reference.other(
                row,
                agreed[row],
                tokens[row * steps + agreed[row]],
                tolerance,
            )
        };
        let others: Vec<_> = left.map(other).collect();
        let first = others
            .iter()
            .find(|other| !other.tie)
            .or(others.first())
            .cloned();
        Ok(Self {
            agreed: Some(agreed.iter().sum::<usize>() as u64),
            ties: others.iter().filter(|other| other.tie).count() as u64,
            wrong: first
                .as_ref()
                .filter(|first| !first.tie)
                .map(OtherToken::summary),
            undecided: reference.undecided(&agreed),
            first,
            ..nothing
        })
    }
}

impl OtherToken {
    fn summary(&self) -> String {
        let Self {
            row,
            step,
            token,
            expected,
            margin,
            bound,
            ..
        } = self;
        format!(
            "token {step} of row {row} is {token}, where the reference has {expected} with {margin:.3e} more; {bound:.3e} \
             would be a tie"
        )
    }
}

impl Reference {
    fn of(file: &SafeTensors<'_>, cached: bool) -> Result<Self, String> {
        let (shape, tokens) = whole(file, "tokens")?;
        let [rows, steps] = shape[..] else {
            return Err(format!("`tokens` of the reference has the shape {shape:?}"));
        };
        let (ranked, likeliest) = whole(file, "likeliest")?;
        let scores = floats(file, "scores")?;
        let scale = floats(file, "scale")?;
        let fits = ranked.len() == 3 && ranked[..2] == [rows, steps] && ranked[2] > 0;
        if !fits || scores.len() != likeliest.len() || scale.len() != tokens.len() {
            return Err("the reference of the generation does not fit together".to_owned());
        }
        let others = OTHERS.iter().chain(OTHER_CACHES.iter().filter(|_| cached));
        let given = others.filter(|(name, _)| file.tensor(name).is_ok());
        let others = given
            .map(|(name, whose)| Ok((whole(file, name)?.1, *whose)))
            .collect::<Result<_, String>>()?;
        Ok(Self {
            rows,
            steps,
            tokens,
            likeliest,
            scores,
            ranks: ranked[2],
            scale,
            others,
        })
    }

    /// How many tokens of a row agree before the first other one.
    fn agreed(&self, row: usize, tokens: &[i64]) -> usize {
        let places = row * self.steps..(row + 1) * self.steps;
        tokens[places.clone()]
            .iter()
            .zip(&self.tokens[places])
            .take_while(|(ours, theirs)| ours == theirs)
            .count()
    }

    fn other(&self, row: usize, step: usize, token: i64, tolerance: &Tolerance) -> OtherToken {
        let at = row * self.steps + step;
        let ranks = at * self.ranks..(at + 1) * self.ranks;
        let likeliest = &self.likeliest[ranks.clone()];
        let scores = &self.scores[ranks];
        let place = likeliest.iter().position(|known| *known == token);
        let margin = scores[0] - scores[place.unwrap_or(self.ranks - 1)];
        let bound = 2.0 * (tolerance.atol * self.scale[at] + tolerance.rtol * scores[0].abs());
        let row = row as u64;
        let step = step as u64 + 1;
        let tie = place.is_some() && margin <= bound;
        OtherToken {
            row,
            step,
            token,
            expected: likeliest[0],
            margin,
            bound,
            tie,
        }
    }

    /// The one whose tokens would pass as ours do, where so many of each row agree.
    fn undecided(&self, agreed: &[usize]) -> Option<String> {
        if agreed.iter().all(|agreed| *agreed == 0) {
            return Some("no token agrees before the first tie".to_owned());
        }
        let passes =
            |tokens: &[i64]| (0..self.rows).all(|row| self.agreed(row, tokens) >= agreed[row]);
        let found = self
            .others
            .iter()
            .find(|(tokens, _)| tokens.len() == self.tokens.len() && passes(tokens));
        found.map(|(_, whose)| format!("the tokens of {whose} would pass as well"))
    }
}

fn whole(file: &SafeTensors<'_>, name: &str) -> Result<(Vec<usize>, Vec<i64>), String> {
    let tensor = file
        .tensor(name)
        .map_err(|error| format!("`{name}` of a generation: {error}"))?;
    let values = as_whole(tensor.dtype(), tensor.data());
    let values = values.and_then(|values| {
        values
            .into_iter()
            .map(|value| value.try_into().ok())
            .collect()
    });
    Ok((
        tensor.shape().to_vec(),
        values.ok_or_else(|| format!("`{name}` of a generation is not of whole numbers"))?,
    ))
}

fn floats(file: &SafeTensors<'_>, name: &str) -> Result<Vec<f64>, String> {
    let tensor = file
        .tensor(name)
        .map_err(|error| format!("`{name}` of a generation: {error}"))?;
    as_floats(tensor.dtype(), tensor.data())
        .ok_or_else(|| format!("`{name}` of a generation is not of floats"))
}

#[cfg(test)]
mod tests {
    use safetensors::tensor::TensorView;
    use serde_json::Value;

    use super::*;
    use crate::judge::tests::tensor;
    use crate::spec::Precision;

    /// Nested lists of JSON: their shape and their values.
    fn flat(value: &Value) -> (Vec<usize>, Vec<Value>) {
        let Some(items) = value.as_array() else {
            return (vec![], vec![value.clone()]);
        };
        let (shapes, values): (Vec<_>, Vec<_>) = items.iter().map(flat).unzip();
        ([&[items.len()], &*shapes[0]].concat(), values.concat())
    }

    fn file(given: &Value) -> Vec<u8> {
        let tensor = |(name, value): (&String, &Value)| {
            let (shape, values) = flat(value);
            let dtype = if ["scores", "scale"].contains(&&**name) {
                "float64"
            } else {
                "int64"
            };
            (name.clone(), shape, tensor(dtype, &values))
        };
        let made: Vec<_> = given.as_object().unwrap().iter().map(tensor).collect();
        let views = made.iter().map(|(name, shape, (dtype, bytes))| {
            (name, TensorView::new(*dtype, shape.clone(), bytes).unwrap())
        });
        safetensors::serialize(views, None).unwrap()
    }

    #[test]
    fn it_gives_the_verdicts_of_the_table() {
        let table: Value =
            serde_json::from_str(include_str!("../../tests/fixtures/judge/generation.json"))
                .unwrap();
        for case in table["cases"].as_array().unwrap() {
            let mut reference = table["reference"].clone();
            for (name, value) in case["reference"].as_object().into_iter().flatten() {
                reference[name] = value.clone();
            }
            let ours = file(&serde_json::json!({"tokens": case["tokens"]}));
            let reference = file(&reference);
            let [ours, reference] =
                [&ours, &reference].map(|file| SafeTensors::deserialize(file).unwrap());
            let tolerance = Tolerance::usual(Precision::Fp32);
            let cached = case["cached"].as_bool().unwrap_or_default();
            let decoded = Some(Decoded { cached, why: None });
            let found = Generation::judge(Some(&ours), decoded, &reference, &tolerance).unwrap();
            let found = serde_json::to_value(found).unwrap();
            for (name, expected) in case["gives"].as_object().unwrap() {
                let given = match name.as_str() {
                    "wrong" | "undecided" => Value::Bool(!found[name].is_null()),
                    "tie" | "step" => found["first"][name].clone(),
                    _ => found[name].clone(),
                };
                assert_eq!(given, *expected, "{name} of `{}`: {found}", case["name"]);
            }
            let none = Generation::judge(None, None, &reference, &tolerance).unwrap();
            assert_eq!((none.asked, none.agreed, none.wrong), (6, None, None));
        }
    }
}
