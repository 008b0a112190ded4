//! Tells the tch worker where its libtorch lies: in a link beside it, so that one executable serves every environment, and
//! can be shipped.

#![allow(clippy::print_stdout, reason = "cargo reads a build script's stdout")]

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is_macos = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "macos");
    let here = if is_macos { "@loader_path" } else { "$ORIGIN" };
    println!("cargo:rustc-link-arg-bins=-Wl,-rpath,{here}/libtorch/lib");
}
