//! `run:<model>:<variant>`: loads the artefact on a device, infers, measures; its outputs are compared with the reference.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::spec::{Precision, Target};
use crate::step::code;
use crate::step::{
    Access, Code, Library, MemoryGuess, Needs, Part, Places, Requirement, Step, StepKind, TestMeasure, Work, Worker,
    WorkerCall,
};
use crate::toolchain::{EnvName, Tool};

/// The parameters of a run, all of them in its key.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunParams {
    /// ort, openvino, torch, python, browser, transformers-js, android
    pub runtime: String,
    /// Whose prober says whether it is there.
    pub backend: String,
    pub device: String,
    pub precision: String,
    pub options: serde_json::Map<String, Value>,
    pub measure: TestMeasure,
    /// File name of the generated test (runtime `python`).
    pub test: Option<String>,
    /// OpenVINO's word for what a target with `half` computes in; None where the precision alone says it. A run at fp32
    /// that `half` came to is so the same as any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computes: Option<String>,
}

/// What OpenVINO must be told besides the precision: its fp16 files are half precision only in their weights, and a
/// target with `half` is to compute in it.
pub fn computes(target: &Target, precision: Precision) -> Option<&'static str> {
    match precision {
        Precision::Fp16 if target.runtime == "openvino" && target.half.is_some() => Some("f16"),
        Precision::Bf16 if target.runtime == "openvino" => Some("bf16"),
        _ => None,
    }
}

impl RunParams {
    pub fn of(step: &Step) -> Self {
        step.params.parse().expect("BUG: a run step's parameters are RunParams")
    }

    /// What a run asks for, before it could say so itself.
    pub fn requested_device(&self) -> String {
        if self.backend == self.device { self.device.clone() } else { format!("{}:{}", self.backend, self.device) }
    }

    /// What OpenVINO is told to compute in. Left to itself a CPU with bf16 units computes fp32 models in bf16. An NPU has
    /// no fp32; asked for it all the same, the runtime says so.
    fn inference_precision(&self) -> &str {
        if let Some(computes) = &self.computes {
            return computes;
        }
        if self.device.starts_with("NPU") && self.precision != "fp32" { "f16" } else { "f32" }
    }

    /// The build of ONNX Runtime for the backend; the CPU's for one that has none.
    fn ort(&self) -> Ort {
        let of = |env, packages, ep, plugin| Ort { env, packages, ep, plugin };
        match self.backend.as_str() {
            "qnn" => of(EnvName::Qnn, &["onnxruntime", "onnxruntime-qnn"], "qnn", Some(Library::QnnProvider)),
            "webgpu" => {
                of(EnvName::Webgpu, &["onnxruntime", "onnxruntime-ep-webgpu"], "webgpu", Some(Library::WebgpuProvider))
            }
            "cuda" => of(EnvName::Cuda, CUDA_PACKAGES, "cuda", None),
            "rocm" => of(EnvName::Rocm, &["onnxruntime-migraphx"], "rocm", None),
            // The usual build for macOS brings CoreML with it.
            "mps" => of(EnvName::Ort, &["onnxruntime"], "coreml", None),
            _ => of(EnvName::Ort, &["onnxruntime"], "cpu", None),
        }
    }
}

/// One build of ONNX Runtime.
struct Ort {
    env: EnvName,
    packages: &'static [&'static str],
    /// The worker's word for the provider.
    ep: &'static str,
    plugin: Option<Library>,
}

const CUDA_PACKAGES: &[&str] = &[
    "nvidia-cublas",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-runtime",
    "nvidia-cudnn-cu13",
    "nvidia-cufft",
    "nvidia-curand",
    "nvidia-nvjitlink",
    "onnxruntime-gpu",
];

/// The browser: a lock's, or by its content that of the user.
pub const CHROMIUM: Tool = Tool { env: EnvName::Browser, package: "@sparticuz/chromium" };

pub struct Run;
pub static RUN: Run = Run;

