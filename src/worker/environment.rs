//! What a worker sees of the user's environment: named variables and no others.
//!
//! A variable that is not on the list can neither change what a library computes without being in the key, nor be read by
//! a model's own code. Which of them decide results, `exec/keys.rs` says.

use std::ffi::OsStr;
use std::process::Command;

/// Names that workers inherit; what ends with `*` stands for all that begin so.
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
    "LD_PRELOAD",
    "DYLD_*",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "CC",
    "CXX",
    "RUST_BACKTRACE",
    // orch's own, without what only orch itself needs (`SECRET`).
    "ORCH_*",
    // Numbers of threads, kernels and precision: what changes results or times is in the key.
    "ATEN_CPU_CAPABILITY",
    "DNNL_*",
    "ONEDNN_*",
    "GOMP_*",
    "KMP_*",
    "MKL_*",
    "OMP_*",
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
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
    let inherited = std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_inherited));
    command.envs(inherited).envs(SILENT.iter().copied());
    command
}

/// Whether workers see a variable of the user's.
pub fn is_inherited(name: &str) -> bool {
    let is_among = |patterns: &[&str]| {
        patterns.iter().any(|pattern| {
            pattern
                .strip_suffix('*')
                .map_or(*pattern == name, |prefix| name.starts_with(prefix))
        })
    };
    is_among(INHERITED) && !is_among(SECRET)
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
            "PYTHONPATH",
            "PYTHONHOME",
            "PYTHONWARNINGS",
            "PYTHONOPTIMIZE",
            "PYTORCH_JIT",
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
}
