//! The tch worker: it came with orch, or is built from orch's own sources against the libtorch of the `torch` environment.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::base::{Digest, fs as bfs, program};
use crate::catalogue::torch;
use crate::provision::{Install, PythonEnv, python};
use crate::runtime::libtorch;
use crate::toolchain::EnvName;

/// The sources of which this orch was built. Absent on a machine that only got the binary.
const SOURCES: &str = env!("CARGO_MANIFEST_DIR");

/// The worker speaks this orch's protocol and links that lock's libtorch: either change asks for another build.
pub(super) fn home(dir: &Path, lock: &str) -> PathBuf {
    // The keys of its runs hold this list too, so that no run is ever attributed to another worker.
    // One that was built before the link beside it was its run path is another.
    let sources = format!("{} {lock} {}", torch::BUILD.digest(), libtorch::LINK);
    dir.join(format!(
        "{}-{}",
        libtorch::WORKER,
        Digest::of(sources.as_bytes()).short()
    ))
}

/// The folder of the links to the libtorch against which it is built.
pub(super) fn links(dir: &Path, lock: &str) -> PathBuf {
    dir.join(format!("libtorch-{}", Digest::of(lock.as_bytes()).short()))
}

pub(super) fn ready(dir: &Path, lock: &str) -> Option<PathBuf> {
    let binary = home(dir, lock).join(libtorch::WORKER);
    binary.is_file().then_some(binary)
}

/// Its name in a folder with an orch of the same sources, for any build of the release of libtorch.
pub(super) fn shipped_name() -> String {
    format!("{}-{}", libtorch::WORKER, torch::BUILD.digest().short())
}

/// The one that came with this orch, as in a wheel.
pub(super) fn shipped() -> Option<PathBuf> {
    let orch = program::path().and_then(std::fs::canonicalize).ok()?;
    Some(orch.parent()?.join(shipped_name())).filter(|path| path.is_file())
}

/// Puts the worker in its place: the one that came with orch, or else one that is built.
pub(super) fn install(install: &Install<'_>, env: &PythonEnv) -> anyhow::Result<PathBuf> {
    let dir = &install.at.dir;
    let lock = install.at.locks.text(EnvName::Torch);
    let home = home(dir, lock);
    std::fs::create_dir_all(&home)
        .with_context(|| format!("failed to create `{}`", home.display()))?;
    let lock_path = home.join("build.lock");
    let guard = File::create(&lock_path)
        .with_context(|| format!("failed to create `{}`", lock_path.display()))?;
    guard
        .lock()
        .with_context(|| format!("failed to lock `{}`", lock_path.display()))?;
    if let Some(binary) = ready(dir, lock) {
        return Ok(binary);
    }
    let links = links(dir, lock);
    libtorch::link(&env.site, &links)?;
    let made = shipped().map_or_else(|| build(install, &home, &links), Ok)?;
    libtorch::relink(&links, &home.join(libtorch::LINK))?;
    // Copied aside and renamed, so that what was cut short is never taken for a worker.
    let staged = home.join(format!(".tmp-{}", std::process::id()));
    bfs::copy_file(&made, &staged)
        .with_context(|| format!("failed to copy `{}`", made.display()))?;
    let binary = home.join(libtorch::WORKER);
    std::fs::rename(&staged, &binary)?;
    Ok(binary)
}

fn build(install: &Install<'_>, home: &Path, links: &Path) -> anyhow::Result<PathBuf> {
    let source = Path::new(SOURCES);
    let Some(cargo) = python::on_path("cargo").filter(|_| source.join("Cargo.lock").is_file())
    else {
        bail!(
            "this orch came without the tch worker, which is built from orch's sources, and {}\nhint: install orch's wheel, or clone \
             orch and run `cargo run -- setup torch-worker` there with the same --cache-dir, or leave out the targets with \
             `runtime: torch`",
            if source.join("Cargo.lock").is_file() {
                "cargo is not on PATH"
            } else {
                "they are not on this machine"
            }
        );
    };
    // The profile that this orch was built with: its dependencies are compiled already.
    let is_release =
        program::path().is_ok_and(|exe| exe.starts_with(source.join("target/release")));
    let (mut command, binary) = libtorch::build(&cargo, source, links, is_release);
    let log = home.join("build.log");
    let _ = bfs::remove_file(&log);
    install.run(&mut command, &log)?;
    Ok(binary)
}
