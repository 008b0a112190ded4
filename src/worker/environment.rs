//! What a worker sees of the user's environment: named variables and no others.
//!
//! A variable that is on no list can neither change what a library computes without being in the key, nor be read by a
//! model's own code. Those of `ARITHMETIC`, `DIVISION` and `TIMING` are in keys; those of `INHERITED` are in none.

#![expect(clippy::disallowed_methods, reason = "starts workers")]

use std::ffi::OsStr;
use std::process::Command;

use crate::base::variable;

/// Variables that change the results of libraries, in the key of every step that computes.
pub const ARITHMETIC: &[&str] = &[
    "ATEN_CPU_CAPABILITY",
    "DNNL_DEFAULT_FPMATH_MODE",
    "DNNL_MAX_CPU_ISA",
    "HSA_OVERRIDE_GFX_VERSION",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "NVIDIA_TF32_OVERRIDE",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "ONEDNN_MAX_CPU_ISA",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
];

/// Variables that change how the work of libraries is divided, and so how long it takes and perhaps last bits; in the key
/// of every run.
pub const DIVISION: &[&str] = &[
    "LD_PRELOAD",
    "MKL_DYNAMIC",
    "MKL_NUM_THREADS",
    "OMP_DYNAMIC",
    "OMP_NUM_THREADS",
    "OMP_SCHEDULE",
    "OMP_THREAD_LIMIT",
];

/// Variables that change nothing but how long libraries take; in the key of every run that is timed.
pub const TIMING: &[&str] = &[
    "CUDA_LAUNCH_BLOCKING",
    "GOMP_CPU_AFFINITY",
    "GOMP_SPINCOUNT",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "OMP_PLACES",
    "OMP_PROC_BIND",
    "OMP_WAIT_POLICY",
];

/// Names that workers inherit besides, and that are in no key; what ends with `*` stands for all that begin so.
const INHERITED: &[&str] = &[
    // The system, and where its programs and libraries are.
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "TZ",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "XDG_*",
    "LD_LIBRARY_PATH",
    "DYLD_*",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "CC",
    "CXX",
    "RUST_BACKTRACE",
    // orch's own, without what only orch itself needs (`SECRET`).
    "ORCH_*",
    // Devices and their drivers.
    "ADB_*",
    "ADSP_LIBRARY_PATH",
    "ANDROID_*",
    "CUDA_*",
    "GPU_DEVICE_ORDINAL",
    "HIP_*",
    "HSA_*",
    "LIBGL_*",
    "MESA_*",
    "NVIDIA_*",
    "QNN_*",
    "ROCM_*",
    "ROCR_*",
    "VK_*",
    "ZE_*",
    // The Hub, and the way to it.
    "HF_*",
    "HUGGINGFACE_*",
    "HUGGING_FACE_*",
    "TRANSFORMERS_CACHE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

/// Variables of orch's with passwords, tokens and salts, which no worker needs.
const SECRET: &[&str] = &["ORCH_EXECUTOR*", "ORCH_KEY_SALT", "ORCH_REMOTE*"];

/// Nothing is sent to a vendor, and nothing left in the user's caches for that.
const SILENT: &[(&str, &str)] = &[
    ("HF_HUB_DISABLE_TELEMETRY", "1"),
    ("ORT_DISABLE_TELEMETRY", "1"),
];

/// A program that sees the inherited variables alone. What it is given besides is set afterwards.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear();
    let inherited = variable::all().filter(|(name, _)| name.to_str().is_some_and(is_inherited));
    command.envs(inherited).envs(SILENT.iter().copied());
    command
}

/// Whether workers see a variable of the user's.
fn is_inherited(name: &str) -> bool {
    let is_among = |patterns: &[&str]| {
        patterns.iter().any(|pattern| {
            pattern
                .strip_suffix('*')
                .map_or(*pattern == name, |prefix| name.starts_with(prefix))
        })
    };
    is_in_keys(name) || is_among(INHERITED) && !is_among(SECRET)
}

