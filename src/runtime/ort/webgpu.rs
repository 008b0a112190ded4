//! The WebGPU provider, a plugin without a browser: on a GPU through its Vulkan or Metal driver, or on SwiftShader, a
//! Vulkan driver in software, which is labelled as such wherever its result stands.
//!
//! The provider itself names no adapter, so the Vulkan loader that it will use is queried first.

use std::path::Path;

use anyhow::{Result, bail};
use serde_json::json;

use super::Params;
use super::options::Allowed::Words;
use super::options::{SWITCH, Table};
use super::place::Place;
use crate::device::native::vulkan::{self, Adapter};
use crate::runtime::refusal::Refusal;

pub(super) const WEBGPU: &str = "WebGpuExecutionProvider";

/// What a spec may ask for: the best adapter there is, a GPU or nothing, or the driver in software.
const DEVICES: [&str; 3] = ["webgpu", "gpu", "software"];

/// Left out on purpose: those that pass parts of the model to the CPU, and those that hand over a device of the caller's.
const TABLE: Table = Table {
    provider: "WebGPU",
    always: &[("enableInt64", "1")],
    options: &[
        ("preferredLayout", Words(&["NCHW", "NHWC"])),
        ("enableInt64", Words(SWITCH)),
        ("enableGraphCapture", Words(SWITCH)),
        (
            "validationMode",
            Words(&["disabled", "wgpuOnly", "basic", "full"]),
        ),
        (
            "storageBufferCacheMode",
            Words(&["disabled", "lazyRelease", "simple", "bucket"]),
        ),
    ],
};

/// Makes the environment of this process such that the provider finds the adapter that was requested, and no other kind.
///
/// Must be called before ONNX Runtime is loaded: drivers and providers read the environment when they start.
pub(super) fn place(params: &Params) -> Result<Place> {
    let options = TABLE.checked(&params.options).map_err(anyhow::Error::msg)?;
    let device = params.device.as_deref().unwrap_or("webgpu");
    if !DEVICES.contains(&device) {
        let hint = crate::base::suggest::hint(device, DEVICES);
        bail!("WebGPU has no device `{device}`; {hint}");
    }
    if !cfg!(target_os = "linux") {
        // Metal and Direct3D have one adapter by default, and it is a GPU.
        return Ok(Place {
            options,
            ..Place::new(WEBGPU, device, "webgpu")
        });
    }
    let adapters = adapters(device, params.vulkan.as_deref()).map_err(|why| {
        Refusal::unavailable(format!(
            "WebGPU needs Vulkan, and there is none here: {why}"
        ))
    })?;
    let Some(adapter) = adapters.first() else {
        return Err(Refusal::unavailable(
            "WebGPU needs Vulkan, and its drivers list no device",
        ));
    };
    let software = adapter.is_software();
    if device == "gpu" && software {
        return Err(Refusal::unavailable(format!(
            "no GPU has a Vulkan driver: it lists only {}",
            adapter.name
        )));
    }
    if device == "software" && !software {
        return Err(Refusal::unavailable(format!(
            "SwiftShader is not here, and Vulkan lists {}",
            adapter.name
        )));
    }
    if software {
        // SAFETY: no other thread of this process reads the environment: nothing was loaded that starts one, but for a
        // Vulkan driver, which read its own when its adapters were listed.
        unsafe { std::env::set_var("ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER", "1") };
    }
    let actual = if software {
        "webgpu-software"
    } else {
        "webgpu"
    };
    let place = Place {
        options,
        ..Place::new(WEBGPU, device, actual)
    };
    Ok(place
        .with_fact("adapter", described(adapter))
        .with_fact("adapters_seen", json!(adapters.len())))
}

fn described(adapter: &Adapter) -> serde_json::Value {
    json!({"name": adapter.name, "kind": adapter.kind, "vendor": adapter.vendor, "vulkan": adapter.api})
}

/// The adapters that the provider will see: a GPU's where it has a driver and one may be used, SwiftShader's otherwise.
fn adapters(device: &str, swiftshader: Option<&Path>) -> Result<Vec<Adapter>, String> {
    let system = vulkan::adapters(Path::new(vulkan::LOADER));
    let is_gpu = system
        .as_ref()
        .is_ok_and(|found| found.iter().any(|adapter| !adapter.is_software()));
    match swiftshader.filter(|folder| folder.is_dir()) {
        Some(folder) if device == "software" || (device == "webgpu" && !is_gpu) => {
            vulkan::adapters(&vulkan::in_software(folder))
        }
        _ => system,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(params: serde_json::Value) -> String {
        place(&Params::of(&params).unwrap())
            .err()
            .unwrap()
            .to_string()
    }

    #[test]
    fn slips_are_named_before_anything_is_loaded() {
        let base = |more: serde_json::Value| {
            let mut params = json!({"library": "/x", "ep": "webgpu"});
            params
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            params
        };
        assert_eq!(
            refused(base(json!({"device": "sofware"}))),
            "WebGPU has no device `sofware`; did you mean `software`?"
        );
        let error = refused(base(json!({"options": {"forceCpuNodeNames": "a"}})));
        assert!(
            error.starts_with("WebGPU has no option `forceCpuNodeNames`"),
            "{error}"
        );
    }
}
