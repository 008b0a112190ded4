//! What the tch worker takes: its operations are in `bin/orch-torch`, which links libtorch and is built on demand.

use serde::{Deserialize, Serialize};

use super::measure::{self, MeasureParams};
use crate::device::Lease;

/// The parameters of `run`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// torch's name of the device: `cpu`, `cuda:0`, `mps`.
    pub device: String,
    /// The GPU that this process has for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// The threads of the CPU; None leaves them to torch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    #[serde(with = "measure::wanted")]
    pub measure: Option<MeasureParams>,
}
