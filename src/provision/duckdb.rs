//! The environment `duckdb`: the library with which the history is kept and queried, prebuilt, from npm by a lock with hashes.

use crate::base::fs as bfs;
use crate::base::variable;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::provision::npm::Packages;
use crate::toolchain::EnvName;

/// The packages, of which npm installs the one for this system.
const FOLDER: &str = "node_modules/@duckdb";
const LIBRARY: &str = if cfg!(target_os = "macos") {
    "libduckdb.dylib"
} else {
    "libduckdb.so"
};
/// The file beside it that Node would load.
const FOR_NODE: &str = "duckdb.node";
/// Names a library of the user's own.
const OWN: &str = "ORCH_DUCKDB";

/// Its library, where the user has none of his own.
pub(super) static PACKAGES: Packages = Packages {
    name: EnvName::Duckdb,
    title: "DuckDB",
    manifest: include_str!("../../node/duckdb/package.json"),
    find: |home| own().or_else(|| library(home)),
    finish: |_, staged, _, _| {
        let library = library(staged).with_context(|| {
            format!(
                "there is no package of DuckDB for this system\nhint: set {OWN} to its library `{LIBRARY}`, version 1.5"
            )
        })?;
        Ok(bfs::remove_file(library.with_file_name(FOR_NODE))?)
    },
};

fn own() -> Option<PathBuf> {
    variable::os(OWN)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

fn library(home: &Path) -> Option<PathBuf> {
    let packages = std::fs::read_dir(home.join(FOLDER)).ok()?.flatten();
    packages
        .map(|package| package.path().join(LIBRARY))
        .find(|library| library.is_file())
}
