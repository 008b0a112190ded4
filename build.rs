//! Writes the token streams of orch's own sources, of which the digests in keys are made, and builds orch again when a
//! file is added to a folder that it embeds whole: no change of any file that rustc knows of.

#![allow(clippy::print_stdout, reason = "cargo reads a build script's stdout")]

use std::path::{Path, PathBuf};
use std::{env, fs};

#[path = "build/tokens.rs"]
mod tokens;

use tokens::Modules;

fn main() {
    for folder in [
        "build.rs",
        "build",
        "src",
        "python/orch_py",
        "python/requirements",
        "templates",
        "node",
    ] {
        println!("cargo:rerun-if-changed={folder}");
    }
    let mut streams = String::new();
    for (root, extension) in [("src", "rs"), ("python/orch_py", "py")] {
        let root = Path::new(root);
        let mut files = Vec::new();
        find(root, extension, &mut files);
        files.sort();
        let modules: Modules = files
            .iter()
            .map(|file| tokens::module(within(file, root)))
            .collect();
        for file in &files {
            if file.to_string_lossy().contains("tests") {
                continue;
            }
            let text = fs::read_to_string(file).expect("a source is readable text");
            let own = tokens::module(within(file, root));
            let stream = match extension {
                "rs" => tokens::of_rust(&text, &own, &modules),
                _ => tokens::of_python(&text, &modules),
            };
            let stream = stream.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            // Records are divided by characters that no token holds.
            streams.push_str(&format!("{}\u{1f}{stream}\u{1e}", file.display()));
        }
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("tokens.txt"), streams).expect("cargo's folder is writable");
}

fn within<'a>(file: &'a Path, root: &Path) -> &'a Path {
    file.strip_prefix(root)
        .expect("a file that was found lies below its root")
}

fn find(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).expect("a folder of sources is readable");
    for entry in entries.map(|entry| entry.expect("an entry of it is readable")) {
        let path = entry.path();
        if path.is_dir() {
            find(&path, extension, found);
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
}
