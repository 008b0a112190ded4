//! OpenVINO's C library: loaded at run time, and queried for its version, devices and their properties. The prober looks
//! with it, and the runtime compiles and runs models with the object that it makes (`runtime/openvino/api.rs`).
//!
//! Why not the crate `openvino`: it cannot make a scalar's shape, and sets properties through a C function with varargs by a
//! declaration without them, which is not called correctly on every platform.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the blocks are sound for the same reason, which stands at their head"
)]

mod words;

use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr::{NonNull, null, null_mut};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail};
use openvino_sys as sys;
use openvino_sys::ov_status_e as Status;

use words::without_places;

/// OpenVINO's message, whole.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.message_of_openvino())]
pub(crate) struct Failure {
    pub(crate) status: Status,
    message: String,
}

impl Failure {
    pub(crate) fn is_not_implemented(&self) -> bool {
        self.status == Status::NOT_IMPLEMENTED
    }

    fn message_of_openvino(&self) -> String {
        let words = without_places(&self.message);
        if words.is_empty() {
            format!("{:?}", self.status)
        } else {
            words
        }
    }
}

pub(crate) fn check(status: Status) -> Result<(), Failure> {
    if status == Status::OK {
        return Ok(());
    }
    // SAFETY: the library owns the text and keeps it until the next call on this thread; it is copied here.
    let message = unsafe {
        let text = sys::ov_get_last_err_msg();
        if text.is_null() {
            String::new()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    };
    Err(Failure { status, message })
}

/// The object that a C function made through its out-parameter.
pub(crate) fn made<T>(make: impl FnOnce(*mut *mut T) -> Status) -> Result<NonNull<T>, Failure> {
    let mut pointer = null_mut();
    check(make(&mut pointer))?;
    Ok(NonNull::new(pointer).expect("BUG in OpenVINO: success without an object"))
}

/// A text that the library allocated.
pub(crate) fn text(make: impl FnOnce(*mut *mut c_char) -> Status) -> Result<String, Failure> {
    let pointer = made(make)?;
    // SAFETY: the library made a terminated string and gives it to the caller, who frees it with ov_free.
    unsafe {
        let text = CStr::from_ptr(pointer.as_ptr())
            .to_string_lossy()
            .into_owned();
        sys::ov_free(pointer.as_ptr());
        Ok(text)
    }
}

pub(crate) fn c_string(text: &str) -> Result<CString> {
    CString::new(text).with_context(|| format!("`{}` holds a zero byte", text.escape_debug()))
}

/// How releases before 2026 take properties: as many more arguments, keys and values in turn.
pub(crate) type CompileByVarargs = unsafe extern "C" fn(
    *const sys::ov_core_t,
    *const sys::ov_model_t,
    *const c_char,
    usize,
    *mut *mut sys::ov_compiled_model_t,
    ...
) -> Status;

/// The function of the loaded library, where it has no other.
pub(crate) static COMPILE_BY_VARARGS: OnceLock<CompileByVarargs> = OnceLock::new();

/// Loads the library for the life of the process and returns its version.
pub(crate) fn load(library: &Path) -> Result<String> {
    // openvino-sys panics at the first call of a function that a library lacks, so the newest one is looked for here.
    // SAFETY: the file is loaded just below in any case.
    let opened =
        unsafe { libloading::Library::new(library) }.context("the library cannot be opened")?;
    // SAFETY: the symbol is only looked up.
    let has = |symbol: &str| unsafe { opened.get::<*const ()>(symbol) }.is_ok();
    if !has("ov_core_compile_model_props") {
        // SAFETY: the function has had these parameters since 2022.1.
        let varargs = unsafe { opened.get::<CompileByVarargs>("ov_core_compile_model") };
        if let Ok(varargs) = varargs {
            let _ = COMPILE_BY_VARARGS.set(*varargs);
        }
    }
    for symbol in ["ov_get_openvino_version", "ov_core_compile_model"] {
        if !has(symbol) {
            bail!(
                "`{}` has no function {symbol}, which the C library of OpenVINO 2026.4.1 has",
                library.display()
            );
        }
    }
    sys::library::load_from(library).map_err(|error| anyhow!(error))?;
    let mut version = sys::ov_version_t {
        buildNumber: null(),
        description: null(),
    };
    // SAFETY: the struct is the library's to fill and to free; the text is copied in between.
    unsafe {
        check(sys::ov_get_openvino_version(&mut version))?;
        let build = CStr::from_ptr(version.buildNumber)
            .to_string_lossy()
            .into_owned();
        sys::ov_version_free(&mut version);
        Ok(build)
    }
}

/// Its plugins and their devices.
pub(crate) struct Core(pub(crate) NonNull<sys::ov_core_t>);

impl Drop for Core {
    fn drop(&mut self) {
        // SAFETY: the pointer came from the library, and only this value frees it.
        unsafe { sys::ov_core_free(self.0.as_ptr()) }
    }
}

// SAFETY of the unsafe blocks below: every pointer is either owned by `self` (alive, made by the library) or points to a
// value that outlives the call; the library copies what it keeps.
impl Core {
    pub(crate) fn new() -> Result<Self, Failure> {
        made(|core| unsafe { sys::ov_core_create(core) }).map(Self)
    }

    /// All devices that some plugin offers. Loads every plugin, so a run asks for its own device alone.
    pub(crate) fn devices(&self) -> Result<Vec<String>, Failure> {
        let mut list = sys::ov_available_devices_t {
            devices: null_mut(),
            size: 0,
        };
        unsafe {
            check(sys::ov_core_get_available_devices(
                self.0.as_ptr(),
                &mut list,
            ))?;
            let name = |index| {
                CStr::from_ptr(*list.devices.add(index))
                    .to_string_lossy()
                    .into_owned()
            };
            let names = (0..list.size).map(name).collect();
            sys::ov_available_devices_free(&mut list);
            Ok(names)
        }
    }

    pub(crate) fn property(&self, device: &str, key: &str) -> Result<String> {
        let device = c_string(device)?;
        let key = c_string(key)?;
        Ok(text(|value| unsafe {
            sys::ov_core_get_property(self.0.as_ptr(), device.as_ptr(), key.as_ptr(), value)
        })?)
    }
}
