//! The Python side of orch as data: its code, and the locked requirements of each of its environments.
//!
//! Everything here is embedded in the binary, so versions are known without starting Python. Installing it is
//! `provision`'s work; what the code does is documented in `docs/design/jobs.md`.

mod named;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, LazyLock, OnceLock};

use include_dir::{Dir, include_dir};
use serde::{Deserialize, Serialize};

use crate::base::Digest;
use crate::base::fs::embedded;
use crate::base::words::words;

pub use named::{Toolchain, locked_release, package_of};

/// The package `orch_py`.
pub static PACKAGE: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/python/orch_py");

macro_rules! environments {
    ($($(#[doc = $doc:literal])* $name:ident $word:literal { lock: $lock:literal, megabytes: $megabytes:expr, preload: $preload:expr },)*) => {
        /// One locked environment, mostly of Python. They are apart so that a run installs only what its targets need.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum EnvName {
            $($(#[doc = $doc])* #[serde(rename = $word)] $name,)*
        }

        words!(pub EnvName { $($word => $name),* });

        impl EnvName {
            pub fn name(self) -> &'static str {
                self.word()
            }

            /// The lock that this binary carries. What installs or makes keys is given [`Locks`].
            pub fn lock(self) -> &'static str {
                match self { $(Self::$name => include_str!(concat!("../", $lock))),* }
            }

            /// How large it is once it is installed, in 10⁶ bytes, on Linux for x86_64. None where nobody measured it.
            pub fn megabytes(self) -> Option<u64> {
                match self { $(Self::$name => $megabytes),* }
            }

            /// Packages that a server of this environment imports once, before it forks for its first job.
            pub fn preload(self) -> &'static [&'static str] {
                match self { $(Self::$name => &$preload),* }
            }
        }
    };
}

environments! {
    /// ONNX Runtime: the library that `orch worker ort` loads, and what makes fp16 and int8 of ONNX files.
    Ort "ort" { lock: "python/requirements/ort.txt", megabytes: Some(250), preload: ["orch_py.ops.onnx_convert"] },
    /// ONNX Runtime with Qualcomm's plugin.
    Qnn "qnn" { lock: "python/requirements/qnn.txt", megabytes: Some(500), preload: [] },
    /// ONNX Runtime with its WebGPU plugin.
    Webgpu "webgpu" { lock: "python/requirements/webgpu.txt", megabytes: Some(140), preload: [] },
    /// ONNX Runtime with CUDA, and the CUDA and cuDNN that it loads.
    Cuda "cuda" { lock: "python/requirements/cuda.txt", megabytes: None, preload: [] },
    /// ONNX Runtime with MIGraphX for AMD's GPUs.
    Rocm "rocm" { lock: "python/requirements/rocm.txt", megabytes: None, preload: [] },
    /// OpenVINO: the library, and the converter.
    Openvino "openvino" { lock: "python/requirements/openvino.txt", megabytes: Some(280), preload: ["openvino", "orch_py.ops.openvino_convert"] },
    /// OpenVINO with nncf, for 8-bit weights.
    // nncf imports what a backend needs when it is first called.
    Nncf "nncf" {
        lock: "python/requirements/nncf.txt", megabytes: Some(530),
        preload: [
            "openvino",
            "nncf",
            "orch_py.ops.openvino_convert",
            "nncf.openvino.quantization.quantize_model",
            "nncf.quantization.algorithms.weight_compression.openvino_backend",
        ]
    },
    /// PyTorch and transformers: models, references, exports; libtorch for the tch worker.
    // transformers loads lazily; the ops name what they need of it. The rest is what every model class imports when it is
    // first named: 0.15 s here, or in every job.
    Torch "torch" {
        lock: "python/requirements/torch.txt", megabytes: Some(5100),
        preload: [
            "orch_py.ops.materialise",
            "orch_py.ops.export_onnx",
            "orch_py.ops.export_torchscript",
            "orch_py.ops.script",
            "transformers.generation.utils",
            "transformers.masking_utils",
            "transformers.modeling_layers",
            "transformers.models.auto.modeling_auto",
            "transformers.exporters.utils",
            "orch_py.worker.warm",
        ]
    },
    /// LiteRT: the library that `orch worker litert` loads, and the converter with the PyTorch that it needs.
    Litert "litert" { lock: "python/requirements/litert.txt", megabytes: Some(900), preload: ["orch_py.ops.litert_convert"] },
    /// tract's Python package, by which a generated test runs: orch itself has the crate.
    Tract "tract" { lock: "python/requirements/tract.txt", megabytes: Some(100), preload: [] },
    /// ONNX Runtime Web, and the Chromium that it runs in: of npm, and no Python.
    Browser "browser" { lock: "node/browser/package-lock.json", megabytes: Some(370), preload: [] },
    /// Node, for what is of npm where the machine has none.
    Node "node" { lock: "python/requirements/node.txt", megabytes: None, preload: [] },
    /// What installs the others, where the machine has none.
    Uv "uv" { lock: "python/requirements/uv.txt", megabytes: Some(50), preload: [] },
    /// Transformers.js for the web, with an ONNX Runtime Web of its own: of npm, and no Python.
    TransformersJs "transformers-js" { lock: "node/transformers-js/package-lock.json", megabytes: Some(55), preload: [] },
    /// DuckDB's library, for the history: of npm, and no Python.
    Duckdb "duckdb" { lock: "node/duckdb/package-lock.json", megabytes: Some(70), preload: [] },
}

