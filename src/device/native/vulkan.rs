//! A Vulkan loader, queried for its physical devices: the only word on whether an adapter is silicon or a program, since
//! WebGPU's provider names none.

use std::path::{Path, PathBuf};

use ash::{Entry, vk};
use serde::Serialize;

use super::open;

/// The loader's name where the system has one.
pub(crate) const LOADER: &str = "libvulkan.so.1";

/// What adapters are, in the order that WebGPU prefers.
const KINDS: [(vk::PhysicalDeviceType, &str); 5] = [
    (vk::PhysicalDeviceType::DISCRETE_GPU, "discrete"),
    (vk::PhysicalDeviceType::INTEGRATED_GPU, "integrated"),
    (vk::PhysicalDeviceType::VIRTUAL_GPU, "virtual"),
    (vk::PhysicalDeviceType::OTHER, "other"),
    (vk::PhysicalDeviceType::CPU, "cpu"),
];

/// One physical device, as its driver presents it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Adapter {
    pub(crate) name: String,
    /// One of [`KINDS`].
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

/// The devices of the loader at `path`, in the order of [`KINDS`].
pub(crate) fn adapters(path: &Path) -> Result<Vec<Adapter>, String> {
    // Kept to the end of the process, as the instance is: drivers leave threads behind that run their code.
    std::mem::forget(open(path)?);
    // SAFETY: the library is a Vulkan loader and stays.
    let mut found = unsafe {
        let entry = Entry::load_from(path).map_err(|e| e.to_string())?;
        let instance = match entry.create_instance(&vk::InstanceCreateInfo::default(), None) {
            Ok(instance) => instance,
            Err(vk::Result::ERROR_INCOMPATIBLE_DRIVER) => {
                return Err("no Vulkan driver is installed".to_owned());
            }
            Err(status) => return Err(format!("vkCreateInstance fails with {}", status.as_raw())),
        };
        let devices = instance.enumerate_physical_devices();
        let devices = devices.map_err(|status| {
            format!("vkEnumeratePhysicalDevices fails with {}", status.as_raw())
        })?;
        let described = devices
            .into_iter()
            .map(|device| adapter(&instance.get_physical_device_properties(device)));
        described.collect::<Vec<_>>()
    };
    found.sort_by_key(|adapter| KINDS.iter().position(|(_, kind)| *kind == adapter.kind));
    Ok(found)
}

fn adapter(found: &vk::PhysicalDeviceProperties) -> Adapter {
    let name = found
        .device_name_as_c_str()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let kind = KINDS
        .iter()
        .find(|(kind, _)| *kind == found.device_type)
        .map_or("other", |(_, word)| word);
    let api = found.api_version;
    let parts = [
        vk::api_version_major(api),
        vk::api_version_minor(api),
        vk::api_version_patch(api),
    ];
    let api = parts.map(|part| part.to_string()).join(".");
    Adapter {
        name,
        kind,
        vendor: format!("{:04x}", found.vendor_id),
        api,
    }
}
