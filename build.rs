//! Tells the tch worker, and nothing else, where its libtorch lies: in a link beside it, so that one executable serves every
//! environment, and can be shipped. Without the feature `torch` this does nothing.

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
    let is_macos = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "macos");
    let here = if is_macos { "@loader_path" } else { "$ORIGIN" };
    println!("cargo:rustc-link-arg-bin=orch-torch=-Wl,-rpath,{here}/libtorch/lib");
}
