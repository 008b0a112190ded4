//! WebGPU without a browser: ONNX Runtime's plugin on a GPU's Vulkan or Metal driver, or on SwiftShader, a Vulkan driver in
//! software that orch installs on first need and that is labelled wherever it stands. Browsers are `web`'s business.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::host::Host;
use super::native::vulkan;
use super::{Absent, Backend, Device, DeviceKind, Look};

/// What reports call results of the driver in software.
pub const SOFTWARE: &str = "webgpu-software";
const HARDWARE: &str = "webgpu";
/// The driver that orch installs, as it stands in the keys of measurements.
pub const DRIVER: &str = "SwiftShader of @sparticuz/chromium 153.0.0";

const DRIVERS: [&str; 3] = [
    "/usr/share/vulkan/icd.d",
    "/etc/vulkan/icd.d",
    "/usr/local/share/vulkan/icd.d",
];
const FOLDERS: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/run/opengl-driver/lib",
];
/// How the files of drivers in software are called: Mesa's lavapipe, and SwiftShader.
const IN_SOFTWARE: [&str; 3] = ["lvp", "lavapipe", "swiftshader"];

pub(super) fn look(host: &Host, _thorough: bool) -> Result<Look, Absent> {
    match (host.os.as_str(), host.arch.as_str()) {
        ("macos", "aarch64") => {
            let chip = host.sysctl().get("machdep.cpu.brand_string").cloned();
            let name = chip.map_or_else(|| "Apple GPU".to_owned(), |chip| format!("{chip} GPU"));
            let mut device = Device::new(HARDWARE, name, DeviceKind::Hardware);
            device.fact("by", "Metal");
            Ok(Backend::available("webgpu", vec![device]).into())
        }
        ("linux", "x86_64" | "aarch64") => {
            host.needs_glibc("webgpu", "the WebGPU package", (2, 28))?;
            Ok(on_linux(host))
        }
        (os, arch) => {
            let why = format!("no package of ONNX Runtime's WebGPU exists for {os} {arch}");
            Err(Backend::unavailable("webgpu", why).into())
        }
    }
}

pub(super) fn query(params: &Value) -> Result<Backend, Absent> {
    let loader = match params["swiftshader"].as_str() {
        Some(folder) => vulkan::in_software(Path::new(folder)),
        None => PathBuf::from(vulkan::LOADER),
    };
    Ok(answered(Backend::looked(params), vulkan::adapters(&loader)))
}

fn on_linux(host: &Host) -> Look {
    let drivers = drivers(host);
    let nodes = nodes(host);
    let mut backend = match missing(&drivers, &nodes, host) {
        None => {
            let mut device = Device::new(HARDWARE, format!("GPU of {}", drivers.join(", ")), DeviceKind::Hardware);
            device.fact("nodes", nodes.clone());
            Backend::available("webgpu", vec![device])
        }
        Some(why) if host.arch == "x86_64" => {
            let mut device = Device::new(SOFTWARE, "SwiftShader", DeviceKind::Software);
            device.fact("label", SOFTWARE).fact("because", why);
            let mut backend = Backend::available("webgpu", vec![device]);
            backend.fact("driver", DRIVER);
            backend.fact("note", "a driver in software: outputs are meaningful, latency says nothing of a GPU");
            backend
        }
        Some(why) => Backend::unavailable("webgpu", why)
            .with_remedy("install the GPU's Vulkan driver and its loader (Debian: mesa-vulkan-drivers libvulkan1)"),
    };
    backend.fact(
        "vulkan_drivers",
        (!drivers.is_empty()).then(|| drivers.clone()),
    );
    if !backend.available {
        return backend.into();
    }
    let software = backend
        .devices
        .iter()
        .any(|device| device.kind == DeviceKind::Software);
    let query = match &host.libraries.swiftshader {
        _ if !software => json!({"backend": backend}),
        Some(folder) => json!({"swiftshader": folder.display().to_string(), "backend": backend}),
        None => {
            backend.fact("library", "installed on first need");
            return backend.into();
        }
    };
    Look {
        backend,
        query: Some(query),
    }
}

/// Whether a GPU has all that WebGPU needs, so that no driver in software has to be installed.
pub fn has_gpu(host: &Host) -> bool {
    host.os != "linux" || missing(&drivers(host), &nodes(host), host).is_none()
}

/// The installed drivers of GPUs, by the names of their files.
fn drivers(host: &Host) -> Vec<String> {
    let files = DRIVERS.iter().flat_map(|folder| host.list(folder));
    let names = files.filter_map(|file| file.strip_suffix(".json").map(str::to_owned));
    names
        .filter(|name| !IN_SOFTWARE.iter().any(|word| name.contains(word)))
        .collect()
}

