//! Python interpreters on this machine, and what is installed in them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use crate::base::variable;
use crate::base::{Digest, fs as bfs};
use crate::toolchain;

/// The versions for which the locked packages have wheels.
const MINORS: std::ops::RangeInclusive<u32> = 11..=13;

#[derive(Debug, Clone, Deserialize)]
pub struct Interpreter {
    pub path: PathBuf,
    pub version: (u32, u32, u32),
    /// Its site-packages folder.
    pub site: PathBuf,
}

impl Interpreter {
    /// Queries an interpreter for its version and folders.
    pub fn query(path: &Path) -> anyhow::Result<Self> {
        const QUESTION: &str = "import json, sys, sysconfig; print(json.dumps({'path': sys.executable, \
            'version': sys.version_info[:3], 'site': sysconfig.get_path('platlib')}))";
        let output = Command::new(path).args(["-I", "-c", QUESTION]).output();
        let output = output.with_context(|| format!("failed to start `{}`", path.display()))?;
        let status = output.status;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(
            status.success(),
            "`{}` ended with {status}: {}",
            path.display(),
            stderr.trim()
        );
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("`{}` is not a Python interpreter", path.display()))
    }
}

/// The first interpreter on PATH that the locks support.
pub fn find_python() -> anyhow::Result<Interpreter> {
    let names = MINORS.rev().map(|minor| format!("python3.{minor}"));
    let mut seen = Vec::new();
    // `python3` first: it is what the user means by Python, where it is new enough.
    for name in ["python3".to_owned()].into_iter().chain(names) {
        let Some(path) = on_path(&name) else { continue };
        match Interpreter::query(&path) {
            Ok(found) if found.version.0 == 3 && MINORS.contains(&found.version.1) => {
                return Ok(found);
            }
            Ok(found) => seen.push(format!(
                "{} is {}.{}",
                path.display(),
                found.version.0,
                found.version.1
            )),
            Err(e) => seen.push(format!("{e:#}")),
        }
    }
    let seen = if seen.is_empty() {
        "no python3 is on PATH".to_owned()
    } else {
        seen.join("; ")
    };
    bail!(
        "no Python 3.{} to 3.{} was found ({seen})\nhint: install one (Debian: apt install python3 python3-venv), or set \
         ORCH_PYTHON to an interpreter that has the packages",
        MINORS.start(),
        MINORS.end()
    )
}

pub fn find_uv() -> Option<PathBuf> {
    on_path("uv")
}

pub(super) fn on_path(name: &str) -> Option<PathBuf> {
    let path = variable::os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// A package of the user's own environment.
pub(super) struct Package {
    version: String,
    info: PathBuf,
    identity: OnceLock<String>,
}

impl Package {
    /// Version and content: `2.13.0+<digest of its files' hashes> (own)`. The installer's list of files names the hash of
    /// each, so no file of it is read. A package without such a list, or one installed as a link to its sources, is known
    /// by its version alone, and that is reported.
    pub(super) fn identity(&self) -> &str {
        self.identity.get_or_init(|| {
            let record = std::fs::read_to_string(self.info.join("RECORD")).unwrap_or_default();
            // The installer's own notes, and scripts outside, which name the interpreter, differ between two
            // installations of one wheel.
            let is_content = |line: &&str| {
                line.contains(",sha256=")
                    && !line.contains(".dist-info/")
                    && !line.starts_with("../")
            };
            let mut files: Vec<_> = record.lines().filter(is_content).collect();
            files.sort_unstable();
            match files.is_empty() || self.info.join("direct_url.json").is_file() && files.len() < 2
            {
                true => format!("{} (own, content unknown)", self.version),
                false => format!(
                    "{}+{} (own)",
                    self.version,
                    Digest::of(files.join("\n").as_bytes()).short()
                ),
            }
        })
    }
}

/// Installed packages by name, read from their `dist-info` folders.
pub(super) fn installed(site: &Path) -> anyhow::Result<BTreeMap<String, Package>> {
    let entries =
        std::fs::read_dir(site).with_context(|| format!("failed to list `{}`", site.display()))?;
    let packages = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let (package, version) = name.strip_suffix(".dist-info")?.rsplit_once('-')?;
        let found = Package {
            version: version.to_owned(),
            info: entry.path(),
            identity: OnceLock::new(),
        };
        Some((package.to_lowercase().replace(['_', '.'], "-"), found))
    });
    Ok(packages.collect())
}

pub(super) fn home(dir: &Path) -> PathBuf {
    dir.join(format!("orch_py-{}", toolchain::python_code().short()))
}

/// Writes `orch_py` below `dir` unless the same code is there, whole; gives the folder for PYTHONPATH.
pub(super) fn package_dir(dir: &Path) -> anyhow::Result<PathBuf> {
    let home = home(dir);
    if is_whole(&home) {
        return Ok(home);
    }
    std::fs::create_dir_all(dir)
        .with_context(|| format!("failed to create `{}`", dir.display()))?;
    let staged = tempfile::Builder::new().prefix(".tmp-").tempdir_in(dir)?;
    let package = staged.path().join("orch_py");
    std::fs::create_dir_all(&package)?;
    toolchain::PACKAGE
        .extract(package)
        .context("failed to write the Python package")?;
    let staged = staged.keep();
    if home.is_dir() && !is_whole(&home) {
        // A part of it was lost, and a folder that is not empty cannot be replaced at once. It goes under another name first:
        // a process that writes into it at this moment would keep it from being removed.
        let aside = tempfile::Builder::new().prefix(".tmp-").tempdir_in(dir)?;
        match std::fs::rename(&home, aside.path().join("orch_py")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error)
                    .with_context(|| format!("failed to replace `{}`", home.display()));
            }
            _ => {}
        }
    }
    if std::fs::rename(&staged, &home).is_err() {
        bfs::remove_dir(&staged)?; // another process was first
    }
    Ok(home)
}

/// Whether all files of `orch_py` are there, at their sizes.
fn is_whole(home: &Path) -> bool {
    let package = home.join("orch_py");
    toolchain::package_files().all(|(path, bytes)| {
        std::fs::metadata(package.join(path)).is_ok_and(|meta| meta.len() == bytes.len() as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(files: &[(&str, &str)]) -> String {
        let site = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = site.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        installed(site.path()).unwrap()["my-torch"]
            .identity()
            .to_owned()
    }

    #[test]
    fn a_package_of_ones_own_is_known_by_its_content() {
        let record = "my_torch-2.0.dist-info/RECORD";
        let code = "torch/a.so,sha256=aa,9\ntorch/b.py,sha256=bb,1\n";
        let one = identity(&[(
            record,
            &format!("{code}my_torch-2.0.dist-info/INSTALLER,sha256=11,4\n"),
        )]);
        let same = identity(&[(
            record,
            &format!(
                "my_torch-2.0.dist-info/INSTALLER,sha256=22,3\n../../bin/run,sha256=33,1\n{code}"
            ),
        )]);
        let patched = identity(&[(record, &code.replace("bb", "cc"))]);
        assert!(one.starts_with("2.0+") && one.ends_with(" (own)"), "{one}");
        assert_eq!(one, same, "who installed it does not matter");
        assert_ne!(one, patched);
        let link = [
            (record, "__editable__.pth,sha256=aa,9\n"),
            ("my_torch-2.0.dist-info/direct_url.json", "{}"),
        ];
        assert_eq!(identity(&link), "2.0 (own, content unknown)");
        assert_eq!(
            identity(&[("my_torch-2.0.dist-info/METADATA", "")]),
            "2.0 (own, content unknown)"
        );
    }
}
