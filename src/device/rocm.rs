//! ROCm: AMD GPUs, from the kernel's own compute topology (`/sys/class/kfd`), which lists no other vendor's.
//!
//! An installed `/opt/rocm` or `libamdhip64` is no evidence: HIP can be installed to compile for NVIDIA. PyTorch's
//! `torch.version.hip` and `Device::Cuda` are not queried either. Nothing here loads a library, so no child is needed; a
//! thorough look also asks ROCm's own tools (`rocminfo.rs`).

use std::collections::BTreeMap;

use super::host::Host;
use super::visible::{Empty, filter};
use super::{Absent, Backend, Device, DeviceKind, Look, pci, rocminfo};
use crate::base::ensure;

const NODES: &str = "/sys/class/kfd/kfd/topology/nodes";

pub(super) fn look(host: &Host, thorough: bool) -> Result<Look, Absent> {
    let other =
        || Backend::unavailable("rocm", format!("ROCm needs Linux, and this is {}", host.os));
    ensure(host.os == "linux", other)?;
    let (devices, malformed) = gpus(host);
    let mut backend = if devices.is_empty() {
        absent(host, &malformed)
    } else if !host.exists("/dev/kfd") {
        let names = devices
            .iter()
            .map(|d| d.name.as_str())
            .collect::<Vec<_>>()
            .join(", ");
        Backend::unavailable(
            "rocm",
            format!("the kernel lists {names}, but /dev/kfd is not here"),
        )
        .with_remedy("start the container with `--device /dev/kfd --device /dev/dri`")
    } else if !host.may_use("/dev/kfd") {
        Backend::unavailable("rocm", "this user may not read and write /dev/kfd").with_remedy(
            "add the user to the group that owns /dev/kfd: `usermod -aG render,video $USER`",
        )
    } else {
        Backend::available("rocm", devices)
    };
    if !malformed.is_empty() {
        backend.fact("malformed", malformed);
    }
    if backend.available {
        if thorough {
            rocminfo::compare(host, &mut backend);
        }
        backend
            .fact("driver", driver(host))
            .fact("rocm", host.text("/opt/rocm/.info/version"));
        // Recorded because it changes which kernels run, never what the silicon is.
        backend.fact(
            "HSA_OVERRIDE_GFX_VERSION",
            host.env("HSA_OVERRIDE_GFX_VERSION"),
        );
    }
    Ok(backend.into())
}

/// ROCr filters first; HIP then counts what ROCr left, by its own variable or else by CUDA's.
pub(super) fn hide(host: &Host, mut backend: Backend) -> Backend {
    if let Some(value) = host
        .env("ROCR_VISIBLE_DEVICES")
        .filter(|_| !backend.devices.is_empty())
    {
        backend = filter(backend, "ROCR_VISIBLE_DEVICES", value, Empty::HidesAll);
    }
    for variable in ["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"] {
        let Some(value) = host.env(variable).filter(|value| !value.is_empty()) else {
            continue;
        };
        if !backend.devices.is_empty() {
            backend = filter(backend, variable, value, Empty::Ignored);
        }
        break;
    }
    backend
}

fn absent(host: &Host, malformed: &[String]) -> Backend {
    if let Some(first) = malformed.first() {
        return Backend::unavailable(
            "rocm",
            format!("the kernel's GPU topology is unreadable: {first}"),
        )
        .with_remedy("reload the amdgpu module, or report the file to its maintainers");
    }
    let nothing = "/sys/class/kfd lists no GPU";
    match host.pci().iter().find(|card| card.vendor == pci::AMD) {
        Some(card) => Backend::unavailable(
            "rocm",
            format!(
                "an AMD GPU ({}) has no compute driver: {nothing}",
                card.shown()
            ),
        )
        .with_remedy("load the amdgpu kernel module: `modprobe amdgpu`"),
        None => Backend::unavailable("rocm", format!("no AMD GPU: {nothing}")),
    }
}

/// The GPU nodes in kfd's order, and what could not be understood.
fn gpus(host: &Host) -> (Vec<Device>, Vec<String>) {
    let mut devices = vec![];
    let mut malformed = vec![];
    for node in host.list(NODES) {
        match gpu(host, &format!("{NODES}/{node}"), devices.len()) {
            Ok(found) => devices.extend(found),
            Err(why) => malformed.push(why),
        }
    }
    (devices, malformed)
}

