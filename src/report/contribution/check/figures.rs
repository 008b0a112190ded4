//! The figures of a case: made again of its samples, and the verdict held against its numerics.

use serde_json::Value;

use super::{Case, Checked};
use crate::judge::Verdict;
use crate::record::{Numerics, Outcome};
use crate::report::stats::{self, median_of};
use crate::report::{Metrics, Round};
use crate::spec::Tolerance;

/// What sums in another order may be off by, as a share.
const ROUNDING: f64 = 1e-9;
/// No inference and no load takes longer, ms.
const LONGEST: f64 = 86_400e3;

impl Case<'_> {
    pub(super) fn figures(&self) -> Checked {
        let case = self.case;
        let verdict = match case.status {
            Outcome::Pass => Some(Verdict::Pass),
            Outcome::Numerics => Some(Verdict::Numerics),
            Outcome::Indecisive => Some(Verdict::Indecisive),
            _ => None,
        };
        match (verdict, &case.numerics) {
            (Some(verdict), Some(numerics)) => self.verdict(verdict, numerics)?,
            (Some(_), None) => {
                let why = format!("a case that is {} was judged", case.status.label());
                return Err(self.no("numerics", (), why));
            }
            (None, Some(_)) => {
                let why = format!("a case that is {} was not judged", case.status.label());
                return Err(self.no("numerics", "…", why));
            }
            (None, None) => {}
        }
        if verdict.is_some() && case.actual_device.is_none() {
            return Err(self.no("actual_device", (), "what was judged ran on a device"));
        }
        match &case.metrics {
            Some(_) if case.untimed => Err(self.no("metrics", "…", "it was not timed")),
            Some(_) if verdict.is_none() => {
                let why = format!("what is {} has no times", case.status.label());
                Err(self.no("metrics", "…", why))
            }
            Some(metrics) => self.metrics(metrics),
            None if verdict.is_some() && !case.untimed => {
                Err(self.no("metrics", (), "it was timed"))
            }
            None => Ok(()),
        }
    }

    fn verdict(&self, verdict: Verdict, numerics: &Numerics) -> Checked {
        numerics.allows(verdict).map_err(|contradiction| {
            let value = contradiction.value;
            let mut refusal = self.no(&format!("numerics.{}", contradiction.field), (), "");
            refusal.value = value;
            refusal.why = format!(
                "{}, and the case is {}",
                contradiction.why,
                self.case.status.label()
            );
            refusal
        })?;
        let precision = crate::base::Precision::named(&self.case.precision);
        let usual = precision.map(Tolerance::usual);
        let looser = numerics.tolerance.zip(usual);
        let looser = looser.map(|(tolerance, usual)| tolerance.looser_than(&usual));
        let looser: Vec<&str> = looser
            .into_iter()
            .flatten()
            .filter(|bound| *bound != "tokens" || numerics.tokens.is_some())
            .collect();
        if numerics.looser != looser {
            let why = format!("the bounds that are looser than orch's own are {looser:?}");
            return Err(self.no("numerics.looser", &numerics.looser, why));
        }
        Ok(())
    }

    fn metrics(&self, metrics: &Metrics) -> Checked {
        if metrics.rounds.is_empty() {
            return Err(self.no("metrics.rounds", (), "figures are made of rounds"));
        }
        let mut rest = metrics.samples_ms.as_slice();
        for (at, round) in metrics.rounds.iter().enumerate() {
            let field = |name: &str| format!("metrics.rounds[{at}].{name}");
            if round.round as usize != at + 1 {
                return Err(self.no(&field("round"), round.round, "rounds are counted from 1"));
            }
            let Some((own, others)) = rest.split_at_checked(round.samples as usize) else {
                let why = format!("there are {} samples", metrics.samples_ms.len());
                return Err(self.no(&field("samples"), round.samples, why));
            };
            self.round(round, own, &field)?;
            rest = others;
        }
        if !rest.is_empty() {
            let why = format!("{} samples are of no round", rest.len());
            return Err(self.no("metrics.samples_ms", metrics.samples_ms.len(), why));
        }
        let batch = self.case.dims.get("batch").copied();
        let again = Metrics {
            peak_rss_bytes: metrics.peak_rss_bytes,
            peak_device_bytes: metrics.peak_device_bytes,
            sync: metrics.sync.clone(),
            decoding: metrics.decoding.clone(),
            ..stats::figures(metrics.rounds.clone(), metrics.samples_ms.clone(), batch)
        };
        let value = |metrics: &Metrics| serde_json::to_value(metrics).unwrap_or_default();
        self.same(&value(metrics), &value(&again), "metrics")
    }

    fn round(&self, round: &Round, samples: &[f64], field: &dyn Fn(&str) -> String) -> Checked {
        let times = [("load_ms", round.load_ms), ("first_ms", round.first_ms)];
        let times = times.map(|(name, ms)| (field(name), ms)).into_iter();
        let samples_at = samples
            .iter()
            .map(|ms| ("metrics.samples_ms".to_owned(), *ms));
        for (field, ms) in times.chain(samples_at) {
            if !ms.is_finite() || ms <= 0.0 || ms > LONGEST {
                return Err(self.no(&field, ms, "no time is such"));
            }
        }
        let Some(median) = median_of(samples.iter().copied()) else {
            return Err(self.no(&field("samples"), round.samples, "a round has samples"));
        };
        let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
        for (name, stated, of_samples) in [
            ("median_ms", round.median_ms, median),
            ("min_ms", round.min_ms, least),
        ] {
            if !is_near(stated, of_samples) {
                let why = format!("that of its samples is {of_samples}");
                return Err(self.no(&field(name), stated, why));
            }
        }
        Ok(())
    }

    /// Every figure as it comes out of the samples.
    fn same(&self, stated: &Value, again: &Value, field: &str) -> Checked {
        match (stated, again) {
            (Value::Object(stated), Value::Object(again)) => {
                let names = stated.keys().chain(again.keys());
                names.into_iter().try_for_each(|name| {
                    let of = |fields: &serde_json::Map<String, Value>| {
                        fields.get(name).cloned().unwrap_or_default()
                    };
                    self.same(&of(stated), &of(again), &format!("{field}.{name}"))
                })
            }
            (Value::Number(one), Value::Number(other))
                if one
                    .as_f64()
                    .zip(other.as_f64())
                    .is_some_and(|(one, other)| is_near(one, other)) =>
            {
                Ok(())
            }
            _ if stated == again => Ok(()),
            _ => {
                let why = format!("its rounds and samples make it {again}");
                Err(self.no(field, stated, why))
            }
        }
    }
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= ROUNDING * one.abs().max(other.abs())
}