/// Whether keys hold the value of a variable, which decides what libraries compute or how long they take.
fn is_in_keys(name: &str) -> bool {
    [ARITHMETIC, DIVISION, TIMING]
        .iter()
        .any(|names| names.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_see_what_they_need_and_no_secrets() {
        for name in [
            "PATH",
            "LC_ALL",
            "HF_TOKEN",
            "CUDA_VISIBLE_DEVICES",
            "ORCH_SANDBOX",
        ] {
            assert!(is_inherited(name), "{name}");
        }
        for name in [
            "AWS_SECRET_ACCESS_KEY",
            "GITHUB_TOKEN",
            "ORCH_KEY_SALT",
            "ORCH_REMOTE_OPTION_PASSWORD",
            "ORCH_EXECUTOR_OPTION_TOKEN",
            "PATHS",
        ] {
            assert!(!is_inherited(name), "{name}");
        }
        let command = command("x");
        let silent = command
            .get_envs()
            .any(|(name, value)| name == "ORT_DISABLE_TELEMETRY" && value == Some(OsStr::new("1")));
        assert!(silent);
    }

    /// What libraries that orch runs read: each variable is in a key, or no worker sees it.
    #[test]
    fn what_changes_a_library_is_in_a_key_or_dropped() {
        let in_keys = [
            "ATEN_CPU_CAPABILITY",
            "DNNL_MAX_CPU_ISA",
            "GOMP_CPU_AFFINITY",
            "GOMP_SPINCOUNT",
            "KMP_AFFINITY",
            "KMP_BLOCKTIME",
            "LD_PRELOAD",
            "MKL_CBWR",
            "MKL_NUM_THREADS",
            "OMP_DYNAMIC",
            "OMP_NUM_THREADS",
            "OMP_PROC_BIND",
            "OMP_WAIT_POLICY",
            "ONEDNN_DEFAULT_FPMATH_MODE",
            "ONEDNN_MAX_CPU_ISA",
            "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
        ];
        let dropped = [
            "CUBLAS_WORKSPACE_CONFIG",
            "GLIBC_TUNABLES",
            "JAX_DEFAULT_MATMUL_PRECISION",
            "JAX_ENABLE_X64",
            "KMP_DUPLICATE_LIB_OK",
            "KMP_HW_SUBSET",
            "KMP_LIBRARY",
            "KMP_SETTINGS",
            "LD_BIND_NOW",
            "MALLOC_ARENA_MAX",
            "MALLOC_CHECK_",
            "MALLOC_PERTURB_",
            "MALLOC_TRIM_THRESHOLD_",
            "MKL_DEBUG_CPU_TYPE",
            "MKL_INTERFACE_LAYER",
            "MKL_THREADING_LAYER",
            "MKL_VERBOSE",
            "NODE_OPTIONS",
            "NODE_PATH",
            "NUMEXPR_NUM_THREADS",
            "OMP_CANCELLATION",
            "OMP_DISPLAY_ENV",
            "OMP_MAX_ACTIVE_LEVELS",
            "OMP_NESTED",
            "OMP_STACKSIZE",
            "ONEDNN_CPU_ISA_HINTS",
            "ONEDNN_JIT_DUMP",
            "ONEDNN_PRIMITIVE_CACHE_CAPACITY",
            "ONEDNN_VERBOSE",
            "OPENBLAS_CORETYPE",
            "OPENBLAS_NUM_THREADS",
            "OPENVINO_LOG_LEVEL",
            "ORT_DISABLE_ALL_OPTIMIZATION",
            "ORT_LOG_SEVERITY_LEVEL",
            "OV_CPU_SKIP_CACHE",
            "OV_ENABLE_SERIALIZE_TRACING",
            "PYTHONASYNCIODEBUG",
            "PYTHONDEVMODE",
            "PYTHONDONTWRITEBYTECODE",
            "PYTHONHASHSEED",
            "PYTHONHOME",
            "PYTHONINTMAXSTRDIGITS",
            "PYTHONIOENCODING",
            "PYTHONMALLOC",
            "PYTHONNOUSERSITE",
            "PYTHONOPTIMIZE",
            "PYTHONPATH",
            "PYTHONPROFILEIMPORTTIME",
            "PYTHONSAFEPATH",
            "PYTHONSTARTUP",
            "PYTHONUTF8",
            "PYTHONWARNINGS",
            "PYTORCH_CUDA_ALLOC_CONF",
            "PYTORCH_JIT",
            "PYTORCH_NO_CUDA_MEMORY_CACHING",
            "RUST_LOG",
            "TF_CPP_MIN_LOG_LEVEL",
            "TF_ENABLE_ONEDNN_OPTS",
            "TF_NUM_INTRAOP_THREADS",
            "TORCHDYNAMO_DISABLE",
            "TORCHINDUCTOR_FREEZING",
            "TORCH_COMPILE_DISABLE",
            "TORCH_DEVICE_BACKEND_AUTOLOAD",
            "TORCH_HOME",
            "TORCH_LOGS",
            "TRANSFORMERS_OFFLINE",
            "TRANSFORMERS_VERBOSITY",
            "USE_TF",
            "USE_TORCH",
            "XLA_FLAGS",
        ];
        for name in in_keys {
            assert!(is_in_keys(name) && is_inherited(name), "{name}");
        }
        for name in dropped {
            assert!(!is_inherited(name), "{name}");
        }
    }
}
