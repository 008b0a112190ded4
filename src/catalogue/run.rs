//! What a run is told, all of it in its key.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Needs, Runtime};
use crate::base::Precision;
use crate::device::BackendRow;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunParams {
    pub runtime: &'static Runtime,
    /// Whose prober says whether it is there.
    pub backend: &'static BackendRow,
    pub device: String,
    pub precision: Precision,
    pub options: serde_json::Map<String, Value>,
    pub measure: TestMeasure,
    /// File name of the generated test, where that is what runs.
    pub test: Option<String>,
    /// [`Runtime::computes`]. A run at fp32 that `half` came to is so the same as any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computes: Option<String>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct TestMeasure {
    pub warmup: u32,
    pub samples: u32,
    pub max_seconds: f64,
}

impl RunParams {
    /// What a run asks for, before it could say so itself.
    pub fn requested_device(&self) -> String {
        let (backend, device) = (self.backend.name, &self.device);
        if backend == device { device.clone() } else { format!("{backend}:{device}") }
    }

    /// Runs are timed, and two at a time on one device would time each other.
    pub(super) fn whole_device(&self) -> Needs {
        if self.backend.is_host {
            return Needs::Exclusive;
        }
        Needs::Device { backend: self.backend.name.to_owned(), device: self.device.clone(), timed: true }
    }
}
