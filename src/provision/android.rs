//! What a run on a phone needs of the user's: `adb`, and Qualcomm's SDK, which orch may not fetch.

use std::path::PathBuf;

use anyhow::Context;

use crate::base::Digest;
use crate::device::{Host, android};

pub(super) fn adb() -> anyhow::Result<PathBuf> {
    android::adb(&Host::real()).map_err(anyhow::Error::msg)
}

pub(super) fn sdk() -> anyhow::Result<PathBuf> {
    let sdk = android::sdk(&Host::real()).map_err(anyhow::Error::msg)?;
    std::path::absolute(&sdk).with_context(|| format!("failed to find `{}`", sdk.display()))
}

/// What stands in keys for the SDK: its version, and the content of what runs a model and of the backend.
pub(super) fn identity() -> String {
    let Ok(sdk) = sdk() else { return "absent".into() };
    let part = |file| Digest::of_file(&sdk.join(file)).map_or("absent".into(), |digest| digest.short().to_string());
    let version = android::version(&sdk).unwrap_or_else(|| "of no version".into());
    format!("{version} {} {} (own)", part(android::RUNNER), part(android::LIBRARY))
}
