//! Installs what steps require, on first need, into the cache: Python environments from locks, the tch worker.
//!
//! Everything is keyed by the content of its lock or sources, made once, and shared by later runs and other orch
//! processes. Which step needs what is `step`'s business.

mod amount;
mod browser;
mod duckdb;
mod env;
mod index;
mod installed;
mod libraries;
mod npm;
mod proof;
mod python;
mod releases;
mod relock;
mod torch_index;
mod torch_worker;
mod transformers_js;
mod used;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use anyhow::Context;

use crate::base::{Bug, Digest, fs as bfs, lock};
use crate::browser::{BINARY, ORT_WEB};
use crate::catalogue::browser::CHROMIUM;
use crate::catalogue::{Library, Requirement};
use crate::device::{Host, webgpu};
use crate::runtime::refusal::Refusal;
use crate::step::Required;
use crate::toolchain::{EnvName, Locks, Tool, Toolchain};
use crate::worker::{Cancel, Limits};

pub use amount::Missing;
pub use env::PythonEnv;
pub use index::reach_index;
pub use installed::Installed;
use npm::Packages;
use python::Package;
pub use python::{Interpreter, find_python, find_uv};
pub use relock::{Moved, write_lock};
pub use torch_index::FOR_CPUS;

/// The folder in which things are installed, and what is known of those who use them.
pub struct Provision {
    /// Folder of the environments; `cache/envs` unless ORCH_ENV_DIR says otherwise.
    dir: PathBuf,
    /// The user's own environment (ORCH_PYTHON), used for everything instead of ours.
    own: Option<Arc<OwnPython>>,
    /// The user's own browser (ORCH_BROWSER), opened instead of ours.
    own_browser: Option<Arc<OwnBrowser>>,
    /// What is installed, and named in keys, where there is no environment of the user's own.
    locks: Locks,
    /// The index from which a machine without an NVIDIA GPU takes PyTorch; None for the usual one.
    index_for_cpus: Option<String>,
    /// Environments that were found in place: a page asks for one in each of its reproducers.
    found: Mutex<BTreeMap<EnvName, PythonEnv>>,
    /// What is wrong with environments, of those that were looked at.
    damages: Mutex<BTreeMap<EnvName, Option<String>>>,
    /// The marks of what this process uses, by its folder: nobody removes it until the process ends.
    uses: Mutex<BTreeMap<PathBuf, Option<File>>>,
    /// The toolchain whose locks these are in part; the user's Python stands for none of its environments.
    toolchain: Option<Arc<Toolchain>>,
    /// The same folder with the locks of toolchains.
    others: Mutex<BTreeMap<Arc<Toolchain>, Arc<Provision>>>,
    cancel: Cancel,
}

/// A [`Provision`] with the locks that somebody needs.
pub enum Chosen<'a> {
    Own(&'a Provision),
    Other(Arc<Provision>),
}

impl Deref for Chosen<'_> {
    type Target = Provision;

    fn deref(&self) -> &Provision {
        match self {
            Self::Own(own) => own,
            Self::Other(other) => other,
        }
    }
}

struct OwnBrowser {
    program: PathBuf,
    /// Hashing it takes a moment, and most runs open none.
    identity: OnceLock<String>,
}

struct OwnPython {
    env: PythonEnv,
    /// Installed packages by normalised name.
    packages: BTreeMap<String, Package>,
}

impl Provision {
    /// `own_python` is the value of ORCH_PYTHON: its packages are listed once.
    pub fn new(dir: PathBuf, own_python: Option<PathBuf>, cancel: Cancel) -> anyhow::Result<Self> {
        let own = own_python.map(|path| OwnPython::query(&path)).transpose()?;
        let own = own.map(Arc::new);
        Ok(Self {
            dir,
            own,
            own_browser: None,
            locks: Locks::default(),
            index_for_cpus: None,
            found: Mutex::default(),
            damages: Mutex::default(),
            uses: Mutex::default(),
            toolchain: None,
            others: Mutex::default(),
            cancel,
        })
    }

    /// Takes the browser that ORCH_BROWSER names.
    pub fn opening(self, browser: Option<PathBuf>) -> Self {
        Self {
            own_browser: browser.map(|program| {
                Arc::new(OwnBrowser {
                    program,
                    identity: OnceLock::new(),
                })
            }),
            ..self
        }
    }

