//! What a run on a phone needs of the user's: `adb`, and Qualcomm's SDK, which orch may not fetch.

use std::path::PathBuf;

use anyhow::Context;

use crate::device::{Host, android};

pub(super) fn adb() -> anyhow::Result<PathBuf> {
    android::adb(&Host::real()).map_err(anyhow::Error::msg)
}

pub(super) fn sdk() -> anyhow::Result<PathBuf> {
    let sdk = android::sdk(&Host::real()).map_err(anyhow::Error::msg)?;
    std::path::absolute(&sdk).with_context(|| format!("failed to find `{}`", sdk.display()))
}
