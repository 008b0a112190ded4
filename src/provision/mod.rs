//! Installs what steps require, on first need, into the cache: Python environments from locks, the tch worker.
//!
//! Everything is keyed by the content of its lock or sources, made once, and shared by later runs and other orch
//! processes. Which step needs what is `step`'s business.

mod env;
mod installed;
mod libraries;
mod python;
mod torch_worker;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::step::{Library, Requirement};
use crate::toolchain::{EnvName, Locks, Tool};
use crate::worker::{Cancel, Limits};

pub use env::PythonEnv;
pub use installed::Installed;
use python::Package;
pub use python::{Interpreter, find_python, find_uv};

/// Where things are installed and who uses them.
pub struct Provision {
    /// Folder of the environments; `cache/envs` unless ORCH_ENV_DIR says otherwise.
    dir: PathBuf,
    /// The user's own environment (ORCH_PYTHON), used for everything instead of ours.
    own: Option<OwnPython>,
    /// What is installed, and named in keys, where there is no environment of the user's own.
    locks: Locks,
    cancel: Cancel,
}

struct OwnPython {
    env: PythonEnv,
    /// Installed packages by normalised name.
    packages: BTreeMap<String, Package>,
}

impl Provision {
    /// `own_python` is the value of ORCH_PYTHON: asked once for its packages.
    pub fn new(dir: PathBuf, own_python: Option<PathBuf>, cancel: Cancel) -> anyhow::Result<Self> {
        let own = own_python.map(|path| OwnPython::ask(&path)).transpose()?;
        Ok(Self { dir, own, locks: Locks::default(), cancel })
    }

    /// With other locks than those in this binary.
    pub fn locked(self, locks: Locks) -> Self {
        Self { locks, ..self }
    }

    /// What stands in keys for a package: the lock's version and hashes, or those of the user's own environment.
    pub fn identity(&self, tool: Tool) -> String {
        match &self.own {
            None => self.locks.identity(tool),
            Some(own) => own.packages.get(tool.package).map_or("absent".into(), |found| found.identity().to_owned()),
        }
    }

    /// True if nothing needs to be installed for it.
    pub fn is_ready(&self, requirement: Requirement) -> bool {
        match requirement {
            Requirement::Env(name) => {
                self.own.is_some() || env::ready(&self.dir, name, self.locks.text(name)).is_some()
            }
            Requirement::TorchWorker => torch_worker::ready(&self.dir, self.locks.text(EnvName::Torch)).is_some(),
        }
    }

    /// Installs a requirement if it is not there. May take minutes; `progress` gets a line now and then.
    pub fn ensure(&self, requirement: Requirement, progress: &dyn Fn(&str)) -> anyhow::Result<()> {
        match requirement {
            Requirement::Env(_) if self.own.is_some() => Ok(()),
            Requirement::Env(name) => {
                env::ensure(&self.dir, name, self.locks.text(name), &self.cancel, progress).map(drop)
            }
            Requirement::TorchWorker => {
                if torch_worker::ready(&self.dir, self.locks.text(EnvName::Torch)).is_some() {
                    return Ok(());
                }
                self.ensure(Requirement::Env(EnvName::Torch), progress)?;
                let (lock, env) = (self.locks.text(EnvName::Torch), self.env(EnvName::Torch)?);
                torch_worker::build(&self.dir, lock, &env, &self.cancel, progress).map(drop)
            }
        }
    }

    pub fn env(&self, name: EnvName) -> anyhow::Result<PythonEnv> {
        match &self.own {
            Some(own) => Ok(own.env.clone()),
            None => env::ready(&self.dir, name, self.locks.text(name))
                .with_context(|| format!("BUG: the environment `{name}` is used before it is there")),
        }
    }

    pub fn torch_worker(&self) -> anyhow::Result<PathBuf> {
        torch_worker::ready(&self.dir, self.locks.text(EnvName::Torch))
            .context("BUG: the tch worker is used before it is there")
    }

    /// The folder that holds `orch_py`, written out from the binary if need be.
    pub fn python_package(&self) -> anyhow::Result<PathBuf> {
        python::package_dir(&self.dir)
    }

    pub fn library(&self, library: Library) -> anyhow::Result<PathBuf> {
        let (env, place) = libraries::place(library);
        libraries::find(&self.env(env)?.site, place)
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl OwnPython {
    fn ask(path: &Path) -> anyhow::Result<Self> {
        let interpreter =
            Interpreter::ask(path).with_context(|| format!("failed to use ORCH_PYTHON={}", path.display()))?;
        let env = PythonEnv { python: interpreter.path.clone(), site: interpreter.site.clone() };
        Ok(Self { packages: python::installed(&interpreter.site)?, env })
    }
}

/// Names of requirements, for people.
pub fn title(requirement: Requirement) -> String {
    match requirement {
        Requirement::Env(name) => format!("python environment `{name}`"),
        Requirement::TorchWorker => "tch worker `orch-torch`".into(),
    }
}

/// Runs an installer to its end, reporting the last line of its log as it goes.
fn run_installer(
    command: &mut std::process::Command,
    log: &Path,
    cancel: &Cancel,
    progress: &dyn Fn(&str),
) -> anyhow::Result<()> {
    let shown = format!("{command:?}").replace('"', "");
    let limits = Limits { timeout: std::time::Duration::from_secs(3600), memory: None, cancel, log, progress };
    crate::worker::run_logged(command, &limits).with_context(|| {
        format!("`{shown}` failed; its last words:\n{}\nfull log: {}", crate::worker::tail(log, 12), log.display())
    })
}
