//! The toolchains of a spec: locks that stand in the place of this orch's for the columns that name them.

use std::cmp::Ordering;

use crate::base::Digest;
use crate::toolchain::{EnvName, Locks, entries};

/// Locks under a name. Two toolchains are equal when their names and locks are.
#[derive(Debug, Clone)]
pub struct Toolchain {
    name: String,
    locks: Locks,
    digest: Digest,
    /// Whether its own environments convert what its runs load.
    converts: bool,
}

impl Toolchain {
    /// `locks` are this binary's but for those that the toolchain replaces.
    pub fn new(name: String, locks: Locks, converts: bool) -> Self {
        let of = |env: EnvName| format!("{env} {}\n", locks.digest(env));
        let text: String = locks.users().map(of).collect();
        Self {
            digest: Digest::of(format!("{name}\n{converts}\n{text}").as_bytes()),
            name,
            locks,
            converts,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn locks(&self) -> &Locks {
        &self.locks
    }

    /// Whether it has a lock of this environment.
    pub fn covers(&self, env: EnvName) -> bool {
        self.locks.is_users(env)
    }

    /// Whether its own environments convert what its runs load; else this orch's do.
    pub fn converts(&self) -> bool {
        self.converts
    }
}

impl PartialEq for Toolchain {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Toolchain {}

impl PartialOrd for Toolchain {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Toolchain {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |one: &Self| (one.name.clone(), one.digest.to_string());
        key(self).cmp(&key(other))
    }
}

impl EnvName {
    /// What a Python environment was locked from, as pip takes it; None of others.
    pub fn wanted(self) -> Option<&'static str> {
        macro_rules! requirements {
            ($name:literal) => {
                Some(include_str!(concat!("../../python/requirements/", $name)))
            };
        }
        match self {
            Self::Ort => requirements!("ort.in"),
            Self::Qnn => requirements!("qnn.in"),
            Self::Webgpu => requirements!("webgpu.in"),
            Self::Cuda => requirements!("cuda.in"),
            Self::Rocm => requirements!("rocm.in"),
            Self::Openvino => requirements!("openvino.in"),
            Self::Nncf => requirements!("nncf.in"),
            Self::Torch => requirements!("torch.in"),
            Self::Litert => requirements!("litert.in"),
            Self::Tract => requirements!("tract.in"),
            Self::Browser | Self::Node | Self::Uv | Self::TransformersJs | Self::Duckdb => None,
        }
    }

    /// The names of the packages that it was locked for, the one that it is about first; none of an environment of npm.
    pub fn direct_packages(self) -> impl Iterator<Item = &'static str> {
        let lines = self.wanted().unwrap_or_default().lines();
        let lines = lines.filter(|line| !line.starts_with('#') && !line.is_empty());
        lines.map(package_of)
    }
}

/// The package of a line of requirements.
pub fn package_of(line: &str) -> &str {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let end = line.find(|c: char| !is_part(c)).unwrap_or(line.len());
    &line[..end]
}

/// The release of a package in a lock; those for several systems by ` | `. None if the lock does not name it.
pub fn locked_release(lock: &str, package: &str) -> Option<String> {
    let mut releases: Vec<&str> = Vec::new();
    for (name, entry) in entries(lock).filter(|(name, _)| *name == package) {
        let release = entry[name.len()..].trim_start().strip_prefix("==")?;
        releases.extend(release.split_whitespace().next());
    }
    (!releases.is_empty()).then(|| releases.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_environment_of_python_names_what_it_is_about() {
        for env in EnvName::ALL {
            assert_eq!(env.is_python(), env.wanted().is_some(), "{env}");
            for package in env.direct_packages() {
                assert!(
                    locked_release(env.lock(), package).is_some(),
                    "{env}: {package}"
                );
            }
        }
        assert_eq!(EnvName::Ort.direct_packages().next(), Some("onnxruntime"));
        assert_eq!(
            package_of("onnxruntime-gpu[cuda]==1.31.1"),
            "onnxruntime-gpu"
        );
    }

    #[test]
    fn toolchains_differ_by_their_locks() {
        let lock = |version: &str| Locks::default().with(EnvName::Ort, format!("x=={version}\n"));
        let one = Toolchain::new("a".into(), lock("1"), true);
        assert_eq!(one, Toolchain::new("a".into(), lock("1"), true));
        assert_ne!(one, Toolchain::new("a".into(), lock("2"), true));
        assert_ne!(one, Toolchain::new("b".into(), lock("1"), true));
        assert_ne!(one, Toolchain::new("a".into(), lock("1"), false));
        assert!(one.covers(EnvName::Ort) && !one.covers(EnvName::Torch));
        let own = Locks::default();
        let laid = own.overlaid(one.locks());
        assert_eq!(laid.text(EnvName::Ort), "x==1\n");
        assert_eq!(laid.text(EnvName::Torch), own.text(EnvName::Torch));
    }
}
