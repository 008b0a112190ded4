//! Places where workers find what they load: native libraries inside an installed wheel; and of a run on a phone `adb` and
//! Qualcomm's SDK, which are the user's, because orch may not fetch them.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::catalogue::Wheel;
use crate::device::{Host, android};

/// The shared library, whatever version its name carries.
pub(super) fn find(site: &Path, wheel: &Wheel) -> anyhow::Result<PathBuf> {
    let folder = site.join(wheel.folder);
    let entries = std::fs::read_dir(&folder)
        .with_context(|| format!("failed to list `{}`", folder.display()))?;
    let is_library = |name: &str| {
        name.starts_with(wheel.prefix) && [".so", ".dylib", ".dll"].iter().any(|e| name.contains(e))
    };
    let mut found: Vec<_> = entries
        .flatten()
        .filter(|e| e.file_name().to_str().is_some_and(is_library))
        .map(|e| e.path())
        .collect();
    found.sort();
    found
        .pop()
        .with_context(|| format!("`{}` holds no {}*", folder.display(), wheel.prefix))
}

pub(super) fn adb() -> anyhow::Result<PathBuf> {
    android::adb(&Host::real()).map_err(anyhow::Error::msg)
}

pub(super) fn qnn_sdk() -> anyhow::Result<PathBuf> {
    let sdk = android::sdk(&Host::real()).map_err(anyhow::Error::msg)?;
    std::path::absolute(&sdk).with_context(|| format!("failed to find `{}`", sdk.display()))
}
