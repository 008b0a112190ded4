//! What a probe of half precision is asked, and what it answered: the words of `orch devices`. Nothing is probed here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Backend;
use crate::spec::Precision;

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
    pub fn told(&self) -> String {
        format!("half: {}: {}", if self.computes { "yes" } else { "no" }, self.why)
    }
}

/// What there is to ask of a backend that is there.
pub fn questions(backend: &Backend) -> Vec<HalfQuestion> {
    use Precision::{Bf16, Fp16};
    let name = backend.name.as_str();
    let asked = |runtime: &str, device: &str, precision| HalfQuestion {
        runtime: runtime.to_owned(),
        backend: name.to_owned(),
        device: device.to_owned(),
        precision,
    };
    let both = |runtime: &str, device: &str| [asked(runtime, device, Fp16), asked(runtime, device, Bf16)];
    if !backend.available {
        return vec![];
    }
    match name {
        "cpu" | "cuda" | "rocm" => [vec![asked("ort", name, Fp16)], both("python", name).into()].concat(),
        "mps" => both("python", name).into(),
        "openvino" => {
            let ids = backend.devices.iter().filter_map(|device| device.id.strip_prefix("openvino:"));
            ids.flat_map(|device| both("openvino", device)).collect()
        }
        "webgpu" => vec![asked("ort", name, Fp16)],
        "webgpu-browser" => vec![asked("browser", "webgpu", Fp16)],
        _ => vec![],
    }
}
