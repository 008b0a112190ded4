//! Releases of a package: which there are, and an environment with one of them for as long as it is tried.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use crate::base::fs as bfs;
use crate::base::process::run_within;
use crate::provision::{Provision, env, find_python};

/// The longest that an index may take to list releases.
const PATIENCE: Duration = Duration::from_secs(60);
/// How pip's list of releases begins.
const LIST: &str = "Available versions: ";

impl Provision {
    /// The releases of a package that the index has for this machine's Python, oldest first and without pre-releases.
    /// `folder` is empty, and may be removed afterwards.
    pub fn releases(
        &self,
        package: &str,
        folder: &Path,
        progress: &dyn Fn(&str),
    ) -> anyhow::Result<Vec<String>> {
        let install = self.install(progress);
        let python = find_python()?;
        let log = folder.join("log");
        let home = folder.join("pip");
        let mut venv = Command::new(&python.path);
        install.run(venv.args(["-m", "venv"]).arg(&home), &log)?;
        let mut list = Command::new(home.join("bin/python"));
        list.args(["-m", "pip", "index", "versions", package])
            .arg("--disable-pip-version-check");
        let output = run_within(&mut list, PATIENCE, true)?
            .with_context(|| format!("the index did not list `{package}` within a minute"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let found = listed(&text);
        found.with_context(|| {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let last = stderr.lines().next_back().unwrap_or("no reason was given");
            format!("the index lists no releases of `{package}`: {last}")
        })
    }

    /// The Python of an environment with this release and this NumPy, made anew in `home`; or why it cannot be installed.
    pub fn release(
        &self,
        (package, release): (&str, &str),
        numpy: &str,
        home: &Path,
        progress: &dyn Fn(&str),
    ) -> anyhow::Result<Result<PathBuf, String>> {
        let install = self.install(progress);
        let uv = env::uv(&install).context("only uv installs releases side by side")?;
        let base = find_python()?;
        let log = home.with_extension("log");
        bfs::remove_dir(home)?;
        let python = home.join("bin/python");
        let mut venv = Command::new(&uv);
        venv.args(["venv", "--quiet", "--no-project", "--no-config", "--python"])
            .arg(&base.path)
            .arg(home);
        install.run(&mut venv, &log)?;
        let mut fetch = Command::new(&uv);
        fetch
            .args(["pip", "install", "--no-config", "--only-binary", ":all:"])
            .arg("--python")
            .arg(&python)
            .arg(format!("{package}=={release}"))
            .arg(numpy);
        match install.run(&mut fetch, &log) {
            Ok(()) => Ok(Ok(python)),
            Err(error) if self.cancel.is_cancelled() => Err(error),
            Err(_) => {
                let last = crate::worker::tail(&log, 1);
                Ok(Err(format!("it cannot be installed: {}", last.trim())))
            }
        }
    }
}

/// The releases of pip's list, oldest first.
fn listed(text: &str) -> Option<Vec<String>> {
    let list = text.lines().find_map(|line| line.strip_prefix(LIST))?;
    let mut releases: Vec<String> = list
        .split(", ")
        .map(|name| name.trim().to_owned())
        .collect();
    releases.reverse();
    Some(releases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pips_list_is_read_oldest_first() {
        let text = "onnxruntime (1.32.0)\nAvailable versions: 1.32.0, 1.31.1, 1.31.0, 1.24.1\n  INSTALLED: 1.31.1\n";
        let releases = listed(text).unwrap();
        assert_eq!(releases, ["1.24.1", "1.31.0", "1.31.1", "1.32.0"]);
        assert_eq!(listed("ERROR: No matching distribution"), None);
    }
}
