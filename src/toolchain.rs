//! The Python side of orch as data: its code, and the locked requirements of each of its environments.
//!
//! Everything here is embedded in the binary, so versions are known without starting Python. Installing it is
//! `provision`'s work; what the code does is documented in `docs/design.md`, "Jobs".

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use include_dir::{Dir, include_dir};
use serde::{Deserialize, Serialize};

use crate::base::Digest;

/// The package `orch_py`.
pub static PACKAGE: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/python/orch_py");

/// One locked Python environment. They are apart so that a run installs only what its targets need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EnvName {
    /// ONNX Runtime: the library that `orch worker ort` loads.
    Ort,
    /// ONNX Runtime with Qualcomm's plugin.
    Qnn,
    /// OpenVINO: the library, and the converter.
    Openvino,
    /// OpenVINO with nncf, for 8-bit weights.
    Nncf,
    /// PyTorch and transformers: models, references, exports; libtorch for the tch worker.
    Torch,
}

impl EnvName {
    pub const ALL: [Self; 5] = [Self::Ort, Self::Qnn, Self::Openvino, Self::Nncf, Self::Torch];

    pub fn name(self) -> &'static str {
        match self {
            Self::Ort => "ort",
            Self::Qnn => "qnn",
            Self::Openvino => "openvino",
            Self::Nncf => "nncf",
            Self::Torch => "torch",
        }
    }

    /// The requirements with hashes, as `pip install --require-hashes -r` takes them.
    pub fn lock(self) -> &'static str {
        match self {
            Self::Ort => include_str!("../python/requirements/ort.txt"),
            Self::Qnn => include_str!("../python/requirements/qnn.txt"),
            Self::Openvino => include_str!("../python/requirements/openvino.txt"),
            Self::Nncf => include_str!("../python/requirements/nncf.txt"),
            Self::Torch => include_str!("../python/requirements/torch.txt"),
        }
    }

    /// Packages that a server of this environment imports once, before it forks for its first job.
    pub fn preload(self) -> &'static [&'static str] {
        match self {
            // transformers loads lazily; the ops name what they need of it.
            Self::Torch => &["orch_py.ops.materialise", "orch_py.ops.export_onnx", "orch_py.ops.export_torchscript"],
            Self::Nncf => &["openvino", "nncf"],
            Self::Openvino => &["openvino"],
            Self::Ort | Self::Qnn => &[],
        }
    }
}

impl fmt::Display for EnvName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A package whose version can change a step's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tool {
    pub env: EnvName,
    pub package: &'static str,
}

impl Tool {
    /// Version and content of the package: `2.7.0+<digest of its wheels' hashes>`.
    ///
    /// The lock names the hash of every wheel, so this stands for the content of the libraries in it.
    pub fn identity(self) -> String {
        let locked = packages(self.env).get(self.package);
        let locked = locked.unwrap_or_else(|| panic!("BUG: {} is not in the lock of {}", self.package, self.env));
        format!("{}+{}", locked.version, &locked.hashes.short())
    }
}

struct Locked {
    version: String,
    hashes: Digest,
}

/// `name==version ; marker \` lines, each followed by its `--hash=…` lines.
fn parse(lock: &str) -> BTreeMap<String, Locked> {
    let mut found = BTreeMap::new();
    let joined = lock.replace("\\\n", " ");
    for line in joined.lines().filter(|line| line.contains("==") && !line.trim_start().starts_with('#')) {
        let (name, rest) = line.split_once("==").expect("BUG: filtered for ==");
        let version = rest.split_whitespace().next().unwrap_or_default();
        let mut hashes: Vec<_> = rest.split_whitespace().filter(|word| word.starts_with("--hash=")).collect();
        hashes.sort_unstable();
        let locked = Locked { version: version.to_owned(), hashes: Digest::of(hashes.join("\n").as_bytes()) };
        found.insert(name.trim().to_owned(), locked);
    }
    found
}

fn packages(env: EnvName) -> &'static BTreeMap<String, Locked> {
    static PARSED: [OnceLock<BTreeMap<String, Locked>>; 5] = [const { OnceLock::new() }; 5];
    PARSED[env as usize].get_or_init(|| parse(env.lock()))
}

/// Digest of the Python package's sources: part of the key of every step that it performs.
pub fn python_code() -> Digest {
    static DIGEST: OnceLock<Digest> = OnceLock::new();
    *DIGEST.get_or_init(|| {
        let mut lines = Vec::new();
        collect(&PACKAGE, &mut lines);
        lines.sort();
        Digest::of(lines.join("\n").as_bytes())
    })
}

fn collect(dir: &Dir<'_>, lines: &mut Vec<String>) {
    for file in dir.files().filter(|file| file.path().extension().is_some_and(|e| e == "py")) {
        lines.push(format!("{} {}", file.path().display(), Digest::of(file.contents())));
    }
    for sub in dir.dirs() {
        collect(sub, lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locks_versions_and_hashes_are_read() {
        let parsed = parse(
            "numpy==2.3.0 ; python_version >= '3.11' \\\n    --hash=sha256:b \\\n    --hash=sha256:a\nx==1 \\\n    --hash=sha256:c\n",
        );
        assert_eq!(parsed["numpy"].version, "2.3.0");
        assert_eq!(parsed["numpy"].hashes, Digest::of(b"--hash=sha256:a\n--hash=sha256:b"));
        assert_eq!(parsed["x"].version, "1");
    }

    #[test]
    fn torch_is_the_version_that_tch_links() {
        assert!(Tool { env: EnvName::Torch, package: "torch" }.identity().starts_with("2.13.0+"));
    }

    #[test]
    fn no_lock_names_an_address() {
        for env in EnvName::ALL {
            assert!(!env.lock().contains("://"), "{env}");
            assert!(env.lock().contains("--hash=sha256:"), "{env}");
        }
    }
}
