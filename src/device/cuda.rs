//! CUDA: NVIDIA GPUs, through the driver's own files and NVML. Knows nothing of AMD, whose GPUs also call themselves CUDA
//! in PyTorch: no evidence here comes from PyTorch, from `libcuda` (ZLUDA ships one for AMD) or from a toolkit folder.

use serde_json::{Value, json};

use super::host::{Host, field};
use super::visible::{Empty, filter};
use super::{Absent, Backend, Device, DeviceKind, Look, native, pci};
use crate::base::ensure;

pub(super) const NVML: &str = "libnvidia-ml.so.1";
/// Folders of the driver's libraries that the loader may not know: distributions, NixOS, WSL, containers.
pub(super) const FOLDERS: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/run/opengl-driver/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
];

pub(super) fn look(host: &Host, _thorough: bool) -> Result<Look, Absent> {
    let other = || {
        Backend::unavailable(
            "cuda",
            format!("CUDA needs Linux here, and this is {}", host.os),
        )
    };
    ensure(host.os == "linux", other)?;
    let minors = node_minors(host);
    let driver = host.text("/proc/driver/nvidia/version");
    ensure(!minors.is_empty() || in_wsl(host), || {
        absent(host, driver.is_some())
    })?;
    let mut backend = Backend::available("cuda", listed(host, &minors));
    backend.fact("driver", driver.as_deref().and_then(driver_version));
    backend
        .fact("toolkit", toolkit(host))
        .fact("cudnn", cudnn(host));
    let libraries: Vec<String> = host
        .libraries_named(NVML, FOLDERS)
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    if libraries.is_empty() {
        let reason = format!("the NVIDIA driver is loaded, but its library {NVML} is nowhere");
        return Err(Backend::unavailable("cuda", reason)
            .with_remedy("install the driver's user libraries (Debian: libnvidia-ml1), or add the `utility` driver capability to the container")
            .with_facts(backend.facts)
            .into());
    }
    Ok(Look {
        backend,
        query: Some(json!({"libraries": libraries})),
    })
}

pub(super) fn query(params: &Value) -> Result<Backend, Absent> {
    let libraries: Vec<&str> = params["libraries"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    Ok(native::nvml::probe(&libraries))
}

pub(super) fn hide(host: &Host, backend: Backend) -> Backend {
    let Some(value) = host.env("CUDA_VISIBLE_DEVICES") else {
        return backend;
    };
    if backend.devices.is_empty() {
        return backend;
    }
    // NVML and this list are in PCI order. CUDA itself puts the fastest first unless set otherwise, so an index
    // into unlike GPUs may mean another one to CUDA.
    let alike = backend
        .devices
        .windows(2)
        .all(|pair| pair[0].name == pair[1].name);
    let by_index = value
        .split(',')
        .any(|entry| entry.trim().parse::<usize>().is_ok());
    let unsure = by_index && !alike && host.env("CUDA_DEVICE_ORDER") != Some("PCI_BUS_ID");
    let mut backend = filter(backend, "CUDA_VISIBLE_DEVICES", value, Empty::HidesAll);
    if unsure {
        backend.fact(
            "note",
            "CUDA_VISIBLE_DEVICES uses indices, and the GPUs differ: CUDA counts the fastest first; set CUDA_DEVICE_ORDER=PCI_BUS_ID",
        );
    }
    backend
}

/// Whether an NVIDIA GPU is seen in any way, whatever keeps it from being used.
pub fn is_seen(host: &Host) -> bool {
    let is_its = |card: &pci::Pci| card.vendor == pci::NVIDIA;
    !node_minors(host).is_empty()
        || host.exists("/proc/driver/nvidia")
        || in_wsl(host)
        || host.pci().iter().any(is_its)
}

fn in_wsl(host: &Host) -> bool {
    host.exists("/dev/dxg") && host.exists(&format!("/usr/lib/wsl/lib/{NVML}"))
}

/// Why there is no NVIDIA GPU to ask.
fn absent(host: &Host, driver_loaded: bool) -> Backend {
    if driver_loaded {
        return Backend::unavailable(
            "cuda",
            "the NVIDIA driver is loaded, but this process has no /dev/nvidia0",
        )
        .with_remedy(
            "in a container: start it with `--gpus all`; on a host: run `nvidia-modprobe -u -c 0`",
        );
    }
    let nothing = "neither /dev/nvidia* nor /proc/driver/nvidia exists";
    match host.pci().iter().find(|card| card.vendor == pci::NVIDIA) {
        Some(card) => Backend::unavailable(
            "cuda",
            format!("an NVIDIA GPU ({}) has no driver: {nothing}", card.shown()),
        )
        .with_remedy("install the NVIDIA driver, or start the container with `--gpus all`"),
        None => Backend::unavailable("cuda", format!("no NVIDIA GPU: {nothing}")),
    }
}

/// The numbers of /dev/nvidia0, /dev/nvidia1, …
fn node_minors(host: &Host) -> Vec<u32> {
    host.list("/dev")
        .iter()
        .filter_map(|name| name.strip_prefix("nvidia")?.parse().ok())
        .collect()
}

/// The GPUs as the kernel module lists them, without those whose device node this process lacks.
fn listed(host: &Host, minors: &[u32]) -> Vec<Device> {
    const GPUS: &str = "/proc/driver/nvidia/gpus";
    let mut devices = vec![];
    for address in host.list(GPUS) {
        let Some(text) = host.text(&format!("{GPUS}/{address}/information")) else {
            continue;
        };
        let field = |name: &str| field(&text, name, ':');
        if field("Device Minor")
            .and_then(|m| m.parse().ok())
            .is_some_and(|m: u32| !minors.contains(&m))
        {
            continue;
        }
        let name = field("Model")
            .filter(|m| !m.is_empty())
            .unwrap_or("NVIDIA GPU");
        let mut device = Device::new(
            format!("cuda:{}", devices.len()),
            name,
            DeviceKind::Hardware,
        );
        device.fact("uuid", field("GPU UUID")).fact("pci", address);
        devices.push(device);
    }
    if devices.is_empty() {
        // Some sandboxes give the nodes without the module's listing. The bus distinguishes models, so that they
        // do not share a key.
        let cards: Vec<_> = host
            .pci()
            .iter()
            .filter(|card| card.vendor == pci::NVIDIA)
            .collect();
        let count = minors.len().max(1);
        let name = |n: usize| match cards.get(n).filter(|_| cards.len() == count) {
            Some(card) => format!("NVIDIA GPU {:04x}:{:04x}", card.vendor, card.device),
            None => "NVIDIA GPU".to_owned(),
        };
        devices.extend(
            (0..count).map(|n| Device::new(format!("cuda:{n}"), name(n), DeviceKind::Hardware)),
        );
    }
    devices
}

/// `580.159.04` from `NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Release Build …`
fn driver_version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("NVRM version"))?;
    let is_version =
        |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    line.split_whitespace().find(is_version).map(str::to_owned)
}

