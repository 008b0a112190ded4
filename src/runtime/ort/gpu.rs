//! Providers that come with a build of ONNX Runtime of their own: CUDA and TensorRT, MIGraphX and ROCm, CoreML.
//!
//! None falls back: a session gets the one provider, and the nodes that it leaves are an error (`place.rs`). One process
//! has one device (`device/lease.rs`, `device/shown.rs`), so each provider is passed number 0 of what it is shown.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ::ort::ep::{self, ExecutionProvider as _, ExecutionProviderDispatch};
use anyhow::{Result, bail};
use serde_json::json;

use super::Params;
use super::options::Allowed::{Whole, Words};
use super::options::{SWITCH, Table};
use super::place::Place;
use crate::base::variable;
use crate::device::shown;
use crate::runtime::refusal::Refusal;

pub(super) const CUDA: &str = "CUDAExecutionProvider";
pub(super) const TENSORRT: &str = "TensorrtExecutionProvider";
pub(super) const MIGRAPHX: &str = "MIGraphXExecutionProvider";
pub(super) const ROCM: &str = "ROCMExecutionProvider";
pub(super) const COREML: &str = "CoreMLExecutionProvider";

const ARENA: &[&str] = &["kNextPowerOfTwo", "kSameAsRequested"];

/// TF32 is off, because it would compute fp32 models with 10 bits of mantissa; the search for a convolution's algorithm is
/// cuDNN's rule and no race of kernels, so that two runs use the same ones.
const CUDA_TABLE: Table = Table {
    provider: "CUDA",
    always: &[("cudnn_conv_algo_search", "HEURISTIC"), ("use_tf32", "0")],
    options: &[
        ("arena_extend_strategy", Words(ARENA)),
        (
            "cudnn_conv_algo_search",
            Words(&["DEFAULT", "EXHAUSTIVE", "HEURISTIC"]),
        ),
        ("cudnn_conv_use_max_workspace", Words(SWITCH)),
        ("gpu_mem_limit", Whole(1, u64::MAX)),
        ("prefer_nhwc", Words(SWITCH)),
        ("use_tf32", Words(SWITCH)),
    ],
};

/// Engines are not cached: a load must not depend on earlier runs.
const TENSORRT_TABLE: Table = Table {
    provider: "TensorRT",
    always: &[
        ("trt_engine_cache_enable", "0"),
        ("trt_fp16_enable", "0"),
        ("trt_timing_cache_enable", "0"),
    ],
    options: &[
        ("trt_bf16_enable", Words(SWITCH)),
        (
            "trt_builder_optimization_level",
            Words(&["0", "1", "2", "3", "4", "5"]),
        ),
        ("trt_fp16_enable", Words(SWITCH)),
        ("trt_max_workspace_size", Whole(1, u64::MAX)),
    ],
};

const MIGRAPHX_TABLE: Table = Table {
    provider: "MIGraphX",
    always: &[("exhaustive_tune", "0"), ("fp16", "0")],
    options: &[("exhaustive_tune", Words(SWITCH)), ("fp16", Words(SWITCH))],
};

/// CoreML itself spreads a model over the units that it may use; which it used it does not tell.
const COREML_TABLE: Table = Table {
    provider: "CoreML",
    always: &[
        ("AllowLowPrecisionAccumulationOnGPU", "0"),
        ("ModelFormat", "MLProgram"),
    ],
    options: &[
        ("AllowLowPrecisionAccumulationOnGPU", Words(SWITCH)),
        ("ModelFormat", Words(&["MLProgram", "NeuralNetwork"])),
        (
            "SpecializationStrategy",
            Words(&["Default", "FastPrediction"]),
        ),
    ],
};

/// Devices of the CoreML target, and CoreML's word for each.
const COREML_UNITS: &[(&str, &str)] = &[
    ("all", "ALL"),
    ("cpu", "CPUOnly"),
    ("gpu", "CPUAndGPU"),
    ("npu", "CPUAndNeuralEngine"),
];

