//! OpenVINO's C library, asked for its version and devices. Compiles and runs no model.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;

use libloading::Library;

use super::{function, open, text};
use crate::device::{Backend, Device, DeviceKind};

type Core = *mut c_void;
type Status = c_int;

#[repr(C)]
struct Version {
    build: *const c_char,
    description: *const c_char,
}

#[repr(C)]
struct Devices {
    names: *mut *mut c_char,
    count: usize,
}

pub(crate) fn probe(path: &Path) -> Backend {
    let remedy = "install OpenVINO again; its library must match this process's architecture";
    let library = match open(path) {
        Ok(library) => library,
        Err(why) => {
            return Backend::unavailable("openvino", format!("its library does not load: {why}")).with_remedy(remedy);
        }
    };
    // SAFETY: the library stays open for as long as `ask` runs.
    match unsafe { ask(&library) } {
        Ok(backend) => backend,
        Err(why) => Backend::unavailable("openvino", format!("{}: {why}", path.display())).with_remedy(remedy),
    }
}

/// # Safety
/// `library` must be OpenVINO's C library: the function types are those of `openvino/c/ov_core.h`.
unsafe fn ask(library: &Library) -> Result<Backend, String> {
    type GetVersion = unsafe extern "C" fn(*mut Version) -> Status;
    type Create = unsafe extern "C" fn(*mut Core) -> Status;
    type Available = unsafe extern "C" fn(Core, *mut Devices) -> Status;

    let mut version = Version { build: std::ptr::null(), description: std::ptr::null() };
    let mut core: Core = std::ptr::null_mut();
    let mut found = Devices { names: std::ptr::null_mut(), count: 0 };
    // SAFETY: every pointer is to a live value of the declared layout. What the library allocates is left to the end of
    // this process, which the probe is the only work of.
    unsafe {
        check("ov_get_openvino_version", function::<GetVersion>(library, "ov_get_openvino_version")?(&mut version))?;
        check("ov_core_create", function::<Create>(library, "ov_core_create")?(&mut core))?;
        check(
            "ov_core_get_available_devices",
            function::<Available>(library, "ov_core_get_available_devices")?(core, &mut found),
        )?;
    }
    let mut devices = vec![];
    for index in 0..found.count {
        // SAFETY: the library filled in `count` strings.
        let Some(name) = (unsafe { text(*found.names.add(index)) }) else { continue };
        // SAFETY: `core` is live, and this is its library.
        let property = |key: &str| unsafe { property(library, core, &name, key) };
        let shown = property("FULL_DEVICE_NAME").unwrap_or_else(|| name.clone());
        let mut device = Device::new(format!("openvino:{name}"), shown.trim(), DeviceKind::Hardware);
        device.memory_bytes = property("GPU_DEVICE_TOTAL_MEM_SIZE")
            .or_else(|| property("NPU_DEVICE_TOTAL_MEM_SIZE"))
            .and_then(|bytes| bytes.parse().ok());
        if let Some(capabilities) = property("OPTIMIZATION_CAPABILITIES") {
            device.fact("capabilities", capabilities.split_whitespace().collect::<Vec<_>>());
        }
        device.fact("architecture", property("DEVICE_ARCHITECTURE").filter(|a| !a.is_empty()));
        // What OpenVINO would compute in if nobody told it: bf16 on CPUs that have it, which differs from fp32.
        device.fact("default_precision", property("INFERENCE_PRECISION_HINT"));
        devices.push(device);
    }
    let mut backend = if devices.is_empty() {
        Backend::unavailable("openvino", "OpenVINO loads and lists no device")
    } else {
        Backend::available("openvino", devices)
    };
    // SAFETY: the library filled in two strings.
    backend.fact("version", unsafe { text(version.build) });
    Ok(backend)
}

fn check(name: &str, status: Status) -> Result<(), String> {
    if status == 0 { Ok(()) } else { Err(format!("{name} failed with status {status}")) }
}

/// # Safety
/// `core` must be a live core of this library.
unsafe fn property(library: &Library, core: Core, device: &str, key: &str) -> Option<String> {
    type Get = unsafe extern "C" fn(Core, *const c_char, *const c_char, *mut *mut c_char) -> Status;
    let (device, key) = (CString::new(device).ok()?, CString::new(key).ok()?);
    let mut value: *mut c_char = std::ptr::null_mut();
    // SAFETY: all pointers are live, and a status of 0 means that `value` is a string.
    unsafe {
        let get = function::<Get>(library, "ov_core_get_property").ok()?;
        (get(core, device.as_ptr(), key.as_ptr(), &mut value) == 0).then(|| text(value))?
    }
}
