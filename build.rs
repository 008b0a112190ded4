//! Tells the tch worker, and nothing else, where its libtorch lies: a run path that torch-sys finds does not reach the
//! executables that depend on it. Without the feature `torch` this does nothing.

#![allow(clippy::print_stdout, reason = "cargo reads a build script's stdout")]

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Folders that are embedded whole: a new file in them is no change of any file that rustc knows of.
    for folder in ["python/orch_py", "python/requirements", "templates", "node"] {
        println!("cargo:rerun-if-changed={folder}");
    }
    if std::env::var_os("CARGO_FEATURE_TORCH").is_none() {
        return;
    }
    // Cargo passes this from torch-sys (`links = "tch"`) to packages that depend on it directly; it is absent when
    // torch-sys was built for documentation only.
    if let Ok(lib) = std::env::var("DEP_TCH_LIBTORCH_LIB") {
        println!("cargo:rustc-link-arg-bin=orch-torch=-Wl,-rpath,{lib}");
    }
}
