//! OpenVINO: what Intel's runtime would run on here. Its library comes with a Python environment that orch installs when
//! a step first needs it; until then only the CPU, which needs no driver, is promised.

use std::mem::ManuallyDrop;
use std::path::Path;

use serde_json::{Value, json};

use super::host::Host;
use super::{Absent, Backend, Device, DeviceKind, Look, cpu, pci};
use crate::base::ensure;
use crate::openvino::{self, Core};

/// Operating system, architecture and least glibc of the wheels on PyPI.
const WHEELS: &[(&str, &str, (u32, u32))] = &[
    ("linux", "x86_64", (2, 28)),
    ("linux", "aarch64", (2, 35)),
    ("macos", "aarch64", (0, 0)),
];

pub(super) fn look(host: &Host, _thorough: bool) -> Result<Look, Absent> {
    let wheel = WHEELS
        .iter()
        .find(|(os, arch, _)| (*os, *arch) == (host.os.as_str(), host.arch.as_str()));
    let none = || {
        Backend::unavailable(
            "openvino",
            format!("no OpenVINO package exists for {} {}", host.os, host.arch),
        )
    };
    let (.., glibc) = wheel.ok_or_else(none)?;
    host.needs_glibc("openvino", "the OpenVINO package", *glibc)?;
    let mut device = Device::new("openvino:CPU", cpu::read(host).model, DeviceKind::Hardware);
    device.fact("by", "the CPU plugin needs no driver");
    let mut backend = Backend::available("openvino", vec![device]);
    backend.fact("gpu", gpu(host)).fact("npu", npu(host));
    let Some(library) = &host.libraries.openvino else {
        backend.fact("library", "installed on first need");
        return Ok(backend.into());
    };
    ensure(library.exists(), || {
        Backend::gone("openvino", library, backend.facts.clone())
    })?;
    backend.fact("library", library.display().to_string());
    Ok(Look {
        backend,
        query: Some(json!({"library": library.display().to_string()})),
    })
}

pub(super) fn query(params: &Value) -> Result<Backend, Absent> {
    let library = Path::new(params["library"].as_str().unwrap_or_default());
    let remedy = "install OpenVINO again; its library must match this process's architecture";
    let unavailable = |why: String| Backend::unavailable("openvino", why).with_remedy(remedy);
    let version = openvino::load(library)
        .map_err(|why| unavailable(format!("its library does not load: {why:#}")))?;
    Ok(devices(&version).map_err(|why| unavailable(format!("{}: {why}", library.display())))?)
}

/// What the library says of its devices. Compiles and runs no model.
fn devices(version: &str) -> Result<Backend, openvino::Failure> {
    // Left to the end of this process, which asks nothing else: some plugins do not end well.
    let core = ManuallyDrop::new(Core::new()?);
    let mut devices = vec![];
    for name in core.devices()? {
        let property = |key: &str| core.property(&name, key).ok();
        let shown = property("FULL_DEVICE_NAME").unwrap_or_else(|| name.clone());
        let mut device = Device::new(
            format!("openvino:{name}"),
            shown.trim(),
            DeviceKind::Hardware,
        );
        device.memory_bytes = property("GPU_DEVICE_TOTAL_MEM_SIZE")
            .or_else(|| property("NPU_DEVICE_TOTAL_MEM_SIZE"))
            .and_then(|bytes| bytes.parse().ok());
        if let Some(capabilities) = property("OPTIMIZATION_CAPABILITIES") {
            device.fact(
                "capabilities",
                capabilities.split_whitespace().collect::<Vec<_>>(),
            );
        }
        device.fact(
            "architecture",
            property("DEVICE_ARCHITECTURE").filter(|a| !a.is_empty()),
        );
        // What OpenVINO would compute in by default: bf16 on CPUs that have it, which differs from fp32.
        device.fact("default_precision", property("INFERENCE_PRECISION_HINT"));
        devices.push(device);
    }
    let mut backend = if devices.is_empty() {
        Backend::unavailable("openvino", "OpenVINO loads and lists no device")
    } else {
        Backend::available("openvino", devices)
    };
    backend.fact("version", version);
    Ok(backend)
}

/// Whether OpenVINO's GPU plugin would find a GPU: it goes through OpenCL. None when there is no Intel GPU.
fn gpu(host: &Host) -> Option<String> {
    let card = host
        .pci()
        .iter()
        .find(|card| card.vendor == pci::INTEL && is_display(host, card))?;
    const VENDORS: &str = "/etc/OpenCL/vendors";
    let drivers = host.list(VENDORS);
    let is_intel = |file: &String| {
        host.text(&format!("{VENDORS}/{file}"))
            .is_some_and(|text| text.contains("igdrcl"))
    };
    let render = host
        .list("/dev/dri")
        .iter()
        .any(|node| node.starts_with("renderD"));
    let lacking = match (render, drivers.iter().any(is_intel)) {
        (true, true) => return Some(format!("Intel GPU {} with an OpenCL driver", card.shown())),
        (false, _) => "no /dev/dri render node",
        (true, false) => "no Intel OpenCL driver in /etc/OpenCL/vendors (Debian: intel-opencl-icd)",
    };
    Some(format!("Intel GPU {}, unusable: {lacking}", card.shown()))
}

fn is_display(host: &Host, card: &pci::Pci) -> bool {
    host.text(&format!("/sys/bus/pci/devices/{}/class", card.address))
        .is_some_and(|class| class.starts_with("0x03"))
}

/// Whether the Intel NPU plugin would find an NPU: the `intel_vpu` kernel driver gives it an accel node.
fn npu(host: &Host) -> Option<String> {
    const ACCEL: &str = "/sys/class/accel";
    let node = host.list(ACCEL).into_iter().find(|node| {
        let uevent = host
            .text(&format!("{ACCEL}/{node}/device/uevent"))
            .unwrap_or_default();
        uevent.lines().any(|line| line == "DRIVER=intel_vpu")
    })?;
    let path = format!("/dev/accel/{node}");
    Some(match (host.exists(&path), host.may_use(&path)) {
        (true, true) => format!("Intel NPU at {path}"),
        (true, false) => format!(
            "Intel NPU at {path}, unusable: this user may not read and write it (group render)"
        ),
        (false, _) => format!("Intel NPU, unusable: no {path}"),
    })
}
