//! The environment `duckdb`: the library with which the history is kept and queried, prebuilt, from npm by a lock with hashes.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::provision::npm::{self, Packages};
use crate::provision::{Install, env};
use crate::toolchain::EnvName;

const PACKAGE: &str = include_str!("../../node/duckdb/package.json");
/// The packages, of which npm installs the one for this system.
const PACKAGES: &str = "node_modules/@duckdb";
const LIBRARY: &str = if cfg!(target_os = "macos") { "libduckdb.dylib" } else { "libduckdb.so" };
/// Beside it: what Node would load.
const FOR_NODE: &str = "duckdb.node";
/// Names a library of the user's own.
const OWN: &str = "ORCH_DUCKDB";

/// The library, if it is there.
pub(super) fn ready(dir: &Path, lock: &str) -> Option<PathBuf> {
    own().or_else(|| find(&env::home(dir, EnvName::Duckdb, lock)))
}

pub(super) fn ensure(install: &Install<'_>) -> anyhow::Result<PathBuf> {
    if let Some(own) = own() {
        return Ok(own);
    }
    let home = env::home(install.dir, EnvName::Duckdb, install.locks.text(EnvName::Duckdb));
    let ready = || find(&home).and(Some(home.clone()));
    let packages = Packages { name: EnvName::Duckdb, manifest: PACKAGE, ready: &ready };
    let home = npm::ensure(install, &packages, &|staged, _, _| {
        let library = find(staged).with_context(|| {
            format!(
                "there is no package of DuckDB for this system\nhint: set {OWN} to its library `{LIBRARY}`, version 1.5"
            )
        })?;
        Ok(std::fs::remove_file(library.with_file_name(FOR_NODE))?)
    })?;
    find(&home).context("BUG: what was installed is not there")
}

fn own() -> Option<PathBuf> {
    std::env::var_os(OWN).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn find(home: &Path) -> Option<PathBuf> {
    let packages = std::fs::read_dir(home.join(PACKAGES)).ok()?.flatten();
    packages.map(|package| package.path().join(LIBRARY)).find(|library| library.is_file())
}
