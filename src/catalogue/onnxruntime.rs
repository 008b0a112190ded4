//! ONNX Runtime: its CPU provider, its plugins, and its builds for GPUs.

use super::{
    Artefact, Code, Half, HalfProbe, Library, Pair, Part, Requirement, RunParams, RunRequest,
    Runtime, WORKER, Wheel, Windows, Worker, WorkerCall, by_precision, code, one_device, onnx,
    parts, qnn,
};
use crate::base::Precision;
use crate::device::{BackendRow, backends};
use crate::runtime::ort::{Params, execute};
use crate::runtime::tensors::Element;
use crate::toolchain::{EnvName, Tool};

const NAME: &str = "ort";

const ONNX: &[&Artefact] = &[&onnx::ARTEFACT];

const fn pair(
    backend: &'static BackendRow,
    template: &'static str,
    test_env: EnvName,
    half: Half,
) -> Pair {
    Pair {
        backend,
        loads: ONNX,
        template,
        test_env,
        half,
    }
}

pub static RUNTIME: Runtime = Runtime {
    name: NAME,
    pairs: &[
        pair(&backends::CPU, "ort", EnvName::Ort, Half::Shown(&HALF)),
        pair(&backends::CUDA, "cuda", EnvName::Cuda, Half::Shown(&HALF)),
        pair(&backends::ROCM, "rocm", EnvName::Rocm, Half::Shown(&HALF)),
        pair(&backends::MPS, "coreml", EnvName::Ort, Half::Unprobed),
        Pair {
            loads: &[&qnn::ARTEFACT],
            ..pair(&backends::QNN, "qnn", EnvName::Qnn, Half::Unprobed)
        },
        pair(
            &backends::WEBGPU,
            "webgpu",
            EnvName::Webgpu,
            Half::Shown(&HALF),
        ),
    ],
    absent: None,
    execute: Some(execute),
    code: Code::of(&[
        code::RUN,
        parts!(Rust "catalogue/onnxruntime.rs"),
        WORKER,
        CODE,
    ]),
    tools: |run| {
        let build = build(run);
        build
            .packages
            .iter()
            .map(|package| Tool {
                env: build.library.env,
                package,
            })
            .collect()
    },
    requires: |run| match is_in_software(run) {
        true => vec![Requirement::Env(EnvName::Webgpu), Requirement::Swiftshader],
        false => vec![Requirement::Env(build(run).library.env)],
    },
    server: None,
    runs_the_test: false,
    profiles: true,
    windows: Some(Windows {
        env: EnvName::Ort,
        package: "onnxruntime",
    }),
    composes: true,
    needs: RunParams::device_needs,
    computes: by_precision,
    failures_stand: true,
    versions: &["onnxruntime"],
    lower,
};

/// `orch worker ort`
pub const CODE: &[Part] = parts!(
    Rust "device/lease.rs", "device/snapdragon.rs", "device/native/cuda.rs", "device/native/nvml.rs",
        "device/native/vulkan.rs", "device/shown.rs", "device/vram.rs", "runtime/control", "runtime/ort/",
        "runtime/onnx_change.rs", "runtime/onnx_external.rs", "runtime/onnx_file.rs", "runtime/onnx_proto.rs";
    Crate "ash", "nvml-wrapper", "ort", "prost"
);

/// The CPU's kernels are looked at more closely.
static HALF: HalfProbe = HalfProbe {
    precisions: &[Precision::Fp16],
    devices: one_device,
    tensors: Element::Float16,
    lower: |request| {
        Ok(WorkerCall {
            op: "half",
            ..lower(request)?
        })
    },
};

/// The build of ONNX Runtime for a backend.
struct Build {
    backend: &'static BackendRow,
    library: &'static Wheel,
    packages: &'static [&'static str],
    /// The worker's word for the provider.
    provider: &'static str,
    plugin: Option<&'static Wheel>,
}

