//! Native code behind the probers: shared libraries opened by hand.
//!
//! The functions of `nvml` and `qnn` load foreign code into this process. They are called in the child behind
//! [`super::ChildProbe`] only: a library that crashes there costs one reason and not the run. Those of `cuda` are called in
//! workers, which exist for one run.

pub(crate) mod cuda;
pub(crate) mod nvml;
pub(crate) mod qnn;
pub(crate) mod vulkan;

use std::ffi::{CStr, c_char};
use std::path::Path;

use libloading::Library;

use crate::base::text::with_causes;

/// Opens a library, or says in one line why not.
pub(crate) fn open(path: &Path) -> Result<Library, String> {
    // SAFETY: loading runs the library's initialisers, which is foreign code that may do anything; this is why probers
    // load libraries in a child process only.
    unsafe { Library::new(path) }.map_err(|error| {
        // libloading hides dlerror's text in the error's source on some platforms and in its message on others.
        with_causes(error.to_string(), &error)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    })
}

/// A library of NVIDIA's driver: where the loader looks, or where distributions and containers put it.
pub(crate) fn open_nvidia(soname: &str) -> Result<Library, String> {
    let elsewhere = || {
        super::cuda::FOLDERS
            .iter()
            .map(|folder| Path::new(folder).join(soname))
    };
    let unknown = |why: String| elsewhere().find_map(|path| open(&path).ok()).ok_or(why);
    open(Path::new(soname)).or_else(unknown)
}

/// A library built from a source in `tests/fixtures/native`, as `name`; the C compiler is there, because Rust links with it.
#[cfg(test)]
pub(crate) fn built(
    source: &str,
    name: &str,
    define: &str,
) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/native")
        .join(source);
    let mut cc = std::process::Command::new("cc");
    assert!(
        cc.args(["-shared", "-fPIC", define, "-o"])
            .arg(&library)
            .arg(source)
            .status()
            .unwrap()
            .success()
    );
    (folder, library)
}

/// A function of a library, copied out of it.
///
/// # Safety
/// `T` must be the function's true type, and the library must stay open while it is called.
pub(crate) unsafe fn function<T: Copy>(library: &Library, name: &str) -> Result<T, String> {
    // SAFETY: the caller vouches for the type.
    unsafe { library.get::<T>(name.as_bytes()) }
        .map(|symbol| *symbol)
        .map_err(|_| format!("it has no function {name}"))
}

/// A C string as text; None for a null pointer.
///
/// # Safety
/// A pointer that is not null must point to a NUL-terminated string.
pub(crate) unsafe fn text(pointer: *const c_char) -> Option<String> {
    (!pointer.is_null()).then(|| {
        // SAFETY: the caller vouches for a pointer that is not null.
        unsafe { CStr::from_ptr(pointer) }
            .to_string_lossy()
            .into_owned()
    })
}
