//! Where native libraries lie inside an installed wheel.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::step::Library;
use crate::toolchain::EnvName;

/// The wheel that brings it, its folder below site-packages, and how the file's name begins.
pub(super) struct Place {
    pub(super) package: &'static str,
    folder: &'static str,
    prefix: &'static str,
}

/// The environment that holds it, and where in there.
pub(super) fn place(library: Library) -> (EnvName, Place) {
    let (env, package, folder, prefix) = match library {
        Library::OnnxRuntime(env) => {
            let package = match env {
                EnvName::Cuda => "onnxruntime-gpu",
                EnvName::Rocm => "onnxruntime-migraphx",
                _ => "onnxruntime",
            };
            (env, package, "onnxruntime/capi", "libonnxruntime.")
        }
        Library::QnnProvider => (EnvName::Qnn, "onnxruntime-qnn", "onnxruntime_qnn", "libonnxruntime_providers_qnn."),
        Library::WebgpuProvider => {
            let folder = "onnxruntime_ep_webgpu";
            (EnvName::Webgpu, "onnxruntime-ep-webgpu", folder, "libonnxruntime_providers_webgpu.")
        }
        Library::OpenvinoC => (EnvName::Openvino, "openvino", "openvino/libs", "libopenvino_c."),
        Library::Adb | Library::QnnSdk => panic!("BUG: what phones need is no library of a wheel"),
        Library::Browser | Library::OrtWeb | Library::TransformersJs | Library::Swiftshader => {
            panic!("BUG: what comes with the browser is no library of a wheel")
        }
    };
    (env, Place { package, folder, prefix })
}

/// The shared library, whatever version its name carries.
pub(super) fn find(site: &Path, place: &Place) -> anyhow::Result<PathBuf> {
    let folder = site.join(place.folder);
    let entries = std::fs::read_dir(&folder).with_context(|| format!("failed to list `{}`", folder.display()))?;
    let is_library =
        |name: &str| name.starts_with(place.prefix) && [".so", ".dylib", ".dll"].iter().any(|e| name.contains(e));
    let mut found: Vec<_> =
        entries.flatten().filter(|e| e.file_name().to_str().is_some_and(is_library)).map(|e| e.path()).collect();
    found.sort();
    match found.pop() {
        Some(path) => Ok(path),
        None => bail!("`{}` holds no {}*", folder.display(), place.prefix),
    }
}