/// Version of an installed CUDA toolkit: a fact only, since runtimes bring their own.
fn toolkit(host: &Host) -> Option<String> {
    let text = host.text("/usr/local/cuda/version.json")?;
    let doc: Value = serde_json::from_str(&text).ok()?;
    doc["cuda"]["version"].as_str().map(str::to_owned)
}

/// Version of a system-wide cuDNN, from its header or else from its library's file name.
fn cudnn(host: &Host) -> Option<String> {
    for folder in [
        "/usr/include",
        "/usr/include/x86_64-linux-gnu",
        "/usr/include/aarch64-linux-gnu",
        "/usr/local/cuda/include",
    ] {
        let Some(text) = host.text(&format!("{folder}/cudnn_version.h")) else {
            continue;
        };
        let number = |name: &str| {
            let value = field(&text, &format!("#define {name}"), ' ')?;
            value.split_whitespace().next()?.parse::<u32>().ok()
        };
        if let [Some(a), Some(b), Some(c)] =
            ["CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL"].map(number)
        {
            return Some(format!("{a}.{b}.{c}"));
        }
    }
    let version = |name: &String| {
        let version = name.strip_prefix("libcudnn.so.")?;
        version.contains('.').then(|| version.to_owned())
    };
    FOLDERS
        .iter()
        .chain(&["/usr/local/cuda/lib64"])
        .find_map(|folder| host.list(folder).iter().find_map(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sandbox with the driver's nodes and without its listing, as some clouds give.
    #[test]
    fn without_a_listing_the_bus_distinguishes_models() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::recorded("neither").with_root(root.path().to_owned());
        let named = || {
            listed(&host, &[0])
                .into_iter()
                .map(|device| device.name)
                .collect::<Vec<_>>()
        };
        host.put("dev/nvidia0", "");
        assert_eq!(named(), ["NVIDIA GPU"]);
        for (file, text) in [
            ("class", "0x030200"),
            ("vendor", "0x10de"),
            ("device", "0x2330"),
        ] {
            host.put(&format!("sys/bus/pci/devices/0000:17:00.0/{file}"), text);
        }
        let host = Host::recorded("neither").with_root(root.path().to_owned());
        assert_eq!(
            listed(&host, &[0])[0].name,
            "NVIDIA GPU 10de:2330",
            "the bus is read once"
        );
    }
}
