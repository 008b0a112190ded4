//! Devices that a target's `device:` may mean, and names that mean one piece of silicon.
//!
//! Only what the probers call hardware can be held: an emulator or a software rasterizer computes on the CPU, and a run
//! on it is timed as one on the CPU.

use super::{Backend, BackendRow, Device, DeviceKind};

/// The devices that a target's `device:` may mean, each as good as the others. Empty where that cannot be known, so that
/// nothing may run beside it.
///
/// `cuda` means any of several equal GPUs, and the first of unequal ones: figures must not depend on what was free.
pub fn candidates<'a>(inventory: &'a [Backend], backend: &str, device: &str) -> Vec<&'a Device> {
    let Some(found) = inventory.iter().find(|known| known.name == backend) else {
        return vec![];
    };
    // TensorRT is another way to use the same GPU.
    let device = &device.replace("tensorrt", "cuda");
    let is_known = |device: &&Device| {
        BackendRow::named(backend).is_none_or(|row| row.tells_place)
            || device.facts.contains_key("pci")
    };
    let devices: Vec<_> = found
        .devices
        .iter()
        .filter(|d| d.kind == DeviceKind::Hardware)
        .filter(is_known)
        .collect();
    let named = |name: &str| {
        devices
            .iter()
            .copied()
            .find(|found| found.id.eq_ignore_ascii_case(name))
    };
    let full = format!("{backend}:{device}");
    // OpenVINO's `GPU` is its first one.
    if let Some(one) = named(device)
        .or_else(|| named(&full))
        .or_else(|| named(&format!("{full}.0")))
    {
        return vec![one];
    }
    let is_general = device.is_empty() || device.eq_ignore_ascii_case(backend);
    match devices.as_slice() {
        [first, rest @ ..] if is_general && rest.iter().all(|other| is_alike(first, other)) => {
            devices
        }
        [first, ..] if is_general => vec![first],
        _ => vec![],
    }
}

fn is_alike(one: &Device, other: &Device) -> bool {
    (&one.name, one.memory_bytes) == (&other.name, other.memory_bytes)
}

/// An identity that all names of one piece of silicon share, where the probers know its place on the bus.
pub fn silicon(device: &Device) -> &str {
    device
        .facts
        .get("pci")
        .and_then(|address| address.as_str())
        .unwrap_or(&device.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(id: &str, name: &str) -> Device {
        Device::new(id, name, DeviceKind::Hardware)
    }

    fn inventory() -> Vec<Backend> {
        vec![
            Backend::available("cuda", vec![gpu("cuda:0", "H100"), gpu("cuda:1", "H100")]),
            Backend::available(
                "rocm",
                vec![gpu("rocm:0", "MI300X"), gpu("rocm:1", "MI210")],
            ),
            Backend::available(
                "openvino",
                vec![gpu("openvino:CPU", "Xeon"), gpu("openvino:GPU.0", "Arc")],
            ),
            Backend::available(
                "qnn",
                vec![Device::new("qnn:htp-emulator", "HTP", DeviceKind::Emulator)],
            ),
            Backend::available("webgpu", vec![gpu("webgpu:0", "H100")]),
        ]
    }

    fn named(backend: &str, device: &str) -> Vec<String> {
        candidates(&inventory(), backend, device)
            .into_iter()
            .map(|device| device.id.clone())
            .collect()
    }

    #[test]
    fn a_name_is_one_device_and_a_kind_is_any_of_equal_ones() {
        assert_eq!(named("cuda", "cuda"), ["cuda:0", "cuda:1"]);
        assert_eq!(named("cuda", "cuda:1"), ["cuda:1"]);
        assert_eq!(named("cuda", "1"), ["cuda:1"]);
        assert_eq!(named("rocm", "rocm"), ["rocm:0"]);
        assert_eq!(named("openvino", "GPU"), ["openvino:GPU.0"]);
        assert_eq!(named("cuda", "cuda:7"), Vec::<String>::new());
    }

    #[test]
    fn what_computes_on_the_cpu_or_hides_where_it_computes_is_no_device() {
        assert_eq!(named("qnn", "htp"), Vec::<String>::new());
        assert_eq!(named("webgpu", "webgpu"), Vec::<String>::new());
        assert_eq!(named("mps", "mps"), Vec::<String>::new());
        assert_eq!(named("openvino", "NPU"), Vec::<String>::new());
        let mut known = inventory();
        known[4].devices[0].fact("pci", "0000:01:00.0");
        assert_eq!(candidates(&known, "webgpu", "webgpu").len(), 1);
        assert_eq!(silicon(&known[4].devices[0]), "0000:01:00.0");
        assert_eq!(silicon(&known[0].devices[1]), "cuda:1");
    }

    #[test]
    fn what_the_driver_says_of_a_gpu_is_joined_with_its_place_on_the_bus() {
        let gpu = |id: &str, uuid: &str| {
            let mut device = Device::new(id, "NVIDIA H200", DeviceKind::Hardware);
            device.fact("uuid", uuid);
            device
        };
        let mut looked = vec![gpu("cuda:0", "GPU-a"), gpu("cuda:1", "GPU-b")];
        looked[0].fact("pci", "0000:17:00.0");
        looked[1].fact("pci", "0000:65:00.0");
        // The first has fallen off the bus.
        let answer =
            Backend::available("cuda", vec![gpu("cuda:0", "GPU-b"), gpu("cuda:1", "GPU-c")]);
        let backend = super::super::joined(Ok(answer), Backend::available("cuda", looked));
        assert_eq!(backend.devices[0].facts["pci"], "0000:65:00.0");
        assert!(!backend.devices[1].facts.contains_key("pci"));
    }
}
