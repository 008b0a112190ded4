//! The precisions in which models are kept and computed.

use serde::{Deserialize, Serialize};

use super::words::words;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    Fp32,
    Fp16,
    Bf16,
    /// By weights alone, or with the activations as they come.
    Int8,
    /// Weights and activations, the latter by ranges that calibration found.
    #[serde(rename = "int8-static")]
    Int8Static,
}

words!(pub Precision {
    "fp32" => Fp32, "fp16" => Fp16, "bf16" => Bf16, "int8" => Int8, "int8-static" => Int8Static,
});

impl Precision {
    pub const ALL: [Self; 5] = [Self::Fp32, Self::Fp16, Self::Bf16, Self::Int8, Self::Int8Static];
}