/// A CUDA device, or TensorRT on one.
pub(super) fn cuda(params: &Params) -> Result<Place> {
    let device = params.device.as_deref().unwrap_or("cuda");
    let tensorrt = device.split(':').next() == Some("tensorrt");
    let (provider, table) = if tensorrt {
        (TENSORRT, &TENSORRT_TABLE)
    } else {
        (CUDA, &CUDA_TABLE)
    };
    let options = table.checked(&params.options).map_err(anyhow::Error::msg)?;
    let folder = nvidia(&params.library);
    let loaded = folder.as_deref().map(preload).unwrap_or_default();
    if tensorrt && !loads("libnvinfer.so.10") {
        return Err(Refusal::unavailable(
            "TensorRT is not here: no libnvinfer.so.10 loads (install TensorRT 10, and name its folder in LD_LIBRARY_PATH)",
        ));
    }
    let tf32 = if allows_tf32(&options) {
        "on (use_tf32)"
    } else {
        "off (NVIDIA_TF32_OVERRIDE=0)"
    };
    let place = Place {
        options,
        ..on_lease(params, provider, device)?
    };
    Ok(place
        .with_fact("cuda_libraries", json!(loaded))
        .with_fact("tf32", json!(tf32)))
}

/// The last word on TF32, before any of NVIDIA's libraries is loaded: TensorRT's provider has no option for it, and cuBLAS,
/// cuDNN and TensorRT ask this variable before their programs.
pub(super) fn settle_tf32(params: &Params) -> Result<()> {
    const OVERRIDE: &str = "NVIDIA_TF32_OVERRIDE";
    let options = params
        .options
        .iter()
        .map(|(name, value)| (name.clone(), value.to_string().replace('"', "")));
    if !allows_tf32(&options.collect::<Vec<_>>()) {
        // SAFETY: the worker has read its job, and no other thread of it runs yet.
        unsafe { std::env::set_var(OVERRIDE, "0") };
    } else if variable::text(OVERRIDE).is_some_and(|value| value == "0") {
        bail!("the option `use_tf32` is on, and {OVERRIDE}=0 forbids it: unset one of them");
    }
    Ok(())
}

fn allows_tf32(options: &[(String, String)]) -> bool {
    options
        .iter()
        .any(|(name, value)| name == "use_tf32" && ["1", "true"].contains(&value.as_str()))
}

/// The place, if CUDA's driver starts and shows this process the leased GPU.
pub(super) fn seen(mut place: Place) -> Result<Place> {
    let Some(lease) = &mut place.lease else {
        return Ok(place);
    };
    let shown = shown::nvidia(lease).map_err(Refusal::unavailable)?;
    Ok(place.with_fact("cuda", json!(shown)))
}

pub(super) fn rocm(params: &Params) -> Result<Place> {
    let options = MIGRAPHX_TABLE
        .checked(&params.options)
        .map_err(anyhow::Error::msg)?;
    Ok(Place {
        options,
        ..on_lease(params, MIGRAPHX, params.device.as_deref().unwrap_or("rocm"))?
    })
}

pub(super) fn coreml(params: &Params) -> Result<Place> {
    if !cfg!(target_os = "macos") {
        return Err(Refusal::unavailable("CoreML needs macOS"));
    }
    let device = params.device.as_deref().unwrap_or("all");
    let device = device.strip_prefix("coreml:").unwrap_or(device);
    let Some((_, units)) = COREML_UNITS.iter().find(|(name, _)| *name == device) else {
        let hint = crate::base::suggest::hint(device, COREML_UNITS.iter().map(|(name, _)| *name));
        bail!("CoreML has no device `{device}`; {hint}");
    };
    let mut options = COREML_TABLE
        .checked(&params.options)
        .map_err(anyhow::Error::msg)?;
    options.push(("MLComputeUnits".to_owned(), (*units).to_owned()));
    // Not `gpu`: which of the units it used CoreML does not tell.
    Ok(Place {
        options,
        ..Place::new(COREML, device, format!("coreml:{units}"))
    })
}

/// The leased device, by its own name.
fn on_lease(params: &Params, provider: &'static str, device: &str) -> Result<Place> {
    let Some(lease) = &params.lease else {
        return Err(Refusal::unavailable(format!(
            "no device `{device}` was found for this process"
        )));
    };
    lease.check().map_err(anyhow::Error::msg)?;
    let place = Place {
        lease: Some(lease.clone()),
        ..Place::new(provider, device, lease.id.clone())
    };
    Ok(place.with_fact(
        "device",
        json!({"id": lease.id, "name": lease.name, "uuid": lease.uuid}),
    ))
}

