//! Python environments from locks: by uv, which is installed by venv and pip where the machine has none.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::base::fs as bfs;
use crate::provision::{Install, find_python, find_uv, proof};
use crate::toolchain::EnvName;
use crate::worker;

/// An environment that is there.
#[derive(Debug, Clone)]
pub struct PythonEnv {
    pub python: PathBuf,
    /// Its site-packages folder.
    pub site: PathBuf,
}

/// Written last, so that its presence says that everything before it was done. Paths are relative to the environment.
#[derive(Serialize, Deserialize)]
struct Marker {
    python: PathBuf,
    site: PathBuf,
    python_version: String,
    installer: String,
}

pub(super) const MARKER: &str = "orch-env.json";

/// The environment, if it is installed.
pub(super) fn ready(home: &Path) -> Option<PythonEnv> {
    let marker: Marker = serde_json::from_slice(&std::fs::read(home.join(MARKER)).ok()?).ok()?;
    let python = home.join(marker.python);
    // An interpreter is a link to one of the machine's, which another image may lack.
    python.exists().then(|| PythonEnv {
        python,
        site: home.join(marker.site),
    })
}

/// Makes an environment be installed anew when it is wanted next.
pub(super) fn forget(home: &Path) -> anyhow::Result<()> {
    // Without the marker, the lock says that the folder is orch's.
    let lock_path = home.with_extension("lock");
    File::options()
        .create(true)
        .append(true)
        .open(&lock_path)
        .with_context(|| format!("failed to create `{}`", lock_path.display()))?;
    let marker = home.join(MARKER);
    bfs::remove_file(&marker).with_context(|| format!("failed to remove `{}`", marker.display()))
}

/// `uv`: None where it is to be done by pip.
pub(super) fn ensure(
    install: &Install<'_>,
    name: EnvName,
    uv: Option<&Path>,
) -> anyhow::Result<PythonEnv> {
    let home = install.at.home(name);
    once(
        install,
        &home,
        || ready(&home),
        || make(install, name, &home, uv),
    )
}

/// What is found, or what is made in `home` while no other orch does so.
pub(super) fn once<T>(
    install: &Install<'_>,
    home: &Path,
    find: impl Fn() -> Option<T>,
    make: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    install.at.note_use_of(home);
    if let Some(found) = find() {
        return Ok(found);
    }
    let _guard = alone(install, home)?;
    let made = find().map_or_else(make, Ok)?;
    install.at.note_use_of(home);
    Ok(made)
}

/// Waits until no other orch installs what is to lie in `home`; none does while what this gives lives.
fn alone(install: &Install<'_>, home: &Path) -> anyhow::Result<File> {
    let dir = &install.at.dir;
    std::fs::create_dir_all(dir)
        .with_context(|| format!("failed to create `{}`", dir.display()))?;
    let lock_path = home.with_extension("lock");
    refuse_foreign(home, &lock_path)?;
    let guard = File::create(&lock_path)
        .with_context(|| format!("failed to create `{}`", lock_path.display()))?;
    if guard.try_lock().is_err() {
        (install.progress)("waiting for another orch that installs it");
        guard
            .lock()
            .with_context(|| format!("failed to lock `{}`", lock_path.display()))?;
    }
    Ok(guard)
}

/// The lock beside an environment is made before it and stays: without one, a folder of this name is somebody else's.
fn refuse_foreign(home: &Path, lock_path: &Path) -> anyhow::Result<()> {
    let is_empty = std::fs::read_dir(home).map_or(true, |mut entries| entries.next().is_none());
    if !is_empty && !lock_path.is_file() && !home.join(MARKER).is_file() {
        bail!(
            "`{}` is in the way, and orch did not make it\n  hint: move it away, or name another --env-dir",
            home.display()
        );
    }
    Ok(())
}

/// The uv of this machine, or else orch's own. None where none can be had: pip does it too, and takes three times as long.
pub(super) fn uv(install: &Install<'_>) -> Option<PathBuf> {
    let failed = |error: &anyhow::Error| {
        (install.progress)(&format!("uv cannot be installed, so pip goes on: {error}"));
    };
    let own = || {
        Some(
            ensure(install, EnvName::Uv, None)
                .inspect_err(failed)
                .ok()?
                .python
                .with_file_name("uv"),
        )
    };
    find_uv().or_else(own)
}

fn make(
    install: &Install<'_>,
    name: EnvName,
    home: &Path,
    uv: Option<&Path>,
) -> anyhow::Result<PythonEnv> {
    // Whatever lies here is of an installation that did not finish.
    bfs::remove_dir(home)?;
    let base = find_python()?;
    let requirements = home.with_extension("txt");
    bfs::write_atomic(&requirements, install.at.locks.text(name).as_bytes())?;
    let log = home.with_extension("log");
    let _ = bfs::remove_file(&log);
    let python = PathBuf::from("bin/python");
    let run = |command: &mut Command| install.run(command, &log);
    let fetch = |command: &mut Command| install.fetch(name, command, &log);
    let installer = if let Some(uv) = uv {
        let mut venv = Command::new(uv);
        run(venv
            .args(["venv", "--quiet", "--no-project", "--no-config", "--python"])
            .arg(&base.path)
            .arg(home))?;
        let mut install = Command::new(uv);
        install
            .args([
                "pip",
                "install",
                "--require-hashes",
                "--no-config",
                "--python",
            ])
            .arg(home.join(&python));
        // A lock may name a second index (`torch_index`). Which of the two has a file does not matter where its hash is known.
        install.args(["--index-strategy", "unsafe-best-match"]);
        fetch(install.arg("--requirements").arg(&requirements))?;
        "uv"
    } else {
        let mut venv = Command::new(&base.path);
        run(venv.args(["-m", "venv"]).arg(home))?;
        let mut install = Command::new(home.join(&python));
        install.args([
            "-m",
            "pip",
            "install",
            "--no-input",
            "--disable-pip-version-check",
            "--progress-bar",
            "off",
        ]);
        fetch(
            install
                .args(["--no-deps", "--only-binary=:all:", "--require-hashes", "-r"])
                .arg(&requirements),
        )?;
        "pip"
    };
    let (major, minor, patch) = base.version;
    let site = PathBuf::from(format!("lib/python{major}.{minor}/site-packages"));
    let python_version = format!("{major}.{minor}.{patch}");
    let marker = Marker {
        python,
        site,
        python_version,
        installer: installer.into(),
    };
    proof::write_files(home)?;
    bfs::write_atomic(&home.join(MARKER), &serde_json::to_vec_pretty(&marker)?)?;
    Ok(PythonEnv {
        python: home.join(marker.python),
        site: home.join(marker.site),
    })
}

/// Imports what the servers of an environment import; Python keeps the bytecode.
pub(super) fn compile(install: &Install<'_>, name: EnvName) -> anyhow::Result<()> {
    if name.preload().is_empty() {
        return Ok(());
    }
    let env = install.at.env(name)?;
    let mut command = worker::command(&env.python);
    command
        .args(["-m", "orch_py.worker.bytecode"])
        .args(name.preload())
        .env("PYTHONPATH", install.at.python_package()?)
        .env("PYTHONNOUSERSITE", "1")
        .env("PYTHONSAFEPATH", "1");
    install.run(&mut command, &install.at.home(name).with_extension("log"))
}
