//! Figures of decoding with a cache: time to first token, from token to token, and tokens a second of either.

use serde::{Deserialize, Serialize};

use super::details::{Part, Samples, known, per_second};
use super::format::{ms, span};
use super::quiet::MARK;
use super::stats::{NOISY, median_of, quantile, sorted};
use crate::base::figures::counted;
use crate::runtime::{Decoding, Times};

/// Statistics of a case's rounds; milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DecodingFigures {
    /// Texts that are decoded at once.
    pub rows: u32,
    /// Tokens of each one's prompt.
    pub prompt: u32,
    /// Time to first token: the median over the rounds of each one's median.
    pub first_token_ms: f64,
    /// The time from a token to the next, likewise; None where the first one is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_token_ms: Option<f64>,
    /// Tokens of all prompts in a second, by the time to first token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill_per_second: Option<f64>,
    /// Tokens of all texts in a second, by the time from a token to the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_per_second: Option<f64>,
    /// The samples of all rounds, in the order in which they were taken.
    pub first_token_samples_ms: Vec<f64>,
    pub next_token_samples_ms: Vec<f64>,
}

impl DecodingFigures {
    /// None where no round decoded with a cache, or one gave what is no time.
    pub(super) fn of<'t>(rounds: impl Iterator<Item = &'t Times>) -> Option<Self> {
        let rounds: Vec<&Decoding> = rounds.filter_map(|times| times.decoding.as_ref()).collect();
        let &Decoding { rows, prompt, .. } = *rounds.first()?;
        // The median of the rounds' medians, and all samples.
        let figures = |of: fn(&Decoding) -> &[f64]| {
            let median = median_of(
                rounds
                    .iter()
                    .filter_map(|round| median_of(of(round).iter().copied())),
            );
            (
                median,
                rounds
                    .iter()
                    .flat_map(|round| of(round))
                    .copied()
                    .collect::<Vec<_>>(),
            )
        };
        let (first_token_ms, first) = figures(|round| &round.first_token_ms);
        let (next_token_ms, next) = figures(|round| &round.next_token_ms);
        if !first.iter().chain(&next).all(|ms| ms.is_finite()) {
            return None;
        }
        let first_token_ms = first_token_ms?;
        let in_a_second = |tokens: u32, ms: f64| (ms > 0.0).then(|| f64::from(tokens) * 1e3 / ms);
        Some(Self {
            rows,
            prompt,
            first_token_ms,
            next_token_ms,
            prefill_per_second: in_a_second(rows * prompt, first_token_ms),
            decode_per_second: next_token_ms.and_then(|ms| in_a_second(rows, ms)),
            first_token_samples_ms: first,
            next_token_samples_ms: next,
        })
    }

    /// The figure of a cell: `41.2 tok/s · TTFT 35.0 ms`, or the time to first token alone where it is the only one.
    /// `is_quiet`: whether nothing speaks against the case's other times.
    pub(super) fn figure(&self, is_quiet: bool) -> String {
        let mark = if is_quiet && !self.is_noisy() {
            ""
        } else {
            MARK
        };
        let first = format!("TTFT {}", ms(self.first_token_ms));
        match self.decode_per_second {
            Some(tokens) => format!("{mark}{} tok/s · {first}", per_second(tokens)),
            None => format!("{mark}{first}"),
        }
    }

    /// Whether the interquartile range of either time is above [`NOISY`] of its median.
    fn is_noisy(&self) -> bool {
        let is_wide = |samples: &[f64], median: f64| {
            let sorted = sorted(samples.iter().copied());
            sorted.len() > 1 && quantile(&sorted, 0.75) - quantile(&sorted, 0.25) > NOISY * median
        };
        is_wide(&self.first_token_samples_ms, self.first_token_ms)
            || self
                .next_token_ms
                .is_some_and(|median| is_wide(&self.next_token_samples_ms, median))
    }

    pub(super) fn part<'a>(&self, label: Option<&'static str>) -> Part<'a> {
        let of = |median: f64, samples: &[f64]| {
            let sorted = sorted(samples.iter().copied());
            let range =
                span(sorted.first().copied(), sorted.last().copied()).filter(|_| samples.len() > 1);
            let range = range.map(|range| format!(", {range}")).unwrap_or_default();
            format!(
                "{}, median of {}{range}",
                ms(median),
                counted(samples.len() as u32, "sample")
            )
        };
        let rate = |tokens: Option<f64>| {
            tokens.map(|tokens| format!("{} tokens a second", per_second(tokens)))
        };
        let prompt = counted(self.prompt, "token");
        let prompt = if self.rows == 1 {
            prompt
        } else {
            format!("{prompt} in each of {} rows", self.rows)
        };
        let facts = known([
            ("prompt", Some(prompt)),
            (
                "time to first token",
                Some(of(self.first_token_ms, &self.first_token_samples_ms)),
            ),
            (
                "from token to token",
                self.next_token_ms
                    .map(|median| of(median, &self.next_token_samples_ms)),
            ),
            ("prefill", rate(self.prefill_per_second)),
            ("decode", rate(self.decode_per_second)),
            ("not quiet", self.is_noisy().then(|| "noisy".to_owned())),
        ]);
        let note = Some("greedy, with a cache of keys and values".to_owned());
        let samples = self
            .next_token_ms
            .and_then(|ms| Samples::new(&self.next_token_samples_ms, ms, "tokens"));
        Part {
            title: "Generation",
            note,
            label,
            samples,
            table: None,
            facts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(first_token_ms: &[f64], next_token_ms: &[f64]) -> Times {
        let times = serde_json::json!({"load_ms": 1.0, "first_ms": 1.0, "samples_ms": [1.0], "sync": "call",
            "decoding": {"rows": 2, "prompt": 5, "first_token_ms": first_token_ms, "next_token_ms": next_token_ms}});
        serde_json::from_value(times).unwrap()
    }

    #[test]
    fn medians_of_the_rounds_medians_and_tokens_of_all_rows() {
        let rounds = [round(&[1.0, 3.0, 9.0], &[0.5, 0.5]), round(&[7.0], &[1.5])];
        let figures = DecodingFigures::of(rounds.iter()).unwrap();
        assert_eq!(
            (figures.first_token_ms, figures.next_token_ms),
            (5.0, Some(1.0))
        );
        assert_eq!(
            (figures.prefill_per_second, figures.decode_per_second),
            (Some(2000.0), Some(2000.0))
        );
        assert_eq!(figures.first_token_samples_ms, [1.0, 3.0, 9.0, 7.0]);
        assert_eq!(figures.figure(true), "~2000 tok/s · TTFT 5.00 ms");
        let quiet = DecodingFigures::of([round(&[5.0, 5.1], &[1.0, 1.01])].iter()).unwrap();
        assert_eq!(quiet.figure(true), "1990 tok/s · TTFT 5.05 ms");
        assert_eq!(quiet.figure(false), "~1990 tok/s · TTFT 5.05 ms");
        let facts = figures.part(None).facts;
        let fact = |name: &str| {
            facts
                .iter()
                .find(|(fact, _)| *fact == name)
                .unwrap()
                .1
                .clone()
        };
        assert_eq!(fact("prompt"), "5 tokens in each of 2 rows");
        assert_eq!(fact("decode"), "2000 tokens a second");
        assert_eq!(
            fact("from token to token"),
            "1.00 ms, median of 3 samples, 0.50 ms – 1.50 ms"
        );
    }

    #[test]
    fn one_token_has_no_time_between_tokens_and_a_round_without_a_cache_no_figures() {
        let figures = DecodingFigures::of([round(&[2.0], &[])].iter()).unwrap();
        assert_eq!(figures.figure(true), "TTFT 2.00 ms");
        assert_eq!(
            (figures.next_token_ms, figures.decode_per_second),
            (None, None)
        );
        let mut none = round(&[2.0], &[]);
        none.decoding = None;
        assert_eq!(DecodingFigures::of([none].iter()), None);
    }
}
