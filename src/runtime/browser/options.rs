//! What a target asks of the browser: the interface, the device behind it, and the adapter.

use anyhow::bail;
use serde_json::{Map, Value};

use crate::browser::{Adapter, Api};
use crate::device::{self, Host};
use crate::runtime::refusal::Refusal;

#[derive(Clone, Copy)]
pub(in crate::runtime) struct Options {
    pub(in crate::runtime) api: Api,
    pub(in crate::runtime) adapter: Adapter,
}

impl Options {
    pub(in crate::runtime) fn of(
        backend: &str,
        device: &str,
        options: &Map<String, Value>,
    ) -> anyhow::Result<Self> {
        let api = match (backend, device) {
            ("webgpu-browser", "webgpu") => Api::WebGpu,
            ("webnn", "cpu") => Api::WebNn,
            // Browsers grant such contexts without a GPU or NPU, and WebNN does not say what executes them.
            ("webnn", "gpu" | "npu") => {
                return Err(Refusal::unavailable(format!(
                    "a browser grants a WebNN context for `{device}` and does not say what executes it; orch claims no \
                     {} from that: give the target `device: cpu`",
                    device.to_uppercase()
                )));
            }
            ("webgpu-browser", other) => {
                bail!("WebGPU has no device `{other}`: write `device: webgpu`")
            }
            ("webnn", other) => bail!("WebNN has no device `{other}`; known: cpu, gpu, npu"),
            (other, _) => bail!("a browser has no backend `{other}`; known: webgpu-browser, webnn"),
        };
        let mut adapter = device::browser_adapter(&Host::real());
        for (name, value) in options {
            adapter = match (api, name.as_str(), value.as_str()) {
                (Api::WebGpu, "adapter", Some("auto")) => adapter,
                (Api::WebGpu, "adapter", Some("hardware")) => Adapter::Hardware,
                (Api::WebGpu, "adapter", Some("software")) => Adapter::Software,
                (Api::WebGpu, "adapter", _) => {
                    bail!("the option `adapter` is {value}; known: auto, hardware, software")
                }
                (Api::WebGpu, ..) => {
                    bail!("`webgpu-browser` takes no option `{name}`; known: adapter")
                }
                (Api::WebNn, ..) => bail!("`webnn` takes no option `{name}`"),
                (Api::Wasm, ..) => bail!("`wasm` takes no option `{name}`"),
            };
        }
        Ok(Self { api, adapter })
    }

    /// The CPU, by WebAssembly: for runtimes that offer it besides.
    pub(in crate::runtime) fn wasm(
        device: &str,
        options: &Map<String, Value>,
    ) -> anyhow::Result<Self> {
        if device != "wasm" {
            bail!(
                "a page computes on the CPU by WebAssembly: write `device: wasm`, not `{device}`"
            );
        }
        match options.keys().next() {
            Some(name) => bail!("`wasm` takes no option `{name}`"),
            None => Ok(Self {
                api: Api::Wasm,
                adapter: Adapter::Software,
            }),
        }
    }

    /// Fusions of ONNX Runtime that are left out. With this one BERT comes out wrong by 3.7 on the WebGPU provider of ONNX
    /// Runtime Web 1.30, whose Gemm errs; without it, it is right to 1.5e-6.
    pub(super) fn without_fusions(&self) -> &'static [&'static str] {
        match self.api {
            Api::WebGpu => &["MatMulAddFusion"],
            Api::WebNn | Api::Wasm => &[],
        }
    }

    /// The provider's name in ONNX Runtime Web.
    pub(in crate::runtime) fn provider(&self) -> &'static str {
        self.names()[0]
    }

    /// The provider that must take every node, as ONNX Runtime calls it.
    pub(in crate::runtime) fn provider_name(&self) -> &'static str {
        self.names()[1]
    }

    /// The device, as Transformers.js calls it.
    pub(in crate::runtime) fn device(&self) -> &'static str {
        self.names()[2]
    }

    fn names(&self) -> [&'static str; 3] {
        match self.api {
            Api::WebGpu => ["webgpu", "WebGpuExecutionProvider", "webgpu"],
            Api::WebNn => ["webnn", "WebNNExecutionProvider", "webnn-cpu"],
            Api::Wasm => ["wasm", "CPUExecutionProvider", "wasm"],
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::runtime::JobStatus;

    fn of(provider: &str, device: &str, options: Value) -> Result<Options, String> {
        Options::of(provider, device, options.as_object().unwrap()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_gpu_or_npu_is_never_claimed_from_webnn() {
        for device in ["gpu", "npu"] {
            let error = Options::of("webnn", device, &Map::new()).err().unwrap();
            assert_eq!(
                error.downcast_ref::<Refusal>().unwrap().status,
                JobStatus::Unavailable
            );
            assert!(
                error.to_string().contains("does not say what executes it"),
                "{error}"
            );
        }
        assert_eq!(
            of("webnn", "cpu", json!({})).unwrap().provider_name(),
            "WebNNExecutionProvider"
        );
    }

    #[test]
    fn options_are_strict_and_the_adapter_can_be_chosen() {
        assert_eq!(
            of("webgpu-browser", "webgpu", json!({"adapter": "software"}))
                .unwrap()
                .adapter,
            Adapter::Software
        );
        assert_eq!(
            of("webgpu-browser", "webgpu", json!({"adapter": "hardware"}))
                .unwrap()
                .adapter,
            Adapter::Hardware
        );
        for (backend, device, options, expected) in [
            (
                "webgpu-browser",
                "webgpu",
                json!({"adapter": "fast"}),
                "known: auto, hardware, software",
            ),
            (
                "webgpu-browser",
                "webgpu",
                json!({"adaptor": "auto"}),
                "known: adapter",
            ),
            (
                "webnn",
                "cpu",
                json!({"adapter": "auto"}),
                "no option `adapter`",
            ),
            ("webnn", "tpu", json!({}), "known: cpu, gpu, npu"),
        ] {
            assert!(
                of(backend, device, options)
                    .err()
                    .unwrap()
                    .contains(expected),
                "{expected}"
            );
        }
    }
}
