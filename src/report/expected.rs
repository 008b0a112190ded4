//! How a spec says that a case ends.

use serde::{Deserialize, Serialize};

use crate::record::Outcome;

/// An expectation of the spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Expected {
    pub status: Outcome,
    /// None: at any.
    pub stage: Option<String>,
    pub reason: String,
    /// `YYYY-MM-DD`
    pub since: Option<String>,
    /// The part that is at fault: `model`, `export`, `converter`, `runtime`, `driver` or `precision`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The address of a public report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Glob over the signature that `orch blame` gives the case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Whether a success fails the run.
    pub strict: bool,
}

impl Expected {
    /// `FAIL@convert: no such operator (since 2026-01-31)`
    pub fn summary(&self) -> String {
        let stage = self
            .stage
            .as_ref()
            .map(|stage| format!("@{stage}"))
            .unwrap_or_default();
        let since = self
            .since
            .as_ref()
            .map(|since| format!(" (since {since})"))
            .unwrap_or_default();
        let url = self
            .url
            .as_ref()
            .map(|url| format!(", {url}"))
            .unwrap_or_default();
        format!(
            "{}{stage}: {}{since}{url}",
            self.status.label(),
            self.reason
        )
    }
}
