//! What ran instead of a case's own target.

use serde::{Deserialize, Serialize};

use super::format;
use crate::matrix::Batch;
use crate::record::Outcome;

/// Another target's run that answers for a case.
#[derive(Debug, Clone, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FallbackResult {
    /// `cpu-fp32`
    pub name: String,
    /// It is the case itself at a smaller batch size, because memory did not suffice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
    pub step: String,
    /// What was tried before it, the requested target first.
    pub tried: Vec<Tried>,
    /// Its median over that of the requested target; None where this machine knows no real figure of that target.
    pub slowdown: Option<f64>,
    /// The moment when that figure was measured, RFC 3339 UTC.
    pub against: Option<String>,
}

/// A run that did not do it.
#[derive(Debug, Clone, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Tried {
    /// `cuda-fp32`
    pub name: String,
    pub status: Outcome,
    pub reason: Option<String>,
}

impl FallbackResult {
    /// `on cpu-fp32, 3.1 times slower than cuda-fp32 on 2026-01-31`
    pub fn summary(&self, untimed: bool) -> String {
        if let Some(Batch { asked: wanted, ran }) = self.batch {
            return format!("ran at batch size {ran}: for {wanted} there was not enough memory");
        }
        let requested = self
            .tried
            .first()
            .map(|tried| tried.name.as_str())
            .unwrap_or_default();
        let cost = match (self.slowdown, &self.against) {
            (Some(times), Some(date)) => {
                let (times, how) = if times >= 1.0 {
                    (times, "slower")
                } else {
                    (1.0 / times, "faster")
                };
                format!(
                    "{times:.2} times {how} than {requested} on {}",
                    format::day(date)
                )
            }
            _ if untimed => "the cost is unknown: it was not timed".to_owned(),
            _ => format!("the cost is unknown: {requested} was never measured here"),
        };
        format!("ran on {}; {cost}", self.name)
    }
}