/// How a session is given a provider that ONNX Runtime does not offer as a device; None for one that it does.
pub(super) fn built_in(
    provider: &str,
    options: &[(String, String)],
) -> Option<ExecutionProviderDispatch> {
    let on = |name: &str| {
        options
            .iter()
            .any(|(known, value)| known == name && value == "1")
    };
    fn with<P: ep::ArbitrarilyConfigurableExecutionProvider>(
        provider: P,
        options: &[(String, String)],
    ) -> P {
        options.iter().fold(provider, |provider, (name, value)| {
            provider.with_arbitrary_config(name, value)
        })
    }
    // The process is shown one device, so that is the first.
    let id = 0;
    let migraphx = || {
        ep::MIGraphX::default()
            .with_device_id(id)
            .with_fp16(on("fp16"))
    };
    let provider = match provider {
        CUDA => with(ep::CUDA::default().with_device_id(id), options).build(),
        TENSORRT => with(ep::TensorRT::default().with_device_id(id), options).build(),
        MIGRAPHX => migraphx()
            .with_exhaustive_tune(on("exhaustive_tune"))
            .build(),
        ROCM => ep::ROCm::default().with_device_id(id).build(),
        COREML => with(ep::CoreML::default(), options).build(),
        _ => return None,
    };
    Some(provider.error_on_failure())
}

/// MIGraphX, or the older ROCm provider where the loaded library has that one and not the other.
pub(super) fn of_amd() -> &'static str {
    let is_here = |answer: ort::Result<bool>| answer.unwrap_or(false);
    let new = is_here(ep::MIGraphX::is_available());
    let old = is_here(ep::ROCm::is_available());
    if old && !new { ROCM } else { MIGRAPHX }
}

/// Whether an error of a provider says that its library, its driver or its device is not there.
pub(super) fn is_absence(reason: &str) -> bool {
    [
        "cannot open shared object",
        "Failed to load library",
        "no CUDA-capable device",
        "CUDA driver version is insufficient",
        "CUDA error 35",
        "CUDA failure 35",
        "CUDA failure 46:",
        "CUDA failure 100",
        // The card is older or newer than any that the library holds kernels for.
        "CUDA failure 209",
        "no kernel image is available",
        // The driver cannot read what the runtime compiles: it is of an older CUDA.
        "CUDA failure 222",
        "CUDA failure 802",
        "CUDA failure 803",
        "CUDA failure 804",
        "hipErrorNoDevice",
        "no ROCm-capable device",
        "execution provider is not enabled in this build",
        "not supported in this build",
    ]
    .iter()
    .any(|words| reason.contains(words))
}

/// `site-packages/nvidia` beside `site-packages/onnxruntime/capi/libonnxruntime.so`.
fn nvidia(library: &Path) -> Option<PathBuf> {
    library
        .ancestors()
        .nth(3)
        .map(|site| site.join("nvidia"))
        .filter(|folder| folder.is_dir())
}

/// Loads CUDA's and cuDNN's libraries of the environment for all that will ask for them by name, and gives their names.
///
/// The provider looks for them by the system's rules, which do not know the environment. They need each other in an order
/// that differs from release to release, so what does not load yet is tried again while anything does.
fn preload(folder: &Path) -> Vec<String> {
    let wanted = walk(folder).into_iter().filter(|path| is_wanted(path));
    let mut open: BTreeSet<PathBuf> = wanted.collect();
    let mut loaded = BTreeSet::new();
    loop {
        let now: BTreeSet<_> = open.iter().filter(|path| load(path)).cloned().collect();
        if now.is_empty() {
            return loaded.into_iter().collect();
        }
        open.retain(|path| !now.contains(path));
        loaded.extend(
            now.iter()
                .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())),
        );
    }
}

fn is_wanted(path: &Path) -> bool {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    const WANTED: [&str; 8] = [
        "libcudart",
        "libcublas",
        "libcudnn",
        "libcufft",
        "libcurand",
        "libnvrtc.",
        "libnvJitLink",
        "libnvinfer",
    ];
    name.contains(".so.") && WANTED.iter().any(|start| name.starts_with(start))
}

/// Files in the folders named `lib` below a folder: wheels put them one or two levels deep.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect()
    };
    list(folder)
        .iter()
        .flat_map(|package| list(&package.join("lib")))
        .filter(|path| path.is_file())
        .collect()
}

fn loads(name: &str) -> bool {
    load(Path::new(name))
}

