//! CUDA's driver, queried for what it shows this process. Called in workers that are about to use it: this starts the driver.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the blocks are sound for the same reason, which stands at their head"
)]

use std::ffi::{c_char, c_int, c_uchar, c_uint};

use libloading::Library;
use serde::Serialize;

use super::{function, text};

// SAFETY of the unsafe blocks below: the functions have the types of cuda.h, every pointer is to a value that outlives the
// call, and the driver ends its texts with a zero byte.

type Status = c_int;

/// The GPU that is number 0 here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Gpu {
    pub(crate) name: String,
    /// `GPU-a1b2c3d4-…`. A slice of a partitioned GPU has another than the GPU.
    pub(crate) uuid: String,
    /// All that the card has, or its slice.
    pub(crate) memory_bytes: u64,
    /// `9.0`
    pub(crate) compute_capability: String,
}

/// Starts the driver: the CUDA that it speaks, as 1000 × major + 10 × minor. Its own words if it does not start.
pub(crate) fn start(library: &Library) -> Result<u32, String> {
    call(
        library,
        "cuInit",
        |f: unsafe extern "C" fn(c_uint) -> Status| unsafe { f(0) },
    )?;
    let mut version = 0;
    let function = "cuDriverGetVersion";
    call(
        library,
        function,
        |f: unsafe extern "C" fn(*mut c_int) -> Status| unsafe { f(&mut version) },
    )?;
    Ok(version.unsigned_abs())
}

/// The GPUs that a started driver shows: how many, and the first.
pub(crate) fn first(library: &Library) -> Result<(u32, Option<Gpu>), String> {
    type Name = unsafe extern "C" fn(*mut c_char, c_int, c_int) -> Status;
    type Get = unsafe extern "C" fn(*mut c_int, c_int) -> Status;
    type Uuid = unsafe extern "C" fn(*mut c_uchar, c_int) -> Status;
    type Attribute = unsafe extern "C" fn(*mut c_int, c_int, c_int) -> Status;
    let mut count = 0;
    let counted = "cuDeviceGetCount";
    call(
        library,
        counted,
        |f: unsafe extern "C" fn(*mut c_int) -> Status| unsafe { f(&mut count) },
    )?;
    if count < 1 {
        return Ok((0, None));
    }
    let mut device = 0;
    let mut name = [0; 128];
    let mut uuid = [0; 16];
    let mut memory = 0_usize;
    call(library, "cuDeviceGet", |f: Get| unsafe {
        f(&mut device, 0)
    })?;
    // One byte less than there is: the last stays a terminator.
    call(library, "cuDeviceGetName", |f: Name| unsafe {
        f(name.as_mut_ptr(), 127, device)
    })?;
    call(library, "cuDeviceGetUuid_v2", |f: Uuid| unsafe {
        f(uuid.as_mut_ptr(), device)
    })?;
    let total = "cuDeviceTotalMem_v2";
    call(
        library,
        total,
        |f: unsafe extern "C" fn(*mut usize, c_int) -> Status| unsafe { f(&mut memory, device) },
    )?;
    // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
    let [major, minor] = [75, 76].map(|which| {
        let mut value = 0;
        let result = call(library, "cuDeviceGetAttribute", |f: Attribute| unsafe {
            f(&mut value, which, device)
        });
        result.map(|()| value)
    });
    let name = unsafe { text(name.as_ptr()) }.unwrap_or_default();
    let compute_capability = format!("{}.{}", major?, minor?);
    let gpu = Gpu {
        name,
        uuid: written(&uuid),
        memory_bytes: memory as u64,
        compute_capability,
    };
    Ok((count.unsigned_abs(), Some(gpu)))
}

/// A UUID as NVML and the kernel module write it.
fn written(uuid: &[u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "GPU-{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

fn call<F: Copy>(
    library: &Library,
    name: &str,
    run: impl FnOnce(F) -> Status,
) -> Result<(), String> {
    // SAFETY: every caller states the function's type as cuda.h declares it, and the library outlives the call.
    match run(unsafe { function(library, name) }?) {
        0 => Ok(()),
        code => Err(format!(
            "{} (error {code})",
            words(library, code).unwrap_or_else(|| name.to_owned())
        )),
    }
}

fn words(library: &Library, code: Status) -> Option<String> {
    type ErrorString = unsafe extern "C" fn(Status, *mut *const c_char) -> Status;
    let mut words = std::ptr::null();
    // SAFETY: cuGetErrorString gives a static string, or null for a number that it does not know.
    unsafe {
        function::<ErrorString>(library, "cuGetErrorString").ok()?(code, &mut words);
        text(words)
    }
}
