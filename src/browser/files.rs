//! Places in the environment `browser`, below its folder. `provision` puts files there.

use std::path::{Path, PathBuf};

/// The executable.
pub const BINARY: &str = "chromium/chromium";
/// NSS, NSPR and expat, beside the executable: with them it needs no package of the system but the C library.
const LIBRARIES: &str = "lib";
/// ONNX Runtime Web's bundles.
pub const ORT_WEB: &str = "node_modules/onnxruntime-web/dist";

/// The folder with libraries that came with the executable, if it came with any.
pub(super) fn libraries(program: &Path) -> Option<PathBuf> {
    program
        .parent()
        .map(|folder| folder.join(LIBRARIES))
        .filter(|folder| folder.join("libnss3.so").is_file())
}
