//! SwiftShader, a Vulkan driver in software, with a Vulkan loader: what WebGPU runs on where no GPU has a driver.
//!
//! No Python package and no distribution of before 2025 has one that is new enough, and a package of the distribution
//! would need root. An npm package carries both for a Chromium of its own; npm checks the hash in the lock.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::base::{Digest, fs as bfs};
use crate::device::{Host, webgpu};
use crate::provision::{python, run_installer};
use crate::worker::Cancel;

const PACKAGE: &str = include_str!("../../node/swiftshader/package.json");
const LOCK: &str = include_str!("../../node/swiftshader/package-lock.json");
/// Inside the installed package.
const ARCHIVE: &str = "node_modules/@sparticuz/chromium/bin/swiftshader.tar.br";
/// What is kept of the archive.
const FILES: [&str; 3] = ["libvulkan.so.1", "libvk_swiftshader.so", "vk_swiftshader_icd.json"];
/// Node unpacks what npm fetched: one comes with the other.
const UNPACK: &str = "const fs = require('fs'); \
    fs.writeFileSync(process.argv[2], require('zlib').brotliDecompressSync(fs.readFileSync(process.argv[1])))";

pub(super) fn home(dir: &Path) -> PathBuf {
    dir.join(format!("swiftshader-{}", Digest::of(LOCK.as_bytes()).short()))
}

/// The folder with the loader and the driver, if it is there: it appears as a whole.
pub(super) fn ready(dir: &Path) -> Option<PathBuf> {
    let home = home(dir);
    home.join(FILES[0]).is_file().then_some(home)
}

/// What leads the loader and the WebGPU provider of any program to it; nothing where a GPU has a driver.
pub(super) fn variables(dir: &Path) -> Vec<String> {
    let Some(home) = ready(dir).filter(|_| !webgpu::has_gpu(&Host::real())) else { return vec![] };
    let home = home.display();
    vec![
        format!("LD_LIBRARY_PATH={home}"),
        "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER=1".to_owned(),
        format!("VK_DRIVER_FILES={home}/{}", FILES[2]),
    ]
}

pub(super) fn ensure(dir: &Path, cancel: &Cancel, progress: &dyn Fn(&str)) -> anyhow::Result<PathBuf> {
    if let Some(home) = ready(dir) {
        return Ok(home);
    }
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        bail!("there is no package of SwiftShader for this system\nhint: install a Vulkan driver of its GPU");
    }
    let [Some(npm), Some(node)] = ["npm", "node"].map(python::on_path) else {
        bail!(
            "SwiftShader comes as an npm package, and npm is not on PATH\nhint: install Node.js with npm (Debian: apt \
             install npm), or a Vulkan driver of this machine's GPU"
        );
    };
    let home = home(dir);
    std::fs::create_dir_all(dir).with_context(|| format!("failed to create `{}`", dir.display()))?;
    let lock_path = home.with_extension("lock");
    let guard = File::create(&lock_path).with_context(|| format!("failed to create `{}`", lock_path.display()))?;
    guard.lock().with_context(|| format!("failed to lock `{}`", lock_path.display()))?;
    if let Some(home) = ready(dir) {
        return Ok(home);
    }
    let staged = tempfile::Builder::new().prefix(".tmp-").tempdir_in(dir)?;
    bfs::write_atomic(&staged.path().join("package.json"), PACKAGE.as_bytes())?;
    bfs::write_atomic(&staged.path().join("package-lock.json"), LOCK.as_bytes())?;
    let log = home.with_extension("log");
    let _ = std::fs::remove_file(&log);
    let mut fetch = Command::new(npm);
    fetch.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(staged.path());
    run_installer(&mut fetch, &log, cancel, progress)?;
    let archive = staged.path().join("swiftshader.tar");
    let mut unpack = Command::new(node);
    unpack.args(["-e", UNPACK]).arg(staged.path().join(ARCHIVE)).arg(&archive);
    run_installer(&mut unpack, &log, cancel, progress)?;
    let folder = staged.path().join("kept");
    std::fs::create_dir(&folder)?;
    extract(&archive, &folder).with_context(|| format!("failed to unpack `{ARCHIVE}`"))?;
    bfs::remove_dir(&home)?;
    std::fs::rename(&folder, &home).with_context(|| format!("failed to make `{}`", home.display()))?;
    Ok(home)
}

fn extract(archive: &Path, folder: &Path) -> anyhow::Result<()> {
    for entry in tar::Archive::new(File::open(archive)?).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        if let Some(name) = path.file_name().filter(|name| FILES.iter().any(|file| name == file)) {
            entry.unpack(folder.join(name))?;
        }
    }
    match FILES.iter().find(|name| !folder.join(name).is_file()) {
        Some(missing) => bail!("it holds no {missing}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_in_keys_is_the_one_that_is_installed() {
        let package: serde_json::Value = serde_json::from_str(PACKAGE).unwrap();
        let version = package["dependencies"]["@sparticuz/chromium"].as_str().unwrap();
        assert_eq!(crate::device::webgpu::DRIVER, format!("SwiftShader of @sparticuz/chromium {version}"));
        assert!(LOCK.contains(&format!("\"version\": \"{version}\"")) && LOCK.contains("\"integrity\": \"sha512-"));
        assert!(!LOCK.contains("://"), "the registry is the user's choice");
    }

    #[test]
    fn only_the_loader_and_the_driver_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("a.tar");
        let pack = |names: &[&str]| {
            let mut tar = tar::Builder::new(File::create(&archive).unwrap());
            for name in names {
                let mut header = tar::Header::new_gnu();
                header.set_size(1);
                tar.append_data(&mut header, name, &b"x"[..]).unwrap();
            }
            tar.finish().unwrap();
        };
        let to = folder.path().join("to");
        std::fs::create_dir(&to).unwrap();
        pack(&["libEGL.so", FILES[0], FILES[1]]);
        assert_eq!(extract(&archive, &to).unwrap_err().to_string(), "it holds no vk_swiftshader_icd.json");
        pack(&["libEGL.so", FILES[0], FILES[1], FILES[2]]);
        extract(&archive, &to).unwrap();
        assert_eq!(std::fs::read_dir(&to).unwrap().count(), 3);
    }
}
