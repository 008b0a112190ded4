//! A folder in `save_pretrained` layout: the files that decide what is loaded from it.
//!
//! Each is an input of its own. What a loader never reads is in no key: a README, weights in other formats, and whatever
//! else is kept there, such as a project of orch with its store and its reports.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The label of the input under which a step has the whole folder, or its files.
pub const LABEL: &str = "weights";
/// Ends of names of weights that orch loads from no folder: pickles, and the formats of other frameworks.
const OTHER_FORMATS: &[&str] = &[
    ".bin",
    ".ckpt",
    ".gguf",
    ".h5",
    ".mlmodel",
    ".msgpack",
    ".onnx",
    ".onnx_data",
    ".ot",
    ".pt",
    ".pth",
    ".tflite",
];
/// Ends of names of what people read and look at.
const FOR_PEOPLE: &[&str] = &[
    "gif", "jpeg", "jpg", "md", "pdf", "png", "rst", "svg", "webp",
];
/// Beginnings of names of what people read.
const LEGAL: &[&str] = &["LICENSE", "LICENCE", "NOTICE", "USE_POLICY"];
/// The folders below it that tokenizers read.
const FOLDERS: &[&str] = &["additional_chat_templates"];

/// The label of the input that is this file of the folder.
pub fn label(name: &str) -> String {
    format!("{LABEL}/{name}")
}

/// The folder that holds the input of this label.
pub fn folder_of(label: &str, path: &Path) -> Option<PathBuf> {
    let name = label.strip_prefix(LABEL)?.strip_prefix('/')?;
    path.ancestors()
        .nth(name.split('/').count())
        .map(Path::to_owned)
}

/// The files that a loader may read, relative to the folder. Code that comes with a model may read all that is below it.
pub fn files(folder: &Path, has_code: bool) -> io::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut open = vec![String::new()];
    while let Some(below) = open.pop() {
        for entry in fs::read_dir(folder.join(&below))? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else {
                continue;
            };
            let path = if below.is_empty() {
                name.to_owned()
            } else {
                format!("{below}/{name}")
            };
            // Links count as what they lead to.
            if !entry.path().is_dir() {
                found.extend(may_be_read(name).then_some(path));
            } else if (has_code && !is_of_orch(&entry.path())) || FOLDERS.contains(&path.as_str()) {
                open.push(path);
            }
        }
    }
    Ok(found)
}

fn may_be_read(name: &str) -> bool {
    let is_for_others = OTHER_FORMATS
        .iter()
        .chain(FOR_PEOPLE)
        .any(|end| name.ends_with(end));
    !is_for_others && !LEGAL.iter().any(|start| name.starts_with(start)) && name != "orch.toml"
}

/// Whether orch, or another tool that marks its caches, made the folder.
fn is_of_orch(folder: &Path) -> bool {
    ["CACHEDIR.TAG", ".orch"]
        .iter()
        .any(|mark| folder.join(mark).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_loaders_read_counts_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let read = [
            "config.json",
            "model.safetensors",
            "vocab.txt",
            "additional_chat_templates/tool.jinja",
        ];
        let left = [
            "README.md",
            ".git/HEAD",
            "pytorch_model.bin",
            "onnx/model.onnx",
            "orch-out/report.json",
        ];
        for name in read.iter().chain(&left) {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        let expected: BTreeSet<_> = read.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(files(folder.path(), false).unwrap(), expected);
        fs::create_dir_all(folder.path().join("code")).unwrap();
        fs::write(folder.path().join("code/layers.py"), "").unwrap();
        assert!(
            files(folder.path(), true)
                .unwrap()
                .contains("code/layers.py")
        );
        fs::write(folder.path().join("orch-out/.orch"), "").unwrap();
        assert!(
            !files(folder.path(), true)
                .unwrap()
                .contains("orch-out/report.json")
        );
    }

    #[test]
    fn the_folder_is_found_by_each_of_its_files() {
        let of = |label, path: &str| folder_of(label, Path::new(path));
        assert_eq!(
            of("weights/config.json", "/m/config.json"),
            Some("/m".into())
        );
        assert_eq!(of("weights/a/b.py", "/m/a/b.py"), Some("/m".into()));
        assert_eq!(of("external/w.bin", "/m/w.bin"), None);
    }
}
