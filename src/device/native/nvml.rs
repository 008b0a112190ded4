//! NVIDIA's management library, queried for what it knows of each GPU. Starts no CUDA context and allocates nothing on a GPU.

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device as Gpu, Nvml};

use crate::device::cuda::{FOLDERS, NVML};
use crate::device::{Backend, Device, DeviceKind};

/// Tries each library in turn; the first that opens is queried.
pub(crate) fn probe(libraries: &[&str]) -> Backend {
    let mut why = "no library was named".to_owned();
    for path in libraries {
        match start(path) {
            Ok(nvml) => return backend(&nvml).unwrap_or_else(|error| refused(&error, path)),
            // The last failure is the most specific one: a path that exists and does not open, after a search that found
            // nothing.
            Err(NvmlError::LibloadingError(error)) => why = error.to_string(),
            Err(error) => return refused(&error, path),
        }
    }
    Backend::unavailable("cuda", format!("the driver's library does not load: {why}")).with_remedy(
        "reinstall the NVIDIA driver, and see that its libraries match this process's architecture",
    )
}

/// Asks one of the questions below of the GPU of that UUID. None where NVML does not see it, or does not tell.
pub(crate) fn query<T>(uuid: &str, question: impl FnOnce(&Gpu<'_>) -> Option<T>) -> Option<T> {
    question(&here()?.device_by_uuid(uuid).ok()?)
}

/// Bytes that a process holds on it.
pub(crate) fn held(gpu: &Gpu<'_>, process: u32) -> Option<u64> {
    let list = gpu.running_compute_processes().ok()?;
    match list
        .into_iter()
        .find(|row| row.pid == process)?
        .used_gpu_memory
    {
        UsedGpuMemory::Used(bytes) => Some(bytes),
        UsedGpuMemory::Unavailable => None,
    }
}

/// Bytes that all processes together hold on it.
pub(crate) fn used(gpu: &Gpu<'_>) -> Option<u64> {
    Some(gpu.memory_info().ok()?.used)
}

/// How many processes compute on it.
pub(crate) fn processes(gpu: &Gpu<'_>) -> Option<u32> {
    Some(gpu.running_compute_processes().ok()?.len() as u32)
}

/// Why it runs slower at this moment than it could; not that it is idle, or was set to.
pub(crate) fn throttled(gpu: &Gpu<'_>) -> Option<Vec<String>> {
    let reasons = gpu.current_throttle_reasons().ok()?;
    let reported = ThrottleReasons::SW_POWER_CAP
        | ThrottleReasons::HW_SLOWDOWN
        | ThrottleReasons::SW_THERMAL_SLOWDOWN
        | ThrottleReasons::HW_THERMAL_SLOWDOWN
        | ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN;
    Some(
        (reasons & reported)
            .iter_names()
            .map(|(name, _)| name.to_lowercase().replace('_', " "))
            .collect(),
    )
}

fn start(path: &str) -> Result<Nvml, NvmlError> {
    Nvml::builder().lib_path(path.as_ref()).init()
}

/// The library where the loader looks, or where distributions and containers put it.
fn here() -> Option<Nvml> {
    let elsewhere = FOLDERS.iter().map(|folder| format!("{folder}/{NVML}"));
    std::iter::once(NVML.to_owned())
        .chain(elsewhere)
        .find_map(|path| start(&path).ok())
}

fn refused(error: &NvmlError, path: &str) -> Backend {
    let remedy = match error {
        NvmlError::NoPermission => "let this user read and write /dev/nvidia*",
        NvmlError::DriverNotLoaded => "load the NVIDIA kernel module: `modprobe nvidia`",
        NvmlError::LibRmVersionMismatch => {
            "reboot, or reload the NVIDIA kernel module: it and the library are of different driver versions"
        }
        NvmlError::GpuLost => "reset the GPU or reboot: it has fallen off the bus",
        _ => "see what `nvidia-smi` says",
    };
    Backend::unavailable("cuda", format!("NVML ({path}) refuses: {error}")).with_remedy(remedy)
}

fn backend(nvml: &Nvml) -> Result<Backend, NvmlError> {
    let mut devices = vec![];
    let mut broken = vec![];
    for index in 0..nvml.device_count()? {
        match nvml
            .device_by_index(index)
            .and_then(|gpu| device(&gpu, devices.len()))
        {
            Ok(device) => devices.push(device),
            Err(error) => broken.push(format!("GPU {index}: {error}")),
        }
    }
    let mut backend = match (devices.is_empty(), broken.first()) {
        (true, None) => {
            Backend::unavailable("cuda", "the NVIDIA driver is loaded and finds no GPU")
        }
        (true, Some(first)) => Backend::unavailable("cuda", format!("no GPU answers: {first}"))
            .with_remedy("see what `nvidia-smi` says"),
        (false, _) => Backend::available("cuda", devices),
    };
    if !broken.is_empty() {
        backend.fact("broken", broken);
    }
    backend
        .fact("driver", nvml.sys_driver_version().ok())
        .fact("nvml", nvml.sys_nvml_version().ok());
    let cuda = nvml.sys_cuda_driver_version().ok();
    backend.fact(
        "cuda_driver",
        cuda.map(|version| format!("{}.{}", version / 1000, version % 1000 / 10)),
    );
    Ok(backend)
}

fn device(gpu: &Gpu<'_>, ordinal: usize) -> Result<Device, NvmlError> {
    let mut device = Device::new(format!("cuda:{ordinal}"), gpu.name()?, DeviceKind::Hardware);
    // A GPU with unified memory (Grace, Jetson) refuses; its memory is then unknown here.
    if let Ok(memory) = gpu.memory_info() {
        device.memory_bytes = Some(memory.total);
        device.fact("memory_free_bytes", memory.free);
    }
    if let Ok(capability) = gpu.cuda_compute_capability() {
        let major = capability.major;
        let minor = capability.minor;
        device.fact("compute_capability", format!("{major}.{minor}"));
        // From NVIDIA's table of arithmetic throughput: fp16 from 5.3, dot products of int8 from 6.1, bf16 from 8.0.
        let since = [
            ("fp32", (0, 0)),
            ("fp16", (5, 3)),
            ("int8", (6, 1)),
            ("bf16", (8, 0)),
        ];
        let has = since
            .iter()
            .filter(|(_, from)| (major, minor) >= *from)
            .map(|(name, _)| *name);
        device.fact("precisions", has.collect::<Vec<_>>());
    }
    device.fact("uuid", gpu.uuid().ok());
    // Only partitioning that is on is worth a word: CUDA then shows slices and not this GPU.
    device.fact(
        "mig",
        gpu.mig_mode()
            .is_ok_and(|mode| mode.current == 1)
            .then_some(true),
    );
    Ok(device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::native::built;

    #[test]
    fn a_process_s_memory_is_found_by_the_gpu_s_uuid_and_its_number() {
        let (_folder, library) = built("nvml.c", NVML, "-DINIT=0");
        let nvml = start(library.to_str().unwrap()).unwrap();
        let first = nvml
            .device_by_uuid("GPU-00000001-0000-1111-2222-333344445555")
            .unwrap();
        assert_eq!(held(&first, 4711), Some(600 << 20));
        assert_eq!(held(&first, 4712), None, "its driver does not tell");
        assert_eq!(held(&first, 1), None);
        assert_eq!(used(&first), Some(1 << 20), "all processes together");
        assert_eq!(processes(&first), Some(2));
        assert!(nvml.device_by_uuid("GPU-ffffffff").is_err());
    }
}
