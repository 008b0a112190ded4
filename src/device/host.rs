//! The host as probers see it: files under a root, environment variables, short tools.
//!
//! Everything a prober learns goes through a [`Host`], so that a recorded machine (`tests/fixtures/hosts`) can stand in
//! for one that nobody has at hand. The stand-in exists in tests only: no released orch can load one.
//! This file knows nothing of any backend.

#![expect(
    clippy::disallowed_methods,
    reason = "starts the tools that list devices"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::fs::{Access, access};

use super::pci::Pci;
use super::{Absent, Backend};
use crate::base::process;
use crate::base::variable;

/// What mends a C library that is too old.
const NEWER_LINUX: &str = "use a newer Linux, or a container of one";
/// Longest file that a prober reads; sysfs and procfs files are far shorter (a 256-core `cpuinfo` is 400 KB).
const LONGEST: u64 = 4 << 20;

/// Native libraries that orch has installed and that probers may ask; None means not installed yet.
#[derive(Debug, Clone, Default)]
pub struct Libraries {
    /// `libopenvino_c.so…`
    pub openvino: Option<PathBuf>,
    /// `libonnxruntime_providers_qnn.so`; the QNN libraries lie beside it.
    pub qnn: Option<PathBuf>,
    /// The folder of SwiftShader and its Vulkan loader.
    pub swiftshader: Option<PathBuf>,
    /// The browser that orch installed; ORCH_BROWSER goes before it.
    pub browser: Option<PathBuf>,
    /// The folder where answers of browsers are kept, because a browser takes more than a second to answer.
    pub answers: Option<PathBuf>,
}

/// What a short tool printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOutput {
    pub ok: bool,
    pub stdout: String,
}

impl ToolOutput {
    /// Runs a tool such as `chromium --version`; None when it cannot start, or says nothing in time.
    pub(super) fn of(program: &Path, args: &[&str]) -> Option<Self> {
        // Generous: the slowest tool (a cold browser printing its version) takes one to two seconds.
        const LIMIT: Duration = Duration::from_secs(10);
        let output = process::run_within(Command::new(program).args(args), LIMIT, true).ok()??;
        Some(Self {
            ok: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        })
    }
}

/// One machine.
pub struct Host {
    root: PathBuf,
    /// `linux`, `macos`, … as `std::env::consts::OS` says.
    pub os: String,
    /// `x86_64`, `aarch64`, … of this process, not of the silicon below an emulator.
    pub arch: String,
    /// Version of the GNU C library that this process runs on; None elsewhere.
    pub glibc: Option<String>,
    env: BTreeMap<String, String>,
    /// Recorded outputs by command line; None on the real host, where tools run.
    recorded: Option<BTreeMap<String, ToolOutput>>,
    /// The PCI bus, read once: three probers look at it.
    pci: OnceLock<Vec<Pci>>,
    /// macOS's `sysctl`, run once.
    sysctl: OnceLock<BTreeMap<String, String>>,
    pub libraries: Libraries,
}

impl Host {
    /// The machine this process runs on.
    pub fn real() -> Self {
        Self {
            root: PathBuf::from("/"),
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            glibc: glibc(),
            env: variable::all()
                .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
                .collect(),
            recorded: None,
            pci: OnceLock::new(),
            sysctl: OnceLock::new(),
            libraries: Libraries::default(),
        }
    }

    #[must_use]
    pub fn with_libraries(mut self, libraries: Libraries) -> Self {
        self.libraries = libraries;
        self
    }