impl EnvName {
    /// Whether a Python of the user's can stand for it (ORCH_PYTHON).
    pub fn is_python(self) -> bool {
        !self.is_npm() && !matches!(self, Self::Node | Self::Uv)
    }

    /// Whether its lock is one of npm's.
    fn is_npm(self) -> bool {
        self.lock().starts_with('{')
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

/// The locked requirements of every environment: what is installed, and the versions that stand in keys.
///
/// A value, not a global, so that a caller can pass another lock and ask what it would rerun.
#[derive(Debug, Clone)]
pub struct Locks([Arc<Lock>; EnvName::ALL.len()]);

/// What is in it is read on first use: most runs need few of them.
#[derive(Debug)]
struct Lock {
    text: Cow<'static, str>,
    packages: OnceLock<BTreeMap<String, Locked>>,
    digest: OnceLock<Digest>,
}

impl Lock {
    fn of(text: Cow<'static, str>) -> Arc<Self> {
        Arc::new(Self {
            text,
            packages: OnceLock::new(),
            digest: OnceLock::new(),
        })
    }
}

impl Default for Locks {
    /// Those that are embedded in this binary.
    fn default() -> Self {
        Self(EnvName::ALL.map(|env| Lock::of(Cow::Borrowed(env.lock()))))
    }
}

impl Locks {
    /// Those of a folder, each in a file `NAME.txt`, and this binary's for what has none there.
    pub fn of(folder: &Path) -> Result<Self, String> {
        let mut locks = Self::default();
        let mut found = 0;
        for env in EnvName::ALL.into_iter().filter(|env| env.is_python()) {
            let path = folder.join(format!("{env}.txt"));
            match std::fs::read_to_string(&path) {
                Ok(text) => (locks, found) = (locks.with(env, checked(text, &path)?), found + 1),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(format!("failed to read `{}`: {e}", path.display())),
            }
        }
        // A slip in the folder's name would install what it was to keep away.
        if found == 0 {
            Err(format!(
                "`{}` holds no lock of an environment, such as `torch.txt`",
                folder.display()
            ))
        } else {
            Ok(locks)
        }
    }

    /// The lock of one environment, from a file; messages name the file as `shown`.
    pub fn read(path: &Path, shown: &str) -> Result<String, String> {
        let text = std::fs::read_to_string(path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => format!("there is no file `{shown}`"),
            _ => format!("failed to read `{shown}`: {e}"),
        })?;
        checked(text, Path::new(shown))
    }

    /// The environments whose locks are others than this binary's.
    pub fn users(&self) -> impl Iterator<Item = EnvName> {
        EnvName::ALL.into_iter().filter(|env| self.is_users(*env))
    }

    /// These locks, with those of others that are not a binary's in their place.
    pub fn overlaid(&self, others: &Self) -> Self {
        let mut all = self.clone();
        for env in others.users() {
            all.0[env as usize] = others.0[env as usize].clone();
        }
        all
    }

    /// Whether the lock is another than this binary's.
    pub fn is_users(&self, env: EnvName) -> bool {
        matches!(self.0[env as usize].text, Cow::Owned(_))
    }

    /// The requirements with hashes, as `pip install --require-hashes -r` takes them; of what is of npm, as `npm ci` does.
    pub fn text(&self, env: EnvName) -> &str {
        &self.0[env as usize].text
    }

    /// The digest of an environment's whole lock.
    pub fn digest(&self, env: EnvName) -> Digest {
        *self.0[env as usize]
            .digest
            .get_or_init(|| Digest::of(self.text(env).as_bytes()))
    }

    /// These locks, with another text for one environment.
    pub fn with(mut self, env: EnvName, text: String) -> Self {
        self.0[env as usize] = Lock::of(Cow::Owned(text));
        self
    }

    /// Version and content of a package: `2.7.0+<digest of its wheels' hashes>`.
    ///
    /// The lock names the hash of every wheel, so this stands for the content of the libraries in it.
    pub fn identity(&self, tool: Tool) -> String {
        let Lock { text, packages, .. } = &*self.0[tool.env as usize];
        let packages = packages.get_or_init(|| {
            if tool.env.is_npm() {
                parse_npm(text)
            } else {
                parse(text)
            }
        });
        let Some(locked) = packages.get(tool.package) else {
            assert!(
                self.is_users(tool.env),
                "BUG: {} is not in the lock of {}",
                tool.package,
                tool.env
            );
            return "absent".into();
        };
        format!(
            "{}+{}",
            locked.versions.join("|"),
            Digest::of(locked.hashes.join("\n").as_bytes()).short()
        )
    }
}

/// A lock names a package once for every marker under which its version differs.
#[derive(Debug, Clone, Default)]
struct Locked {
    versions: Vec<String>,
    hashes: Vec<String>,
}

/// A lock of the user's must be one that leaves nothing open: pip and uv would take a file without a hash if no other line has any.
fn checked(text: String, path: &Path) -> Result<String, String> {
    let open = entries(&text).find(|(_, entry)| !entry.contains("--hash=sha256:"));
    match open {
        Some((name, _)) => Err(format!("`{}` names no hash of {name}", path.display())),
        None if entries(&text).next().is_none() => {
            Err(format!("`{}` locks nothing", path.display()))
        }
        None => Ok(text),
    }
}

/// The packages of a lock, each with its lines.
pub fn entries(lock: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_begin =
        |line: &str| line.starts_with(|c: char| c.is_alphanumeric()) && line.contains("==");
    let mut rest = lock;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let mut lines = rest.split_inclusive('\n');
            let first = lines.next()?;
            let more: usize = if is_begin(first) {
                lines
                    .take_while(|line| line.starts_with(' '))
                    .map(str::len)
                    .sum()
            } else {
                0
            };
            let (entry, after) = rest.split_at(first.len() + more);
            rest = after;
            if is_begin(first) {
                return Some((first.split("==").next()?.trim(), entry));
            }
        }
        None
    })
}

