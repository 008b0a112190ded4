//! The precisions in which models are kept and computed.

use serde::{Deserialize, Serialize};

use super::words::words;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    Fp32,
    Fp16,
    Bf16,
    /// Whole numbers of 8 bits for weights alone, or for the activations as they come as well.
    Int8,
    /// Weights and activations, the latter by ranges that calibration found.
    #[serde(rename = "int8-static")]
    Int8Static,
    /// [`Self::Int8Static`] with activations of 16 bits. The vendors of NPUs call it so.
    A16w8,
    /// Weights of 4 bits in groups that share a scale; what they are multiplied by stays as it is.
    Int4,
}

words!(pub Precision {
    "fp32" => Fp32, "fp16" => Fp16, "bf16" => Bf16, "int8" => Int8, "int8-static" => Int8Static,
    "a16w8" => A16w8, "int4" => Int4,
});