/// One node; `Ok(None)` for a CPU.
fn gpu(host: &Host, node: &str, ordinal: usize) -> Result<Option<Device>, String> {
    let path = format!("{node}/properties");
    // A container's device cgroup makes the files of other people's GPUs unreadable or empty: those are not ours.
    let Some(properties) = host.text(&path).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let properties = parse(&properties, &path)?;
    let number = |key: &str| properties.get(key).copied();
    let needed = |key: &str| number(key).ok_or_else(|| format!("{path} has no `{key}`"));
    if needed("simd_count")? == 0 || needed("vendor_id")? != u64::from(pci::AMD) {
        return Ok(None);
    }
    let target = needed("gfx_target_version")?;
    let gfx = gfx(target)
        .ok_or_else(|| format!("{path} has a gfx_target_version that names no target: {target}"))?;
    let render = number("drm_render_minor").filter(|minor| *minor > 0);
    let card = |file: &str| Some(format!("/sys/class/drm/renderD{}/device/{file}", render?));
    let product = card("product_name")
        .and_then(|path| host.text(&path))
        .filter(|name| !name.is_empty());
    let name = product.map_or_else(
        || format!("AMD GPU {gfx}"),
        |name| format!("{name} ({gfx})"),
    );
    let mut device = Device::new(format!("rocm:{ordinal}"), name, DeviceKind::Hardware);
    let memory = card("mem_info_vram_total").and_then(|path| host.number(&path));
    device.memory_bytes = memory
        .or_else(|| banks(host, node))
        .filter(|bytes| *bytes > 0);
    device.fact(
        "pci",
        number("location_id").map(|location| address(number("domain").unwrap_or(0), location)),
    );
    device.fact("gfx", gfx).fact("simds", needed("simd_count")?);
    if let (Some(simds), Some(per)) = (
        number("simd_count"),
        number("simd_per_cu").filter(|per| *per > 0),
    ) {
        device.fact("compute_units", simds / per);
    }
    if let Some(id) = number("unique_id").filter(|id| *id != 0) {
        device.fact("uuid", format!("GPU-{id:016x}"));
    }
    device.fact(
        "render_node",
        render.map(|minor| format!("/dev/dri/renderD{minor}")),
    );
    Ok(Some(device))
}

/// A place on the bus as the rest of the kernel writes it. Partitions of a card, which the uppermost bits tell apart,
/// have one place.
fn address(domain: u64, location: u64) -> String {
    let bus = location >> 8 & 0xff;
    let device = location >> 3 & 0x1f;
    let function = location & 7;
    format!("{domain:04x}:{bus:02x}:{device:02x}.{function}")
}

/// Lines of `key number`.
fn parse(text: &str, path: &str) -> Result<BTreeMap<String, u64>, String> {
    let mut properties = BTreeMap::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (key, value) = line
            .trim()
            .split_once(' ')
            .ok_or_else(|| format!("{path} has a line without a value: `{line}`"))?;
        // Keys that are not numbers are of no interest; those that are needed are looked up by name.
        if let Ok(value) = value.trim().parse() {
            properties.insert(key.to_owned(), value);
        }
    }
    Ok(properties)
}

/// `gfx942` from 90402, `gfx90a` from 90010, `gfx1100` from 110000: major in decimal, minor and step in hexadecimal.
fn gfx(version: u64) -> Option<String> {
    let major = version / 10_000;
    let minor = version / 100 % 100;
    let step = version % 100;
    (major > 0 && minor < 16 && step < 16).then(|| format!("gfx{major}{minor:x}{step:x}"))
}

/// Bytes of the node's video memory (heap types 1 and 2).
fn banks(host: &Host, node: &str) -> Option<u64> {
    let folder = format!("{node}/mem_banks");
    let sizes = host.list(&folder).into_iter().filter_map(|bank| {
        let path = format!("{folder}/{bank}/properties");
        let bank = parse(&host.text(&path)?, &path).ok()?;
        matches!(bank.get("heap_type"), Some(1 | 2)).then(|| bank.get("size_in_bytes").copied())?
    });
    Some(sizes.fold(0, u64::saturating_add))
}

/// The DKMS driver states its version; the one in the kernel is of the kernel.
fn driver(host: &Host) -> Option<String> {
    host.text("/sys/module/amdgpu/version")
        .map(|v| format!("amdgpu {v}"))
        .or_else(|| {
            host.exists("/sys/module/amdgpu").then(|| {
                let kernel = host
                    .text("/proc/sys/kernel/osrelease")
                    .unwrap_or_else(|| "?".to_owned());
                format!("amdgpu of Linux {kernel}")
            })
        })
}

#[cfg(test)]
mod tests {
    #[test]
    fn target_versions_read_as_the_compiler_names_them() {
        let gfx = |version| super::gfx(version).unwrap_or_default();
        assert_eq!(
            [
                gfx(90402),
                gfx(90010),
                gfx(110000),
                gfx(100306),
                gfx(120001)
            ],
            ["gfx942", "gfx90a", "gfx1100", "gfx1036", "gfx1201"]
        );
        assert_eq!(gfx(0), "");
        assert_eq!(gfx(u64::MAX), "");
    }
}