/// Loads a library for the rest of the process.
fn load(path: &Path) -> bool {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    // SAFETY: the initialisers of NVIDIA's libraries run, in a process that exists for this run alone.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
    library.map(std::mem::forget).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::JobStatus;

    fn params(more: serde_json::Value) -> Params {
        let mut params = json!({"library": "/nowhere/libonnxruntime.so"});
        params
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        Params::of(&params).unwrap()
    }

    #[test]
    fn fp32_is_not_tf32_unless_a_spec_says_so() {
        let lease =
            json!({"id": "cuda:1", "name": "NVIDIA H200", "uuid": "GPU-1", "index": 0, "env": {}});
        let place = cuda(&params(json!({"device": "cuda:1", "lease": lease}))).unwrap();
        assert_eq!(place.options()["use_tf32"], "0");
        assert_eq!(place.more["tf32"], "off (NVIDIA_TF32_OVERRIDE=0)");
        assert_eq!(
            (place.requested.as_str(), place.actual.as_str()),
            ("cuda:1", "cuda:1")
        );
        let place = cuda(&params(json!({"lease": lease, "options": {"use_tf32": 1}}))).unwrap();
        assert_eq!(place.options()["use_tf32"], "1");
        assert_eq!(place.more["tf32"], "on (use_tf32)");
        let error = cuda(&params(json!({"lease": lease, "options": {"use_tf23": 1}})))
            .err()
            .unwrap();
        assert_eq!(
            error.to_string(),
            "CUDA has no option `use_tf23`; did you mean `use_tf32`?"
        );
    }

    #[test]
    fn without_a_device_nothing_is_tried() {
        for place in [cuda, rocm] {
            let error = place(&params(json!({}))).err().unwrap();
            assert_eq!(
                Refusal::status_of(&error),
                JobStatus::Unavailable,
                "{error}"
            );
        }
        let missing = cuda(&params(json!({"device": "tensorrt"}))).err().unwrap();
        assert_eq!(Refusal::status_of(&missing), JobStatus::Unavailable);
        assert!(
            missing.to_string().starts_with("TensorRT is not here"),
            "{missing}"
        );
    }

    #[test]
    fn a_lease_that_the_process_was_not_started_with_is_refused() {
        let lease = json!({"id": "cuda:0", "name": "x", "index": 0, "env": {"ORCH_NO_SUCH_VARIABLE": "GPU-1"}});
        let error = cuda(&params(json!({"lease": lease}))).err().unwrap();
        assert!(
            error
                .to_string()
                .contains("ORCH_NO_SUCH_VARIABLE is not GPU-1"),
            "{error}"
        );
    }

    #[test]
    fn what_is_not_there_is_distinguished_from_what_failed() {
        for absent in [
            "libcudart.so.13: cannot open shared object file: No such file or directory",
            "CUDA failure 100: no CUDA-capable device is detected",
            "CUDA failure 209: no kernel image is available for execution on the device ; GPU=0",
            "CUDA failure 802: system not yet initialized",
        ] {
            assert!(is_absence(absent), "{absent}");
        }
        assert!(!is_absence("CUDNN_STATUS_EXECUTION_FAILED"));
        assert!(!is_absence(
            "CUDA failure 700: an illegal memory access was encountered"
        ));
    }

    /// Two libraries, the first of which needs the second.
    #[test]
    fn libraries_are_loaded_in_whatever_order_they_need() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("cublas/lib");
        std::fs::create_dir_all(&library).unwrap();
        let cc = |name: &str, text: &str, more: &[&str]| {
            let source = folder.path().join("x.c");
            std::fs::write(&source, text).unwrap();
            let mut command = std::process::Command::new("cc");
            command
                .args(["-shared", "-fPIC", &format!("-Wl,-soname,{name}"), "-o"])
                .arg(library.join(name))
                .arg(source);
            assert!(command.args(more).status().unwrap().success());
        };
        cc("libcudart.so.99", "int orch_b(void) { return 1; }", &[]);
        let needed = library.join("libcudart.so.99");
        cc(
            "libcublas.so.99",
            "int orch_b(void); int orch_a(void) { return orch_b(); }",
            &[needed.to_str().unwrap()],
        );
        std::fs::write(library.join("libcudnn.so.99"), "no library").unwrap();
        std::fs::write(library.join("libother.so.1"), "not requested").unwrap();
        assert_eq!(
            preload(folder.path()),
            ["libcublas.so.99", "libcudart.so.99"]
        );
    }
}
