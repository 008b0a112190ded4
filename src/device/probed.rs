//! The question of a probe of half precision, and its answer: the words of `orch devices`. Nothing is probed here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::Precision;

/// One runtime on one device at one precision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HalfQuestion {
    /// ort, openvino, python, browser, …
    pub runtime: String,
    pub backend: String,
    /// The runtime's own name of the device.
    pub device: String,
    /// fp16 or bf16
    pub precision: Precision,
}

/// The answer of a small computation there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HalfAnswer {
    #[serde(flatten)]
    pub question: HalfQuestion,
    /// Whether it computes in that precision, and not in fp32 under its name.
    pub computes: bool,
    /// How that was seen.
    pub why: String,
}

impl HalfAnswer {
    /// `half: no: ort on cpu at fp16: …`
    pub fn summary(&self) -> String {
        format!(
            "half: {}: {}",
            if self.computes { "yes" } else { "no" },
            self.why
        )
    }
}
