//! What a child process may change: the folders that it is given, and no network unless that was requested. What it may
//! read: all, or all but a folder.
//!
//! The kernel holds the child and all that it starts to that, root too (Landlock, Linux 5.13). What
//! Landlock does not see is in docs/security.md: modes and times of files, hard links inside a granted folder. UDP ends in a
//! network namespace of its own where one may be made.

#[cfg(target_os = "linux")]
pub mod bpf;
#[cfg(target_os = "linux")]
mod capabilities;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod network;
#[cfg(not(target_os = "linux"))]
mod nothing;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Serialize, Serializer};

use crate::base::variable;

#[cfg(target_os = "linux")]
pub use landlock::Confinement;
#[cfg(not(target_os = "linux"))]
pub use nothing::Confinement;

/// Set to `off`, nothing is confined. For systems on which it is in the way; what ran so says so in its record.
pub const SWITCH: &str = "ORCH_SANDBOX";

/// What a child is given. A Python server hands it to the process that it forks for a job, so it has a form in JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Grants {
    /// Files and folders that it may write to, with all below them.
    pub write: Vec<PathBuf>,
    pub tcp: Tcp,
    /// What it may not read. A Python server's jobs read everything.
    #[serde(skip)]
    pub hidden: Option<Hidden>,
}

/// A folder whose files a child does not read; names and sizes it sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hidden {
    /// Absolute, and without links.
    pub folder: PathBuf,
    /// Files and folders that it reads all the same, with all below them. Those that are not there are left out.
    pub shown: Vec<PathBuf>,
}

impl Hidden {
    /// What may be read: all that lies around the folder, and what is shown of it.
    ///
    /// Landlock grants and never denies, so everything beside the folder, and beside each folder around it, is named. A
    /// link is left out: what it leads to is named where it lies.
    #[cfg(target_os = "linux")]
    fn readable(&self) -> Vec<PathBuf> {
        let mut readable = self.shown.clone();
        for inner in self.folder.ancestors() {
            let beside = inner.parent().and_then(|outer| fs::read_dir(outer).ok());
            let beside = beside
                .into_iter()
                .flatten()
                .flatten()
                .filter(|entry| entry.path() != inner)
                .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
            readable.extend(beside.map(|entry| entry.path()));
        }
        readable
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tcp {
    #[default]
    Denied,
    /// Only connections to this port, of any host: the kernel knows no addresses here.
    Port(u16),
    Allowed,
}

impl Grants {
    /// These folders, and the devices that any program may use.
    pub fn folders<'a>(write: impl IntoIterator<Item = &'a Path>) -> Self {
        let own = write.into_iter().map(Path::to_owned);
        Self {
            write: own.chain(devices().iter().cloned()).collect(),
            ..Self::default()
        }
    }

    /// Whatever the user may: for a question to a driver, which keeps its caches where it likes.
    pub fn everything() -> Self {
        Self {
            write: vec!["/".into()],
            tcp: Tcp::Allowed,
            hidden: None,
        }
    }

    pub fn with_tcp(self, tcp: Tcp) -> Self {
        Self { tcp, ..self }
    }

    pub fn without(self, hidden: Option<Hidden>) -> Self {
        Self { hidden, ..self }
    }

    /// Whether nothing is kept from the child.
    fn is_everything(&self) -> bool {
        *self == Self::everything()
    }

    /// The seccomp program over the child's calls: none for a child from which nothing is kept.
    #[cfg(target_os = "linux")]
    fn filter(&self) -> Vec<libc::sock_filter> {
        if self.is_everything() {
            vec![]
        } else {
            filter::program(self.tcp == Tcp::Allowed)
        }
    }
}

/// Serialises the grants with the seccomp program as code, two jumps and a number for each instruction: Python installs
/// what Rust wrote.
impl Serialize for Grants {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[cfg(target_os = "linux")]
        let filter: Vec<[u32; 4]> = self
            .filter()
            .iter()
            .map(|line| [line.code.into(), line.jt.into(), line.jf.into(), line.k])
            .collect();
        #[cfg(not(target_os = "linux"))]
        let filter: Vec<[u32; 4]> = vec![];
        let mut fields = serializer.serialize_struct("Grants", 4)?;
        fields.serialize_field("write", &self.write)?;
        fields.serialize_field("tcp", &self.tcp)?;
        fields.serialize_field("filter", &filter)?;
        fields.serialize_field("everything", &self.is_everything())?;
        fields.end()
    }
}

/// What the kernel enforces here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Enforced {
    /// The version of Landlock that confines.
    Landlock(u32),
    Nothing(Why),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    SwitchedOff,
    NotInKernel,
}

impl Enforced {
    /// Queried from the kernel once.
    pub fn here() -> Self {
        static HERE: LazyLock<Enforced> = LazyLock::new(|| match variable::os(SWITCH) {
            Some(value) if value == "off" => Enforced::Nothing(Why::SwitchedOff),
            _ => Enforced::of_kernel(),
        });
        *HERE
    }

    /// What the kernel would enforce if nobody switched it off.
    pub fn of_kernel() -> Self {
        Confinement::version().map_or(Self::Nothing(Why::NotInKernel), Self::Landlock)
    }

    pub fn is_some(self) -> bool {
        matches!(self, Self::Landlock(_))
    }

    pub fn denies_tcp(self) -> bool {
        matches!(self, Self::Landlock(version) if version >= 4)
    }
}

impl std::fmt::Display for Enforced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Landlock(version @ ..4) => write!(f, "Landlock {version}: no writes elsewhere"),
            Self::Landlock(version) => write!(
                f,
                "Landlock {version}: no writes elsewhere, no TCP unless requested"
            ),
            Self::Nothing(Why::SwitchedOff) => write!(f, "nothing: {SWITCH} is off"),
            Self::Nothing(Why::NotInKernel) => f.write_str("nothing: this kernel has no Landlock"),
        }
    }
}

/// The lowest number of a descriptor that a child needs between fork and exec.
///
/// Descriptors that a child receives have low numbers, and are put there before it is confined: one of ours at such a
/// number would be replaced.
#[cfg(target_os = "linux")]
const LOWEST_DESCRIPTOR: std::os::fd::RawFd = 64;

/// Duplicates a descriptor to a number that no child receives one at.
#[cfg(target_os = "linux")]
fn out_of_the_way(fd: std::os::fd::BorrowedFd<'_>) -> std::io::Result<std::os::fd::OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, LOWEST_DESCRIPTOR)?)
}

/// Devices that a program may open for writing: those without a content, and accelerators.
fn devices() -> &'static [PathBuf] {
    // No terminal: what is written to the user's own may be commands to it.
    const USUAL: [&str; 7] = ["null", "zero", "full", "random", "urandom", "shm", "ptmx"];
    const ACCELERATORS: [&str; 9] = [
        "nvidia", "dri", "kfd", "accel", "fastrpc", "adsprpc", "dma_heap", "mali", "dxg",
    ];
    static FOUND: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
        let is_granted = |name: &str| {
            USUAL.contains(&name) || ACCELERATORS.iter().any(|kind| name.starts_with(kind))
        };
        let entries = fs::read_dir("/dev").into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.file_name().to_str().is_some_and(is_granted))
            .map(|entry| entry.path())
            .collect()
    });
    &FOUND
}