/// What is installed by `name==version ; marker \` lines, each followed by its `--hash=…` lines.
fn parse(lock: &str) -> BTreeMap<String, Locked> {
    let mut found: BTreeMap<String, Locked> = BTreeMap::new();
    for (name, entry) in entries(lock) {
        let locked = found.entry(name.to_owned()).or_default();
        let (_, version) = entry.split_once("==").expect("BUG: an entry has a version");
        locked
            .versions
            .extend(version.split_whitespace().next().map(str::to_owned));
        locked.hashes.extend(
            entry
                .split_whitespace()
                .filter(|word| word.starts_with("--hash="))
                .map(str::to_owned),
        );
        locked.hashes.sort_unstable();
    }
    found
}

/// `packages`, by path: `{"node_modules/NAME": {"version": …, "integrity": …}}`. What others depend on lies deeper, and
/// is no tool.
fn parse_npm(lock: &str) -> BTreeMap<String, Locked> {
    let lock: serde_json::Value =
        serde_json::from_str(lock).expect("BUG: package-lock.json is JSON");
    let packages = lock["packages"]
        .as_object()
        .expect("BUG: package-lock.json has packages");
    let named = packages.iter().filter_map(|(path, entry)| {
        let word = |key: &str| entry[key].as_str().map(str::to_owned).into_iter().collect();
        Some((
            path.strip_prefix("node_modules/")?.to_owned(),
            Locked {
                versions: word("version"),
                hashes: word("integrity"),
            },
        ))
    });
    named.collect()
}

