//! A Vulkan loader, asked for its physical devices: the only word on whether an adapter is silicon or a program, since
//! WebGPU's provider names none.

use std::ffi::{c_char, c_void};
use std::path::{Path, PathBuf};

use libloading::Library;
use serde::Serialize;

use super::{function, open, text};

/// The loader's name where the system has one.
pub(crate) const LOADER: &str = "libvulkan.so.1";

/// One physical device, as its driver presents it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Adapter {
    pub(crate) name: String,
    /// `discrete`, `integrated`, `virtual`, `cpu` or `other`
    pub(crate) kind: &'static str,
    pub(crate) vendor: String,
    /// The newest Vulkan that it offers: `1.3.0`
    pub(crate) api: String,
}

impl Adapter {
    pub(crate) fn is_software(&self) -> bool {
        self.kind == "cpu"
    }
}

type Instance = *mut c_void;
type Physical = *mut c_void;
type Status = i32;

#[repr(C)]
struct InstanceInfo {
    kind: u32,
    next: *const c_void,
    flags: u32,
    application: *const c_void,
    layer_count: u32,
    layers: *const *const c_char,
    extension_count: u32,
    extensions: *const *const c_char,
}

/// `VkPhysicalDeviceProperties` up to the name; what follows (limits, 800 bytes at most) is not read.
#[repr(C)]
struct Properties {
    api: u32,
    driver: u32,
    vendor: u32,
    device: u32,
    kind: u32,
    name: [c_char; 256],
    rest: [u64; 128],
}

/// Leads the loader to the SwiftShader in `folder`, and gives that loader's path; whoever asks for the library by its name
/// then gets the one that is loaded under it. Only in a process that has no other thread yet.
pub(crate) fn in_software(folder: &Path) -> PathBuf {
    let driver = folder.join("vk_swiftshader_icd.json");
    for name in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
        // SAFETY: by the caller's word nothing else reads the environment now.
        unsafe { std::env::set_var(name, &driver) };
    }
    folder.join(LOADER)
}

/// The devices of the loader at `path`, in the order that WebGPU prefers: discrete, integrated, others, programs.
pub(crate) fn adapters(path: &Path) -> Result<Vec<Adapter>, String> {
    let library = open(path)?;
    // SAFETY: the types are those of vulkan_core.h.
    let found = unsafe { ask(&library) };
    // Drivers leave threads behind that run their code.
    std::mem::forget(library);
    let mut found = found?;
    let rank = |kind: &str| ["discrete", "integrated", "virtual", "other", "cpu"].iter().position(|k| *k == kind);
    found.sort_by_key(|adapter| rank(adapter.kind));
    Ok(found)
}

/// # Safety
/// `library` must be a Vulkan loader.
unsafe fn ask(library: &Library) -> Result<Vec<Adapter>, String> {
    type Create = unsafe extern "C" fn(*const InstanceInfo, *const c_void, *mut Instance) -> Status;
    type Enumerate = unsafe extern "C" fn(Instance, *mut u32, *mut Physical) -> Status;
    type Describe = unsafe extern "C" fn(Physical, *mut Properties);
    let null = std::ptr::null();
    let info = InstanceInfo {
        kind: 1, // VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO
        next: null,
        flags: 0,
        application: null,
        layer_count: 0,
        layers: std::ptr::null(),
        extension_count: 0,
        extensions: std::ptr::null(),
    };
    // SAFETY: every pointer is to a live value of the declared layout; the instance is left to the end of the process.
    unsafe {
        let mut instance: Instance = std::ptr::null_mut();
        match function::<Create>(library, "vkCreateInstance")?(&info, null, &mut instance) {
            0 => {}
            -9 => return Err("no Vulkan driver is installed".to_owned()),
            status => return Err(format!("vkCreateInstance fails with {status}")),
        }
        let enumerate = function::<Enumerate>(library, "vkEnumeratePhysicalDevices")?;
        let mut count = 0;
        let status = enumerate(instance, &mut count, std::ptr::null_mut());
        let mut devices = vec![std::ptr::null_mut(); count as usize];
        if status != 0 || (count > 0 && enumerate(instance, &mut count, devices.as_mut_ptr()) < 0) {
            return Err(format!("vkEnumeratePhysicalDevices fails with {status}"));
        }
        let describe = function::<Describe>(library, "vkGetPhysicalDeviceProperties")?;
        devices.truncate(count as usize);
        Ok(devices
            .into_iter()
            .map(|device| {
                let mut found: Properties = std::mem::zeroed();
                describe(device, &mut found);
                adapter(&found)
            })
            .collect())
    }
}

fn adapter(found: &Properties) -> Adapter {
    // SAFETY: the driver ends the name with a zero, within its 256 bytes.
    let name = unsafe { text(found.name.as_ptr()) }.unwrap_or_default();
    let kind = match found.kind {
        1 => "integrated",
        2 => "discrete",
        3 => "virtual",
        4 => "cpu",
        _ => "other",
    };
    let api = format!("{}.{}.{}", found.api >> 22 & 0x7f, found.api >> 12 & 0x3ff, found.api & 0xfff);
    Adapter { name, kind, vendor: format!("{:04x}", found.vendor), api }
}
