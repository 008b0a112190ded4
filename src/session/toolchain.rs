//! Toolchains of a spec: a new one, by a lock that uv makes; and those that there are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::base::suggest;
use crate::catalogue::Requirement;
use crate::provision::{Moved, write_lock};
use crate::session::{Session, Tell, spec, usage};
use crate::toolchain::{EnvName, Locks, Toolchain, locked_release};

/// A package, and the release that is wanted of it; None for the newest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    pub package: String,
    pub release: Option<String>,
}

/// A toolchain that was made.
#[derive(Debug, Serialize)]
pub struct Added {
    pub name: String,
    pub locks: Vec<AddedLock>,
}

#[derive(Debug, Serialize)]
pub struct AddedLock {
    pub env: String,
    pub path: PathBuf,
    /// The packages whose releases differ from orch's own lock.
    pub moved: Vec<Moved>,
}

/// A toolchain of a spec.
#[derive(Debug, Serialize)]
pub struct Listed {
    pub name: String,
    /// Whether its own environments convert what its runs load.
    pub converts: bool,
    pub locks: Vec<ListedLock>,
    /// The columns that run with it.
    pub targets: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct ListedLock {
    pub env: String,
    pub is_installed: bool,
    /// The packages that the environment is for, with their releases.
    pub packages: BTreeMap<String, String>,
    /// Those of orch's own lock that differ.
    pub own: BTreeMap<String, String>,
}

impl Wish {
    /// Reads `onnxruntime==1.24.4`, or `onnxruntime`.
    pub fn read(text: &str) -> Result<Self, String> {
        let (package, release) = match text.split_once("==") {
            Some((package, release)) => (package, Some(release)),
            None => (text, None),
        };
        let is_good = |word: &str| {
            let good = |c: char| c.is_ascii_alphanumeric() || "-_.+!".contains(c);
            word.starts_with(|c: char| c.is_ascii_alphanumeric()) && word.chars().all(good)
        };
        if !is_good(package) || !release.is_none_or(is_good) {
            return Err(format!("`{text}` is not PACKAGE or PACKAGE==VERSION"));
        }
        Ok(Self {
            package: package.to_owned(),
            release: release.map(str::to_owned),
        })
    }

    /// The environments of these names; without any, the first that was locked for the package.
    pub(super) fn environments(&self, named: &[String]) -> anyhow::Result<Vec<EnvName>> {
        let python = || EnvName::ALL.into_iter().filter(|env| env.is_python());
        if named.is_empty() {
            let has = |env: &EnvName| env.direct_packages().any(|known| known == self.package);
            let Some(env) = python().find(has) else {
                let known: Vec<_> = python().flat_map(EnvName::direct_packages).collect();
                let hint = suggest::hint(&self.package, known);
                usage!(
                    "no environment is for `{}`\n  hint: {hint}; or name the environment with --env",
                    self.package
                );
            };
            return Ok(vec![env]);
        }
        let mut envs = Vec::new();
        for name in named {
            let Some(env) = EnvName::named(name).filter(|env| env.is_python()) else {
                let hint = suggest::hint(name, python().map(EnvName::name));
                usage!("no locked environment is called `{name}`\n  hint: {hint}");
            };
            envs.push(env);
        }
        Ok(envs)
    }
}

impl Session {
    /// Makes the locks of a new toolchain in `folder/NAME`, or with another release of a package than before. Without a name
    /// it is called by the first environment and the release.
    pub fn add_toolchain(
        &self,
        wish: &Wish,
        name: Option<&str>,
        envs: &[String],
        folder: &Path,
        tell: Tell<'_>,
    ) -> anyhow::Result<Added> {
        let envs = wish.environments(envs)?;
        let pin = (wish.package.as_str(), wish.release.as_deref());
        let mut made = Vec::new();
        for env in envs {
            made.push((env, self.provision.relock(env, pin, tell)?));
        }
        let name = match name {
            Some(name) => name.to_owned(),
            None => {
                let (env, first) = &made[0];
                let release = locked_release(&first.text, &wish.package).unwrap_or_default();
                let short: Vec<&str> = release.split('.').take(2).collect();
                format!("{env}-{}", short.join("."))
            }
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.chars().all(is_plain) {
            usage!(
                "`{name}` cannot be the name of a toolchain\n  hint: use letters, digits, `.`, `_` and `-`"
            );
        }
        // All or none: a toolchain of half its locks would convert with one release and run with another.
        let mut locks = Vec::new();
        for (env, relocked) in made {
            let path = folder.join(&name).join(format!("{env}.txt"));
            write_lock(&path, &relocked.text)?;
            locks.push(AddedLock {
                env: env.to_string(),
                path,
                moved: relocked.moved,
            });
        }
        Ok(Added { name, locks })
    }

    /// The toolchains of a spec.
    pub fn toolchains(&self, path: &Path) -> anyhow::Result<Vec<Listed>> {
        let spec = spec(path)?;
        let own = Locks::default();
        let listed = spec.toolchains.values().map(|toolchain| {
            let provision = self.provision.with(Some(toolchain));
            let locks = toolchain.locks().users().map(|env| {
                let is_installed = provision.is_ready(Requirement::Env(env));
                ListedLock::of(env, toolchain.locks(), &own, is_installed)
            });
            let runs = |other: &&Toolchain| other.name() == toolchain.name();
            let columns = spec.targets.values().filter(|target| {
                let with = target.toolchain.as_deref();
                with.filter(runs).is_some()
            });
            Listed {
                name: toolchain.name().to_owned(),
                converts: toolchain.converts(),
                locks: locks.collect(),
                targets: columns.map(|target| target.name.clone()).collect(),
            }
        });
        Ok(listed.collect())
    }
}

impl ListedLock {
    fn of(env: EnvName, locks: &Locks, own: &Locks, is_installed: bool) -> Self {
        let mut packages = BTreeMap::new();
        let mut others = BTreeMap::new();
        for package in env.direct_packages() {
            let here = locked_release(locks.text(env), package);
            let there = locked_release(own.text(env), package);
            if let Some(there) = there.filter(|there| Some(there) != here.as_ref()) {
                others.insert(package.to_owned(), there);
            }
            if let Some(here) = here {
                packages.insert(package.to_owned(), here);
            }
        }
        Self {
            env: env.to_string(),
            is_installed,
            packages,
            own: others,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_read_and_find_their_environment() {
        let wish = Wish::read("onnxruntime==1.24.4").unwrap();
        assert_eq!(wish.release.as_deref(), Some("1.24.4"));
        assert_eq!(wish.environments(&[]).unwrap(), [EnvName::Ort]);
        let both = ["openvino".to_owned(), "nncf".to_owned()];
        let openvino = Wish::read("openvino").unwrap();
        assert_eq!(openvino.environments(&[]).unwrap(), [EnvName::Openvino]);
        assert_eq!(openvino.environments(&both).unwrap().len(), 2);
        for bad in ["", "a==", "a b", "--index-url=x", "a==1;x"] {
            assert!(Wish::read(bad).is_err(), "{bad}");
        }
        let unknown = Wish::read("onnxruntim").unwrap().environments(&[]);
        assert!(unknown.unwrap_err().to_string().contains("onnxruntime"));
    }
}