    /// Takes other locks than those in this binary.
    pub fn locked(self, locks: Locks) -> Self {
        Self { locks, ..self }
    }

    /// This folder with the locks of a toolchain in place of its own.
    pub fn with(&self, toolchain: Option<&Arc<Toolchain>>) -> Chosen<'_> {
        let Some(toolchain) = toolchain else {
            return Chosen::Own(self);
        };
        let mut others = lock(&self.others);
        let other = others.entry(toolchain.clone()).or_insert_with(|| {
            Arc::new(Self {
                dir: self.dir.clone(),
                own: self.own.clone(),
                own_browser: self.own_browser.clone(),
                locks: self.locks.overlaid(toolchain.locks()),
                index_for_cpus: self.index_for_cpus.clone(),
                found: Mutex::default(),
                damages: Mutex::default(),
                uses: Mutex::default(),
                toolchain: Some(toolchain.clone()),
                others: Mutex::default(),
                cancel: self.cancel.clone(),
            })
        });
        Chosen::Other(other.clone())
    }

    /// What stands in keys for a package: the lock's version and hashes, or those of the user's own environment.
    pub fn identity(&self, tool: Tool) -> String {
        if let (CHROMIUM, Some(own)) = (tool, &self.own_browser) {
            return own
                .identity
                .get_or_init(|| browser::identity(&own.program))
                .clone();
        }
        match self.own_for(tool.env) {
            None => self.locks.identity(tool),
            Some(own) => own
                .packages
                .get(tool.package)
                .map_or("absent".into(), |found| found.identity().to_owned()),
        }
    }

    /// The Python of the user's that stands for an environment.
    fn own_for(&self, name: EnvName) -> Option<&OwnPython> {
        let is_toolchains = self.toolchain.as_ref().is_some_and(|own| own.covers(name));
        let own = self.own.as_deref();
        own.filter(|_| name.is_python() && !is_toolchains)
    }

    /// Whether a Python of the user's stands for an environment.
    pub fn is_own(&self, name: EnvName) -> bool {
        self.own_for(name).is_some()
    }

    /// The digest of all that an environment's lock names.
    pub fn lock(&self, name: EnvName) -> Digest {
        self.locks.digest(name)
    }

    /// True if nothing needs to be installed for it.
    pub fn is_ready(&self, requirement: Requirement) -> bool {
        match requirement {
            Requirement::Env(name) => match Packages::of(name) {
                Some(_) => self.of_npm(name).is_some(),
                None => self.is_own(name) || env::ready(&self.home(name)).is_some(),
            },
            Requirement::TorchWorker => {
                torch_worker::ready(&self.dir, self.locks.text(EnvName::Torch)).is_some()
            }
            Requirement::Swiftshader => {
                has_gpu() || self.is_ready(Requirement::Env(EnvName::Browser))
            }
        }
    }

    /// What is wrong with an installed requirement, in words: it is not as it was installed. None of a sound one, of one that is
    /// not there, and of a Python of the user's. Looks once.
    pub fn damage(&self, requirement: Requirement) -> Option<String> {
        let name = match requirement {
            Requirement::Env(name) => name,
            Requirement::TorchWorker => EnvName::Torch,
            Requirement::Swiftshader => EnvName::Browser,
        };
        if self.is_own(name) || !self.is_ready(Requirement::Env(name)) {
            return None;
        }
        let mut known = lock(&self.damages);
        let found = known.entry(name).or_insert_with(|| {
            let home = self.home(name);
            let python = match Packages::of(name) {
                Some(_) => None,
                None => env::ready(&home),
            };
            proof::damage(&home, python.as_ref())
        });
        found.clone()
    }

    /// All environments that are damaged: what each is, and what is wrong with it.
    pub fn damages(&self) -> Vec<(String, String)> {
        let all = EnvName::ALL.iter().map(|name| Requirement::Env(*name));
        all.filter_map(|requirement| Some((title(requirement), self.damage(requirement)?)))
            .collect()
    }

    /// Installs what is damaged anew; like [`Self::ensure`] for all else.
    pub fn repair(&self, requirement: Requirement, progress: &dyn Fn(&str)) -> anyhow::Result<()> {
        if let (Requirement::Env(name), Some(_)) = (requirement, self.damage(requirement)) {
            let home = self.home(name);
            env::forget(&home)?;
            if Packages::of(name).is_some() {
                bfs::remove_dir(&home)
                    .with_context(|| format!("failed to remove `{}`", home.display()))?;
            }
            lock(&self.damages).remove(&name);
            lock(&self.found).remove(&name);
        }
        self.ensure(requirement, progress)
    }

    /// Installs a requirement if it is not there. May take minutes; `progress` gets a line now and then.
    pub fn ensure(&self, requirement: Requirement, progress: &dyn Fn(&str)) -> anyhow::Result<()> {
        match requirement {
            Requirement::Env(name) if self.is_own(name) => Ok(()),
            Requirement::Env(name) => {
                let install = self.install(progress);
                if let Some(packages) = Packages::of(name) {
                    return npm::ensure(&install, packages).map(drop);
                }
                let uv = (name != EnvName::Uv && !self.is_ready(requirement))
                    .then(|| env::uv(&install))
                    .flatten();
                env::ensure(&install, name, uv.as_deref()).map(drop)
            }
            Requirement::TorchWorker if self.is_ready(requirement) => Ok(()),
            Requirement::TorchWorker => {
                self.ensure(Requirement::Env(EnvName::Torch), progress)?;
                torch_worker::install(&self.install(progress), &self.env(EnvName::Torch)?).map(drop)
            }
            Requirement::Swiftshader if has_gpu() => Ok(()),
            Requirement::Swiftshader if browser::HAS_CHROMIUM => {
                self.ensure(Requirement::Env(EnvName::Browser), progress)
            }
            Requirement::Swiftshader => anyhow::bail!(
                "there is no package of SwiftShader for this system\nhint: install the Vulkan driver of its GPU"
            ),
        }
    }

    fn install<'a>(&'a self, progress: &'a dyn Fn(&str)) -> Install<'a> {
        Install { at: self, progress }
    }

    /// Notes that something installed is used from now on, so that nobody removes it.
    pub fn note_use(&self, requirement: Requirement) {
        let homes = match requirement {
            Requirement::Env(name) if self.is_own(name) => vec![],
            Requirement::Env(name) => vec![self.home(name)],
            Requirement::TorchWorker => self.torch_homes().into(),
            Requirement::Swiftshader => vec![self.home(EnvName::Browser)],
        };
        homes.iter().for_each(|home| self.note_use_of(home));
    }

    fn note_use_of(&self, home: &Path) {
        let mut uses = lock(&self.uses);
        if !uses.contains_key(home) && home.is_dir() {
            uses.insert(home.to_owned(), used::note(home));
        }
    }

    /// The folder of the tch worker, and that of its links.
    fn torch_homes(&self) -> [PathBuf; 2] {
        let lock = self.locks.text(EnvName::Torch);
        [
            torch_worker::home(&self.dir, lock),
            torch_worker::links(&self.dir, lock),
        ]
    }

    /// The folder of an environment.
    fn home(&self, name: EnvName) -> PathBuf {
        self.dir
            .join(format!("{name}-{}", self.locks.digest(name).short()))
    }

    pub fn env(&self, name: EnvName) -> anyhow::Result<PythonEnv> {
        if let Some(own) = self.own_for(name) {
            return Ok(own.env.clone());
        }
        let mut found = lock(&self.found);
        if let Some(env) = found.get(&name) {
            return Ok(env.clone());
        }
        self.note_use(Requirement::Env(name));
        let env = env::ready(&self.home(name)).with_context(|| {
            Bug::new(format!(
                "the environment `{name}` is used before it is there"
            ))
        })?;
        found.insert(name, env.clone());
        Ok(env)
    }

    /// Has Python compile the modules that servers of an environment import, which installers leave to the first who imports
    /// them: the first step, and every step where the environment may not be written to. Takes seconds, and can be done
    /// beside another installation. Nothing for what is no Python.
    pub fn compile(&self, requirement: Requirement) -> anyhow::Result<()> {
        match requirement {
            Requirement::Env(name) if name.is_python() && !self.is_own(name) => {
                env::compile(&self.install(&|_| {}), name)
            }
            _ => Ok(()),
        }
    }

    /// Texts that change when an environment, or the Python package of orch, is installed anew. None of a Python of the user's,
    /// whose packages change without that.
    pub fn installations(&self, name: EnvName) -> Option<Vec<String>> {
        if self.is_own(name) {
            return None;
        }
        let marker = self.home(name).join(env::MARKER);
        let package = self.python_package().ok()?;
        [marker, package]
            .iter()
            .map(|path| bfs::installation(path).ok())
            .collect()
    }

    /// DuckDB's library: the one that ORCH_DUCKDB names, or an installed one, which is installed if it is not there.
    pub fn duckdb(&self, progress: &dyn Fn(&str)) -> anyhow::Result<PathBuf> {
        npm::ensure(&self.install(progress), &duckdb::PACKAGES)
    }

    /// The interpreter of an environment, if it is installed; to look at, and not to use.
    pub fn interpreter(&self, name: EnvName) -> Option<PathBuf> {
        match self.own_for(name) {
            Some(own) => Some(own.env.python.clone()),
            None => Some(env::ready(&self.home(name))?.python),
        }
    }

    pub fn torch_worker(&self) -> anyhow::Result<PathBuf> {
        self.note_use(Requirement::TorchWorker);
        torch_worker::ready(&self.dir, self.locks.text(EnvName::Torch))
            .context(Bug::new("the tch worker is used before it is there"))
    }

    /// Copies the tch worker into a folder, under the name by which an orch that lies there finds it.
    pub fn ship_torch_worker(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let to = folder.join(torch_worker::shipped_name());
        std::fs::create_dir_all(folder)
            .with_context(|| format!("failed to create `{}`", folder.display()))?;
        bfs::copy_file(&self.torch_worker()?, &to)
            .with_context(|| format!("failed to write `{}`", to.display()))?;
        Ok(to)
    }

    /// The folder that holds `orch_py`, written out from the binary if need be.
    pub fn python_package(&self) -> anyhow::Result<PathBuf> {
        let package = python::package_dir(&self.dir)?;
        self.note_use_of(&package);
        Ok(package)
    }

    pub fn library(&self, library: Library) -> anyhow::Result<PathBuf> {
        match library {
            Library::Adb => libraries::adb(),
            Library::Interpreter(env) => Ok(self.env(env)?.python),
            Library::QnnSdk => libraries::qnn_sdk(),
            Library::Browser => self.browser(),
            Library::OrtWeb => {
                let home = self.of_npm(EnvName::Browser);
                Ok(home
                    .context(Bug::new(
                        "the environment `browser` is used before it is there",
                    ))?
                    .join(ORT_WEB))
            }
            Library::TransformersJs => {
                let packages = self.of_npm(EnvName::TransformersJs);
                packages.context(Bug::new(
                    "the environment `transformers-js` is used before it is there",
                ))
            }
            // Not there where a GPU has a driver of its own: who uses it looks.
            Library::Swiftshader => Ok(browser::swiftshader(&self.home(EnvName::Browser))),
            Library::Wheel(wheel) => {
                let found = libraries::find(&self.env(wheel.env)?.site, wheel);
                // What orch installs itself is whole.
                match self.own_for(wheel.env) {
                    Some(own) => found.map_err(|e| own.lacks(wheel.package, &e)),
                    None => found,
                }
            }
        }
    }

    /// Variables with which a program that orch does not start finds a requirement: `NAME=value`.
    pub fn variables(&self, requirement: Requirement) -> Vec<String> {
        match requirement {
            Requirement::Swiftshader => {
                let home = self.of_npm(EnvName::Browser).filter(|_| !has_gpu());
                home.map(|home| browser::in_software(&browser::swiftshader(&home)))
                    .unwrap_or_default()
            }
            Requirement::Env(EnvName::Browser) => {
                match (self.browser(), self.of_npm(EnvName::Browser)) {
                    (Ok(program), Some(home)) => browser::in_page(&program, &home),
                    _ => vec![],
                }
            }
            Requirement::Env(EnvName::TransformersJs) => {
                let packages = self.of_npm(EnvName::TransformersJs).into_iter();
                packages
                    .map(|packages| format!("ORCH_TRANSFORMERS_JS={}", packages.display()))
                    .collect()
            }
            Requirement::Env(_) | Requirement::TorchWorker => vec![],
        }
    }

    /// The browser that pages are opened with: ORCH_BROWSER's, or the installed one.
    pub fn browser(&self) -> anyhow::Result<PathBuf> {
        match (&self.own_browser, self.of_npm(EnvName::Browser)) {
            (Some(own), _) => Ok(own.program.clone()),
            (None, Some(home)) if browser::HAS_CHROMIUM => Ok(home.join(BINARY)),
            (None, Some(_)) => anyhow::bail!(
                "orch has no browser for this system\nhint: set ORCH_BROWSER to a Chrome or Chromium of 2026 or newer"
            ),
            (None, None) => {
                anyhow::bail!(Bug::new(
                    "the environment `browser` is used before it is there"
                ))
            }
        }
    }

    /// What is used of an environment of npm, if it is there.
    fn of_npm(&self, name: EnvName) -> Option<PathBuf> {
        (Packages::of(name)?.find)(&self.home(name))
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl OwnPython {
    fn query(path: &Path) -> anyhow::Result<Self> {
        let interpreter = Interpreter::query(path)
            .with_context(|| format!("failed to use ORCH_PYTHON={}", path.display()))?;
        let env = PythonEnv {
            python: interpreter.path.clone(),
            site: interpreter.site.clone(),
        };
        Ok(Self {
            packages: python::installed(&interpreter.site)?,
            env,
        })
    }

    fn lacks(&self, package: &str, error: &anyhow::Error) -> anyhow::Error {
        let python = self.env.python.display();
        Refusal::unavailable(format!(
            "the Python of ORCH_PYTHON has no {package} ({error:#}); hint: `{python} -m pip install {package}`, or run without \
             ORCH_PYTHON: orch then installs its own"
        ))
    }
}

/// Whether WebGPU finds a GPU here, and needs no driver in software.
fn has_gpu() -> bool {
    webgpu::has_gpu(&Host::real())
}

/// Names of requirements, for people.
pub fn title(requirement: Requirement) -> String {
    match requirement {
        Requirement::Env(name) => match Packages::of(name) {
            Some(packages) => packages.title.into(),
            None => format!("python environment `{name}`"),
        },
        Requirement::TorchWorker => "tch worker `orch-torch`".into(),
        Requirement::Swiftshader => {
            "Vulkan driver in software, SwiftShader (of the browser)".into()
        }
    }
}

/// [`title`] of what is required, with its toolchain.
pub fn titled(required: &Required) -> String {
    let what = title(required.requirement);
    match &required.toolchain {
        Some(toolchain) => format!("{what} of the toolchain `{}`", toolchain.name()),
        None => what,
    }
}

/// An installation, and who hears of it.
struct Install<'a> {
    at: &'a Provision,
    progress: &'a dyn Fn(&str),
}