    /// A variable of the environment; an empty value is a value.
    pub fn env(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str)
    }

    /// Why `what` does not run here, if the C library is older than this. Unknown (a musl build, macOS) is not too old: then
    /// nothing is claimed.
    pub(super) fn lacks_glibc(&self, what: &str, (major, minor): (u32, u32)) -> Option<String> {
        let glibc = self.glibc.as_deref()?;
        let (have_major, have_minor) = glibc.split_once('.')?;
        let have: (u32, u32) = (have_major.parse().ok()?, have_minor.parse().ok()?);
        (have < (major, minor))
            .then(|| format!("{what} needs glibc {major}.{minor} or newer, and this is {glibc}"))
    }

    /// No backend of this name, for want of a newer C library.
    pub(super) fn needs_glibc(
        &self,
        backend: &str,
        what: &str,
        least: (u32, u32),
    ) -> Result<(), Absent> {
        let absent = |reason| {
            Err(Backend::unavailable(backend, reason)
                .with_remedy(NEWER_LINUX)
                .into())
        };
        self.lacks_glibc(what, least).map_or(Ok(()), absent)
    }

    /// An absolute path of the host as a path of this process.
    pub fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A path of this process as the host names it.
    pub fn shown(&self, path: &Path) -> String {
        match path.strip_prefix(&self.root) {
            Ok(inside) => format!("/{}", inside.display()),
            Err(_) => path.display().to_string(),
        }
    }

    pub fn exists(&self, path: &str) -> bool {
        self.at(path).exists()
    }

    /// A file's text without the white space around it; None when it does not exist or cannot be read.
    pub fn text(&self, path: &str) -> Option<String> {
        let mut bytes = vec![];
        fs::File::open(self.at(path))
            .ok()?
            .take(LONGEST)
            .read_to_end(&mut bytes)
            .ok()?;
        Some(
            String::from_utf8_lossy(&bytes)
                .trim_matches(['\0', ' ', '\n', '\r', '\t'])
                .to_owned(),
        )
    }

    /// A file that holds a number and nothing else.
    pub fn number<N: FromStr>(&self, path: &str) -> Option<N> {
        self.text(path)?.parse().ok()
    }

    /// Names in a folder, sorted with numbers in their order (`card2` before `card10`); empty when there is no folder.
    pub fn list(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.at(path)) else {
            return vec![];
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort_by_key(|name| natural(name));
        names
    }

    /// Whether this process may read and write a device node. Opening it would do, but some drivers act on an open.
    pub fn may_use(&self, path: &str) -> bool {
        access(self.at(path), Access::READ_OK | Access::WRITE_OK).is_ok()
    }

    /// The GPUs and accelerators on the PCI bus, with or without a driver.
    pub(crate) fn pci(&self) -> &[Pci] {
        self.pci.get_or_init(|| super::pci::scan(self))
    }

    /// macOS's own account of the machine; the one tool that a cheap look runs, and on macOS only.
    pub(crate) fn sysctl(&self) -> &BTreeMap<String, String> {
        self.sysctl.get_or_init(|| super::mac::sysctl(self))
    }

    /// The paths at which a shared library may lie: the loader's own search first (real host only), then well-known
    /// folders.
    pub fn libraries_named(&self, soname: &str, folders: &[&str]) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = folders
            .iter()
            .map(|folder| self.at(folder).join(soname))
            .filter(|path| path.exists())
            .collect();
        if self.recorded.is_none() {
            found.insert(0, PathBuf::from(soname));
        }
        found
    }

    /// The first existing executable of these names, in PATH or at the given absolute places.
    pub fn which(&self, names: &[&str]) -> Option<PathBuf> {
        let path = self.env("PATH").unwrap_or_default();
        names.iter().find_map(|name| {
            if name.starts_with('/') {
                return Some(self.at(name)).filter(|p| is_executable(p));
            }
            let folders = path.split(':').filter(|dir| dir.starts_with('/'));
            folders
                .map(|dir| self.at(dir).join(name))
                .find(|p| is_executable(p))
        })
    }

    /// Runs a short tool; None when it cannot start, prints nothing in time or is not recorded.
    pub fn tool(&self, program: &Path, args: &[&str]) -> Option<ToolOutput> {
        match &self.recorded {
            Some(recorded) => {
                let line = std::iter::once(self.shown(program))
                    .chain(args.iter().map(|a| (*a).to_owned()));
                recorded.get(&line.collect::<Vec<_>>().join(" ")).cloned()
            }
            None => ToolOutput::of(program, args),
        }
    }

    /// A machine recorded under `tests/fixtures/hosts/<name>`: `host.json` and a tree `root/`.
    #[cfg(test)]
    pub(crate) fn recorded(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures/hosts")
            .join(name);
        let text =
            fs::read_to_string(folder.join("host.json")).expect("the fixture has a host.json");
        let doc: serde_json::Value = serde_json::from_str(&text).expect("host.json is JSON");
        let word = |key: &str| doc[key].as_str().map(str::to_owned);
        let strings = |key: &str| -> BTreeMap<String, String> {
            serde_json::from_value(doc[key].clone()).unwrap_or_default()
        };
        let tools = strings("tools")
            .into_iter()
            .map(|(k, stdout)| (k, ToolOutput { ok: true, stdout }))
            .collect();
        Self {
            root: folder.join("root"),
            os: word("os").expect("host.json names the os"),
            arch: word("arch").expect("host.json names the arch"),
            glibc: word("glibc"),
            env: strings("env"),
            recorded: Some(tools),
            ..Self::real()
        }
    }

    /// This machine with no files but these; the folder that stands for its root goes with the first.
    #[cfg(test)]
    pub(crate) fn bare(files: &[(&str, &str)]) -> (tempfile::TempDir, Self) {
        let root = tempfile::tempdir().unwrap();
        let host = Self::real().with_root(root.path().to_owned());
        files.iter().for_each(|(path, text)| host.put(path, text));
        (root, host)
    }

    #[cfg(test)]
    pub(crate) fn with_root(mut self, root: PathBuf) -> Self {
        self.root = root;
        self
    }

    /// Writes a file below the root.
    #[cfg(test)]
    pub(crate) fn put(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[cfg(test)]
    pub(crate) fn without_env(mut self, name: &str) -> Self {
        self.env.remove(name);
        self
    }

    #[cfg(test)]
    pub(crate) fn with_env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The value of a line that begins with `name` and this mark, as many files and tools have them.
pub(super) fn field<'t>(text: &'t str, name: &str, mark: char) -> Option<&'t str> {
    text.lines()
        .find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(mark))
        .map(str::trim)
}

/// Sort key that compares runs of digits as numbers.
fn natural(name: &str) -> Vec<(u64, char)> {
    let letters: Vec<char> = name.chars().collect();
    let runs = letters.chunk_by(|one, next| one.is_ascii_digit() && next.is_ascii_digit());
    let number = |run: &[char]| run.iter().collect::<String>().parse().unwrap_or(u64::MAX);
    runs.map(|run| {
        if run[0].is_ascii_digit() {
            (number(run), '0')
        } else {
            (0, run[0])
        }
    })
    .collect()
}

#[cfg(target_env = "gnu")]
fn glibc() -> Option<String> {
    // SAFETY: glibc hands out a static NUL-terminated string.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    Some(version.to_string_lossy().into_owned())
}

#[cfg(not(target_env = "gnu"))]
fn glibc() -> Option<String> {
    None
}