impl StepKind for Run {
    fn name(&self) -> &'static str {
        "run"
    }

    fn code(&self, step: &Step) -> &Code {
        /// What is asked of the worker.
        const RUN: &[Part] = &[Part::Rust("step/run.rs"), Part::Crate("safetensors")];
        static ORT: Code = Code::of(&[RUN, code::WORKER, code::ORT]);
        static OPENVINO: Code = Code::of(&[RUN, code::WORKER, code::OPENVINO]);
        static TORCH: Code = Code::of(&[RUN, code::WORKER, code::TORCH]);
        static PYTHON: Code = Code::of(&[RUN, &[Part::Python("script")]]);
        static BROWSER: Code = Code::of(&[RUN, code::WORKER, code::BROWSER]);
        static TRANSFORMERS_JS: Code = Code::of(&[RUN, code::WORKER, code::BROWSER, code::TRANSFORMERS_JS]);
        static ANDROID: Code = Code::of(&[RUN, code::WORKER, code::ANDROID]);
        static OTHER: Code = Code::of(&[RUN]);
        match step.params.json()["runtime"].as_str().unwrap_or_default() {
            "ort" => &ORT,
            "openvino" => &OPENVINO,
            "torch" => &TORCH,
            "python" => &PYTHON,
            "browser" => &BROWSER,
            "transformers-js" => &TRANSFORMERS_JS,
            "android" => &ANDROID,
            _ => &OTHER,
        }
    }

    fn tools(&self, step: &Step) -> Vec<Tool> {
        let params = RunParams::of(step);
        let tool = |env, package| Tool { env, package };
        match params.runtime.as_str() {
            "ort" => params.ort().packages.iter().map(|package| tool(params.ort().env, package)).collect(),
            "openvino" => vec![tool(EnvName::Openvino, "openvino")],
            "browser" => vec![CHROMIUM, tool(EnvName::Browser, "onnxruntime-web")],
            "transformers-js" => {
                let packages = ["@huggingface/transformers", "onnxruntime-web"];
                let packages = packages.map(|package| tool(EnvName::TransformersJs, package));
                [CHROMIUM].into_iter().chain(packages).collect()
            }
            "torch" => vec![tool(EnvName::Torch, "torch")],
            "python" => {
                ["torch", "transformers", "numpy", "safetensors"].map(|package| tool(EnvName::Torch, package)).into()
            }
            _ => vec![],
        }
    }

    fn is_measured(&self) -> bool {
        true
    }

    /// Runs are timed, and two at a time on one device would time each other.
    fn needs(&self, step: &Step) -> Needs {
        let RunParams { backend, device, .. } = RunParams::of(step);
        // OpenVINO's AUTO, HETERO and MULTI put parts on the CPU as they see fit.
        let on_cpu = match backend.as_str() {
            "cpu" => true,
            "openvino" => !["GPU", "NPU"].iter().any(|device_kind| device.starts_with(device_kind)),
            _ => false,
        };
        if on_cpu { Needs::Exclusive } else { Needs::Device { backend, device, timed: true } }
    }

    /// A runtime with its libraries; the artefact as it is read and as the runtime lays it out.
    fn memory(&self) -> Option<MemoryGuess> {
        Some(MemoryGuess { base: 512 << 20, factor: 2 })
    }

    /// A driver's context with its kernels, and the room in which libraries work; the weights, and as much again for what
    /// allocators keep: ONNX Runtime's doubles what it asks for.
    fn device_memory(&self) -> Option<MemoryGuess> {
        Some(MemoryGuess { base: 1 << 30, factor: 2 })
    }

    fn requires(&self, step: &Step) -> Vec<Requirement> {
        let params = RunParams::of(step);
        match params.runtime.as_str() {
            // A GPU or nothing: then no driver in software is wanted.
            "ort" if params.backend == "webgpu" && params.device != "gpu" => {
                vec![Requirement::Env(EnvName::Webgpu), Requirement::Swiftshader]
            }
            "ort" => vec![Requirement::Env(params.ort().env)],
            "openvino" => vec![Requirement::Env(EnvName::Openvino)],
            "torch" => vec![Requirement::Env(EnvName::Torch), Requirement::TorchWorker],
            "python" => vec![Requirement::Env(EnvName::Torch)],
            "browser" => vec![Requirement::Env(EnvName::Browser)],
            "transformers-js" => [EnvName::Browser, EnvName::TransformersJs].map(Requirement::Env).into(),
            _ => vec![],
        }
    }

    fn server(&self, step: &Step) -> Option<EnvName> {
        (RunParams::of(step).runtime == "python").then_some(EnvName::Torch)
    }

    fn lower(&self, step: &Step, places: &Places) -> anyhow::Result<Work> {
        let params = RunParams::of(step);
        let device = &params.device;
        let measure = json!(params.measure);
        let options = json!(params.options);
        let runtime = params.runtime.clone();
        let call = |worker, op, params, libraries| {
            Ok(Work::Worker(WorkerCall { worker, op, params, libraries, access: access(&runtime) }))
        };
        match params.runtime.as_str() {
            "ort" => {
                let Ort { env, ep, plugin, .. } = params.ort();
                // The CPU's one device is its provider; another name is refused there.
                let ep = if ep == "cpu" { device.as_str() } else { ep };
                let mut asked = json!({"ep": ep, "options": options, "measure": measure});
                if plugin != Some(Library::QnnProvider) && params.backend != "cpu" {
                    asked["device"] = json!(device);
                }
                let mut libraries = vec![("library", Library::OnnxRuntime(env))];
                libraries.extend(plugin.map(|plugin| ("ep_library", plugin)));
                if ep == "webgpu" && device != "gpu" {
                    libraries.push(("vulkan", Library::Swiftshader));
                }
                call(Worker::Orch("ort"), "run", asked, libraries)
            }
            "openvino" => call(
                Worker::Orch("openvino"),
                "run",
                json!({
                    "device": device, "options": options, "measure": measure,
                    "inference_precision": params.inference_precision(),
                }),
                vec![("library", Library::OpenvinoC)],
            ),
            "browser" => call(
                Worker::Orch("browser"),
                "run",
                json!({"backend": params.backend, "device": device, "options": options, "measure": measure}),
                vec![("browser", Library::Browser), ("ort_web", Library::OrtWeb)],
            ),
            "transformers-js" => call(
                Worker::Orch("transformers-js"),
                "run",
                json!({"backend": params.backend, "device": device, "options": options, "measure": measure}),
                vec![("browser", Library::Browser), ("packages", Library::TransformersJs)],
            ),
            "android" => call(
                Worker::Orch("android"),
                "run",
                json!({
                    "device": device, "options": options, "measure": measure, "timeout_seconds": step.timeout_seconds,
                }),
                vec![("adb", Library::Adb), ("sdk", Library::QnnSdk)],
            ),
            "torch" => call(Worker::Torch, "run", json!({"device": device, "measure": measure}), vec![]),
            "python" => {
                let name = params.test.as_deref().unwrap_or_else(|| panic!("BUG: {} names no test", step.name));
                let model = places.input("model");
                // What the outputs are worth, `judge` says.
                let argv = json!([
                    "--no-judge",
                    "--model",
                    model,
                    "--device",
                    device,
                    "--save",
                    places.out,
                    "--json",
                    places.scratch.join("result.json"),
                ]);
                let script = places.input("test").join(name);
                call(Worker::Python(EnvName::Torch), "script", json!({"script": script, "argv": argv}), vec![])
            }
            other => anyhow::bail!("this version of orch has no runtime `{other}` for backend `{}`", params.backend),
        }
    }
}

/// A page is served on loopback; a phone is reached through adb's server, which keeps its keys and its log where it will.
fn access(runtime: &str) -> Access {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    match runtime {
        "browser" | "transformers-js" => Access { network: true, ..Access::default() },
        "android" => Access {
            network: true,
            home: true,
            write: home.map(|home| home.join(".android")).into_iter().chain([std::env::temp_dir()]).collect(),
        },
        _ => Access::default(),
    }
}