impl Install<'_> {
    /// Runs an installer to its end, reporting the last line of its log as it goes.
    fn run(&self, command: &mut Command, log: &Path) -> anyhow::Result<()> {
        self.run_counted(command, log, &|_| {})
    }

    /// The same of what fetches and unpacks an environment: also how much of it is there.
    fn fetch(&self, name: EnvName, command: &mut Command, log: &Path) -> anyhow::Result<()> {
        let total = name
            .megabytes()
            .filter(|_| !self.at.locks.is_users(name))
            .map(|size| size * 1_000_000);
        let reported = Cell::new(0);
        self.run_counted(command, log, &|written| {
            if written >= reported.get() + total.unwrap_or(5_000_000_000) / 20 {
                reported.set(written);
                (self.progress)(&amount::of(written, total));
            }
        })
    }

    fn run_counted(
        &self,
        command: &mut Command,
        log: &Path,
        written: &dyn Fn(u64),
    ) -> anyhow::Result<()> {
        let shown = format!("{command:?}").replace('"', "");
        let timeout = Duration::from_secs(3600);
        let cancel = &self.at.cancel;
        let progress = self.progress;
        let limits = Limits {
            timeout,
            memory: None,
            cancel,
            log,
            progress,
        };
        crate::worker::run_logged(command, &limits, written).with_context(|| {
            format!(
                "`{shown}` failed; its last words:\n{}\nfull log: {}",
                crate::worker::tail(log, 12),
                log.display()
            )
        })
    }
}
