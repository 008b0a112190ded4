//! Asks a QNN backend library which SDK it was built from. Creates no backend and touches no device.

use std::ffi::{c_char, c_void};
use std::path::Path;

use super::{function, open, text};

/// Who a QNN library says it is.
pub(crate) struct Identity {
    /// `v2.51.0.…`, the SDK's build.
    pub(crate) build: Option<String>,
    pub(crate) provider: Option<String>,
    /// Versions of the core API and of the backend's API.
    pub(crate) api: String,
}

/// `QnnInterface_t` up to the fifth function of the version-2 table (`QnnInterface.h`).
#[repr(C)]
struct Interface {
    backend_id: u32,
    provider: *const c_char,
    core_api: [u32; 3],
    backend_api: [u32; 3],
    /// propertyHasCapability, backendCreate, backendSetConfig, backendGetApiVersion.
    before: [*const c_void; 4],
    build_id: Option<unsafe extern "C" fn(*mut *const c_char) -> u64>,
}

pub(crate) fn identify(path: &Path) -> Result<Identity, String> {
    type Providers = unsafe extern "C" fn(*mut *const *const Interface, *mut u32) -> u64;
    let library = open(path)?;
    let mut list: *const *const Interface = std::ptr::null();
    let mut count: u32 = 0;
    // SAFETY: the types are those of QnnInterface.h, and the library stays open until the end of this function, by which
    // time its strings are copied.
    unsafe {
        let status =
            function::<Providers>(&library, "QnnInterface_getProviders")?(&mut list, &mut count);
        if status != 0 || list.is_null() || count == 0 || (*list).is_null() {
            return Err(format!(
                "QnnInterface_getProviders gives {count} providers and error {status}"
            ));
        }
        let interface = &**list;
        let api = |v: &[u32; 3]| format!("{}.{}.{}", v[0], v[1], v[2]);
        let mut build: *const c_char = std::ptr::null();
        // The table's layout is known for major version 2 of the core API only.
        let known = interface.core_api[0] == 2;
        let has_build = known
            && interface
                .build_id
                .is_some_and(|build_id| build_id(&mut build) == 0);
        Ok(Identity {
            build: if has_build { text(build) } else { None },
            provider: text(interface.provider),
            api: format!(
                "core {}, backend {}",
                api(&interface.core_api),
                api(&interface.backend_api)
            ),
        })
    }
}
