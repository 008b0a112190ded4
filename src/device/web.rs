//! What WebGPU and WebNN have in common: a browser. Finds binaries and says their versions; opens no page.

use std::path::Path;

use serde_json::json;

use super::host::Host;
use super::{Backend, Look};

/// Names in PATH and usual places. Real binaries stand before wrapper scripts, which add flags of their own.
const BROWSERS: &[(&str, &[&str])] = &[
    (
        "Chromium",
        &[
            "/usr/lib/chromium/chromium",
            "/usr/lib64/chromium-browser/chromium-browser",
            "/Applications/Chromium.app/Contents/MacOS/Chromium",
            "chromium",
            "chromium-browser",
        ],
    ),
    (
        "Chrome",
        &[
            "/opt/google/chrome/chrome",
            "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
            "google-chrome",
            "google-chrome-stable",
        ],
    ),
    (
        "Edge",
        &[
            "/opt/microsoft/msedge/msedge",
            "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
            "microsoft-edge",
        ],
    ),
    ("Firefox", &["firefox", "/Applications/Firefox.app/Contents/MacOS/firefox"]),
];

/// A browser binary on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Browser {
    pub(crate) name: &'static str,
    pub(crate) path: String,
    /// Only known after running it, which a cheap look does not do.
    pub(crate) version: Option<String>,
}

impl Browser {
    /// `Chromium 156.0.1 at /usr/lib/chromium/chromium`
    pub(crate) fn shown(&self) -> String {
        let version = self.version.as_ref().map(|v| format!(" {v}")).unwrap_or_default();
        format!("{}{version} at {}", self.name, self.path)
    }
}

pub(crate) fn browsers(host: &Host, thorough: bool) -> Vec<Browser> {
    let found = BROWSERS.iter().filter_map(|(name, places)| {
        let path = host.which(places)?;
        let version = if thorough { version(host, &path) } else { None };
        Some(Browser { name, path: host.shown(&path), version })
    });
    found.collect()
}

/// The first word with a dot in what `--version` prints.
fn version(host: &Host, path: &Path) -> Option<String> {
    let output = host.tool(path, &["--version"]).filter(|output| output.ok)?;
    let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    output.stdout.split_whitespace().find(is_version).map(str::to_owned)
}

/// The answer that both APIs give: a browser is a place to ask, and nobody has asked it for an adapter or a context.
pub(crate) fn look(host: &Host, thorough: bool, name: &str, asked: &str, suits: fn(&str) -> bool) -> Look {
    let browsers: Vec<_> = browsers(host, thorough).into_iter().filter(|b| suits(b.name)).collect();
    let Some(first) = browsers.first() else {
        // Installing one would not help this version of orch, so no remedy is promised.
        let looked_for: Vec<_> = BROWSERS.iter().map(|row| row.0).filter(|name| suits(name)).collect();
        return Backend::unavailable(name, format!("no browser found: looked for {}", looked_for.join(", "))).into();
    };
    let mut backend =
        Backend::unavailable(name, format!("{} was not asked for {asked}: no page was opened", first.shown()));
    backend.fact("found", first.shown());
    let list: Vec<_> = browsers.iter().map(|b| json!({"name": b.name, "path": b.path, "version": b.version})).collect();
    backend.fact("browsers", list).fact("asked", "no page was opened");
    backend.into()
}
