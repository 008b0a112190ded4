//! WebGPU without a browser: ONNX Runtime's plugin on a driver of this machine. This version has no runtime for it.

use super::host::Host;
use super::{Backend, Look, Prober};

pub struct WebGpu;

impl Prober for WebGpu {
    fn name(&self) -> &'static str {
        "webgpu"
    }

    fn look(&self, _host: &Host, _thorough: bool) -> Look {
        Backend::unavailable("webgpu", "this version of orch has no native WebGPU runtime yet").into()
    }
}
