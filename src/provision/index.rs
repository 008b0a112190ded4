//! Whether the package index answers an installation: by the same installer, and so through the same
//! mirror and proxy.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::base::fs as bfs;
use crate::base::process::run_within;
use crate::provision::{find_python, find_uv};

const PATIENCE: Duration = Duration::from_secs(15);
/// A package that every index has.
const PACKAGE: &str = "pip";

/// The installer that reached it, or why there was no answer.
pub fn reach_index() -> Result<&'static str, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    match find_uv() {
        Some(uv) => run(&mut by_uv(&uv, folder.path(), PACKAGE)?).map(|()| "uv"),
        None => run(&mut by_pip(folder.path())?).map(|()| "pip"),
    }
}

/// The same of an index of PyTorch's builds, which has little else.
pub(super) fn reach_torch(index: &str, uv: &Path) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    run(by_uv(uv, folder.path(), "torch")?.args(["--default-index", index]))
}

fn by_uv(uv: &Path, folder: &Path, package: &str) -> Result<Command, String> {
    let wanted = folder.join("wanted.in");
    bfs::write_new(&wanted, package).map_err(|error| error.to_string())?;
    let mut command = Command::new(uv);
    command
        .args([
            "pip",
            "compile",
            "--quiet",
            "--no-deps",
            "--no-config",
            "--no-cache",
            "--upgrade",
        ])
        .arg(wanted);
    Ok(command)
}

fn by_pip(folder: &Path) -> Result<Command, String> {
    let python = find_python().map_err(|error| format!("{error:#}"))?;
    let mut command = Command::new(python.path);
    let quiet = [
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-cache-dir",
        "--disable-pip-version-check",
    ];
    command
        .args(quiet)
        .args(["--retries", "0", "--dest"])
        .arg(folder)
        .arg(PACKAGE);
    Ok(command)
}

fn run(command: &mut Command) -> Result<(), String> {
    // An installation waits longer, but not for an index that is not there.
    let command = command
        .env("UV_HTTP_TIMEOUT", "5")
        .env("UV_HTTP_RETRIES", "0");
    let output = run_within(command, PATIENCE, true).map_err(|error| error.to_string())?;
    let output = output.ok_or_else(|| format!("no answer within {} s", PATIENCE.as_secs()))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    // The last cause is the first to be known.
    let lines = stderr.lines().map(|line| {
        line.trim_start_matches(|c: char| !c.is_alphanumeric())
            .trim_end()
    });
    let last = lines
        .map(|line| line.trim_start_matches("cause: "))
        .rfind(|line| !line.is_empty());
    Err(last.unwrap_or("the installer said nothing").to_owned())
}
