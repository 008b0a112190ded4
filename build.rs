//! Builds orch again when a file is added to a folder that it embeds whole: no change of any file that rustc knows of.

#![allow(clippy::print_stdout, reason = "cargo reads a build script's stdout")]

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for folder in ["python/orch_py", "python/requirements", "templates", "node"] {
        println!("cargo:rerun-if-changed={folder}");
    }
}