/// The files of the Python package, by their paths in it.
pub fn package_files() -> impl Iterator<Item = (&'static Path, &'static [u8])> {
    embedded(&PACKAGE)
        .into_iter()
        .map(|file| (file.path(), file.contents()))
}

/// Digest of the Python package's sources: part of the key of every step that it performs.
pub fn python_code() -> Digest {
    static DIGEST: LazyLock<Digest> = LazyLock::new(|| {
        let files = embedded(&PACKAGE)
            .into_iter()
            .filter(|file| file.path().extension().is_some_and(|e| e == "py"));
        let mut lines: Vec<_> = files
            .map(|file| format!("{} {}", file.path().display(), Digest::of(file.contents())))
            .collect();
        lines.sort();
        Digest::of(lines.join("\n").as_bytes())
    });
    *DIGEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locks_versions_and_hashes_are_read() {
        let parsed = parse(
            "numpy==2.3.0 ; python_version >= '3.11' \\\n    --hash=sha256:b \\\n    --hash=sha256:a\nnumpy==2.2.0 ; \
             python_version < '3.11' \\\n    --hash=sha256:d\nx==1 \\\n    --hash=sha256:c\n",
        );
        assert_eq!(parsed["numpy"].versions, ["2.3.0", "2.2.0"]);
        assert_eq!(
            parsed["numpy"].hashes,
            ["--hash=sha256:a", "--hash=sha256:b", "--hash=sha256:d"]
        );
        assert_eq!(parsed["x"].versions, ["1"]);
    }

    #[test]
    fn torch_is_the_version_that_tch_links() {
        let torch = Tool {
            env: EnvName::Torch,
            package: "torch",
        };
        assert!(Locks::default().identity(torch).starts_with("2.13.0+"));
    }

    #[test]
    fn no_lock_names_an_address() {
        for env in EnvName::ALL {
            assert!(!env.lock().contains("://"), "{env}");
            let hash = if env.is_npm() {
                "\"integrity\": \"sha512-"
            } else {
                "--hash=sha256:"
            };
            assert!(env.lock().contains(hash), "{env}");
        }
    }

    #[test]
    fn every_package_of_npm_has_its_hash() {
        for env in EnvName::ALL.into_iter().filter(|env| env.is_npm()) {
            let packages = parse_npm(env.lock());
            assert!(packages.len() > 2);
            for (name, locked) in packages {
                assert_eq!(
                    (locked.versions.len(), locked.hashes.len()),
                    (1, 1),
                    "{name}"
                );
            }
        }
        let web = Tool {
            env: EnvName::Browser,
            package: "onnxruntime-web",
        };
        assert!(Locks::default().identity(web).starts_with("1.30.0+"));
    }
}