const fn wheel(env: EnvName, package: &'static str) -> Wheel {
    Wheel {
        env,
        package,
        folder: "onnxruntime/capi",
        prefix: "libonnxruntime.",
    }
}

pub static LIBRARY: Wheel = wheel(EnvName::Ort, "onnxruntime");
pub static LIBRARY_FOR_QNN: Wheel = wheel(EnvName::Qnn, "onnxruntime");
static LIBRARY_FOR_WEBGPU: Wheel = wheel(EnvName::Webgpu, "onnxruntime");
static LIBRARY_FOR_CUDA: Wheel = wheel(EnvName::Cuda, "onnxruntime-gpu");
static LIBRARY_FOR_ROCM: Wheel = wheel(EnvName::Rocm, "onnxruntime-migraphx");
static WEBGPU_PLUGIN: Wheel = Wheel {
    env: EnvName::Webgpu,
    package: "onnxruntime-ep-webgpu",
    folder: "onnxruntime_ep_webgpu",
    prefix: "libonnxruntime_providers_webgpu.",
};

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

const fn build_for(
    backend: &'static BackendRow,
    library: &'static Wheel,
    provider: &'static str,
) -> Build {
    Build {
        backend,
        library,
        packages: &["onnxruntime"],
        provider,
        plugin: None,
    }
}

static BUILDS: &[Build] = &[
    build_for(&backends::CPU, &LIBRARY, "cpu"),
    Build {
        packages: CUDA_PACKAGES,
        ..build_for(&backends::CUDA, &LIBRARY_FOR_CUDA, "cuda")
    },
    Build {
        packages: &["onnxruntime-migraphx"],
        ..build_for(&backends::ROCM, &LIBRARY_FOR_ROCM, "rocm")
    },
    // The usual build for macOS brings CoreML with it.
    build_for(&backends::MPS, &LIBRARY, "coreml"),
    Build {
        packages: &["onnxruntime", "onnxruntime-qnn"],
        plugin: Some(&qnn::PROVIDER),
        ..build_for(&backends::QNN, &LIBRARY_FOR_QNN, "qnn")
    },
    Build {
        packages: &["onnxruntime", "onnxruntime-ep-webgpu"],
        plugin: Some(&WEBGPU_PLUGIN),
        ..build_for(&backends::WEBGPU, &LIBRARY_FOR_WEBGPU, "webgpu")
    },
];

fn build(run: &RunParams) -> &'static Build {
    let found = BUILDS.iter().find(|build| build.backend == run.backend);
    found.expect("BUG: every backend of this runtime has a build")
}

/// Whether WebGPU may fall to a driver in software. With `gpu` it is a GPU or nothing.
fn is_in_software(run: &RunParams) -> bool {
    *run.backend == backends::WEBGPU && run.device != "gpu"
}

fn lower(request: &RunRequest<'_>) -> anyhow::Result<WorkerCall> {
    let RunParams {
        backend,
        device,
        measure,
        ..
    } = request.run;
    let (options, threads) = match backend.is_host {
        true => request.run.options_and_threads()?,
        false => (request.run.options.clone(), None),
    };
    let Build {
        library,
        provider,
        plugin,
        ..
    } = build(request.run);
    // The CPU's one device is its provider; another name is refused there.
    let provider = if backend.is_host {
        device.as_str()
    } else {
        provider
    };
    let names_device = **backend != backends::QNN && !backend.is_host;
    let params = Params {
        ep: Some(provider.to_owned()),
        options,
        measure: measure.params(),
        threads: threads.map(|count| count as usize),
        device: names_device.then(|| device.clone()),
        ..Params::default()
    };
    let mut libraries = vec![("library", Library::Wheel(library))];
    libraries.extend(plugin.map(|plugin| ("ep_library", Library::Wheel(plugin))));
    if is_in_software(request.run) {
        libraries.push(("vulkan", Library::Swiftshader));
    }
    Ok(WorkerCall {
        libraries,
        ..WorkerCall::of(Worker::Orch(NAME), "run", &params)
    })
}