/// Nodes that lead to a GPU and that this user may use.
fn nodes(host: &Host) -> Vec<String> {
    let render = host
        .list("/dev/dri")
        .into_iter()
        .filter(|node| node.starts_with("renderD"));
    let all = render
        .map(|node| format!("/dev/dri/{node}"))
        .chain(["/dev/nvidia0", "/dev/dxg"].map(str::to_owned));
    all.filter(|node| host.exists(node) && host.may_use(node))
        .collect()
}

/// What a GPU lacks for WebGPU; None if nothing.
fn missing(drivers: &[String], nodes: &[String], host: &Host) -> Option<String> {
    if nodes.is_empty() {
        let there = host
            .list("/dev/dri")
            .into_iter()
            .any(|node| node.starts_with("renderD"));
        return Some(match there {
            true => "this user may not use /dev/dri/renderD*".to_owned(),
            false => "no GPU: neither /dev/dri/renderD* nor /dev/nvidia0 exists".to_owned(),
        });
    }
    if drivers.is_empty() {
        return Some(format!(
            "{} leads to a GPU, and no Vulkan driver of one is installed",
            nodes[0]
        ));
    }
    let is_there = FOLDERS
        .iter()
        .any(|folder| host.exists(&format!("{folder}/{}", vulkan::LOADER)));
    (!is_there).then(|| format!("the Vulkan loader {} is not installed", vulkan::LOADER))
}

/// The files' word, corrected by Vulkan's own.
fn answered(mut backend: Backend, adapters: Result<Vec<vulkan::Adapter>, String>) -> Backend {
    let adapter = match adapters.as_deref() {
        Ok([first, ..]) => first,
        Ok([]) => return refused(backend, "Vulkan starts and lists no device".to_owned()),
        Err(why) => return refused(backend, format!("Vulkan does not start: {why}")),
    };
    let is_software = adapter.is_software();
    let (id, kind) = if is_software {
        (SOFTWARE, DeviceKind::Software)
    } else {
        (HARDWARE, DeviceKind::Hardware)
    };
    let mut device = Device::new(id, adapter.name.clone(), kind);
    device
        .fact("vulkan", adapter.api.clone())
        .fact("adapter", adapter.kind)
        .fact("vendor", adapter.vendor.clone());
    if let Some(facts) = backend.devices.first().map(|device| device.facts.clone()) {
        device.facts.extend(facts);
    }
    backend.devices = vec![device];
    backend
}

fn refused(backend: Backend, why: String) -> Backend {
    let absent =
        Backend::unavailable("webgpu", why).with_remedy("see what `vulkaninfo --summary` says");
    absent.with_facts(backend.facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(name: &str, kind: &'static str) -> vulkan::Adapter {
        vulkan::Adapter {
            name: name.to_owned(),
            kind,
            vendor: "1ae0".to_owned(),
            api: "1.3.0".to_owned(),
        }
    }

    #[test]
    fn a_gpu_whose_only_vulkan_driver_is_a_program_is_software() {
        let files = Backend::available(
            "webgpu",
            vec![Device::new(HARDWARE, "GPU of radeon", DeviceKind::Hardware)],
        );
        let found = answered(
            files.clone(),
            Ok(vec![adapter("llvmpipe (LLVM 19)", "cpu")]),
        );
        assert_eq!(
            (found.devices[0].id.as_str(), found.devices[0].kind),
            (SOFTWARE, DeviceKind::Software)
        );
        let found = answered(
            files.clone(),
            Ok(vec![
                adapter("AMD Radeon", "discrete"),
                adapter("llvmpipe", "cpu"),
            ]),
        );
        assert_eq!(
            (found.devices[0].name.as_str(), found.devices[0].kind),
            ("AMD Radeon", DeviceKind::Hardware)
        );
        let none = answered(files, Err("no Vulkan driver is installed".to_owned()));
        assert_eq!(
            none.reason.as_deref(),
            Some("Vulkan does not start: no Vulkan driver is installed")
        );
        assert!(none.devices.is_empty() && !none.available);
    }

    #[test]
    fn without_a_gpu_s_driver_it_is_software_and_says_so() {
        let of = |name: &str| {
            super::super::backends::WEBGPU
                .look(&Host::recorded(name), false)
                .backend
        };
        for name in ["neither", "nvidia", "amd", "intel-npu"] {
            let found = of(name);
            assert_eq!(
                found.devices[0].kind,
                DeviceKind::Software,
                "{name}: none of them has a Vulkan driver"
            );
            assert!(
                found.devices[0].facts["because"]
                    .as_str()
                    .is_some_and(|why| !why.is_empty())
            );
        }
        assert_eq!(of("mac").devices[0].kind, DeviceKind::Hardware);
        assert!(
            !of("snapdragon").available,
            "there is no SwiftShader for aarch64"
        );
        assert!(!has_gpu(&Host::recorded("amd")) && has_gpu(&Host::recorded("mac")));
    }
}
