//! The environment `browser`: ONNX Runtime Web and a Chromium whose WebNN works, from npm by a lock with hashes.
//!
//! The Chromium brings SwiftShader and a Vulkan loader: what native WebGPU runs on where no GPU has a driver. No Python
//! package and no distribution of before 2025 has one that is new enough.
//!
//! Node fetches and unpacks (`npm.rs`), and nothing of it runs later.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::base::{Digest, fs as bfs, program};
use crate::browser::{BINARY, ORT_WEB};
use crate::provision::Install;
use crate::provision::npm::{Packages, Run};
use crate::toolchain::EnvName;

const UNPACK: &str = include_str!("../../node/browser/unpack.mjs");
/// Inside the installed package.
const ARCHIVES: &str = "node_modules/@sparticuz/chromium/bin";
/// Archives beside the executable: the software driver of WebGPU, and the libraries that not every system has.
const TARS: [&str; 2] = ["swiftshader.tar.br", "al2023.tar.br"];
/// The file beside the executable that leads a Vulkan loader to SwiftShader.
const DRIVER: &str = "vk_swiftshader_icd.json";
/// Whether the package has an executable for this machine.
pub(super) const HAS_CHROMIUM: bool = cfg!(all(target_os = "linux", target_arch = "x86_64"));

pub(super) static PACKAGES: Packages = Packages {
    name: EnvName::Browser,
    title: "browser with ONNX Runtime Web",
    manifest: include_str!("../../node/browser/package.json"),
    find: |home| home.join(ORT_WEB).is_dir().then(|| home.to_owned()),
    finish,
};

/// The folder of SwiftShader and its Vulkan loader; it is there if the environment is.
pub(super) fn swiftshader(home: &Path) -> PathBuf {
    home.join(BINARY)
        .parent()
        .expect("BUG: the executable lies in a folder")
        .to_owned()
}

/// What leads the loader and the WebGPU provider of any program to SwiftShader.
pub(super) fn in_software(folder: &Path) -> Vec<String> {
    let folder = folder.display();
    vec![
        format!("LD_LIBRARY_PATH={folder}"),
        "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER=1".to_owned(),
        format!("VK_DRIVER_FILES={folder}/{DRIVER}"),
    ]
}

/// What leads a generated test to the browser, to ONNX Runtime Web, and to the orch that drives them.
pub(super) fn in_page(browser: &Path, home: &Path) -> Vec<String> {
    let orch = program::path()
        .ok()
        .map(|orch| format!("ORCH={}", orch.display()));
    let found = [
        ("ORCH_BROWSER", browser.to_owned()),
        ("ORCH_ORT_WEB", home.join(ORT_WEB)),
    ];
    let found = found
        .into_iter()
        .map(|(name, path)| format!("{name}={}", path.display()));
    orch.into_iter().chain(found).collect()
}

fn finish(install: &Install<'_>, staged: &Path, node: &Path, run: Run<'_>) -> anyhow::Result<()> {
    if HAS_CHROMIUM {
        (install.progress)("unpacking Chromium");
        let script = staged.join("unpack.mjs");
        bfs::write_atomic(&script, UNPACK.as_bytes())?;
        let unpack = |name: &str, to: &Path| {
            let archive = staged.join(ARCHIVES).join(name);
            run(Command::new(node).arg(&script).arg(archive).arg(to))
        };
        chromium(staged, &unpack)?;
    }
    // They would only take room now.
    Ok(bfs::remove_dir(&staged.join(ARCHIVES))?)
}

fn chromium(home: &Path, unpack: &dyn Fn(&str, &Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let binary = home.join(BINARY);
    let folder = binary
        .parent()
        .expect("BUG: the executable lies in a folder");
    std::fs::create_dir_all(folder)?;
    unpack("chromium.br", &binary)?;
    std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755))?;
    for name in TARS {
        let tar = home.join("unpacked.tar");
        unpack(name, &tar)?;
        let mut archive = tar::Archive::new(File::open(&tar)?);
        archive
            .unpack(folder)
            .with_context(|| format!("failed to unpack `{name}`"))?;
        bfs::remove_file(&tar)?;
    }
    Ok(())
}

/// What stands in keys for a browser of the user's: the content of its executable.
pub(super) fn identity(program: &Path) -> String {
    let Ok(digest) = Digest::of_file(program) else {
        return "absent".into();
    };
    let mut begin = [0; 2];
    let is_script = File::open(program).is_ok_and(|mut file| {
        use std::io::Read;
        file.read_exact(&mut begin).is_ok() && begin == *b"#!"
    });
    // What a script starts may change without it.
    if is_script {
        format!("{} (own, a script)", digest.short())
    } else {
        format!("{} (own)", digest.short())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_in_keys_is_the_one_that_is_installed() {
        let package: serde_json::Value = serde_json::from_str(PACKAGES.manifest).unwrap();
        let version = package["dependencies"]["@sparticuz/chromium"]
            .as_str()
            .unwrap();
        assert_eq!(
            crate::device::webgpu::DRIVER,
            format!("SwiftShader of @sparticuz/chromium {version}")
        );
    }

    #[test]
    fn programs_are_led_to_files_of_the_environment() {
        let folder = swiftshader(Path::new("/envs/browser-1"));
        assert!(
            BINARY.starts_with(folder.file_name().unwrap().to_str().unwrap()),
            "{}",
            folder.display()
        );
        let driver = format!(
            "VK_DRIVER_FILES={}/vk_swiftshader_icd.json",
            folder.display()
        );
        assert!(in_software(&folder).contains(&driver));
        let page = in_page(Path::new("/usr/bin/chrome"), Path::new("/envs/browser-1"));
        assert_eq!(page[1], "ORCH_BROWSER=/usr/bin/chrome");
        assert_eq!(page[2], format!("ORCH_ORT_WEB=/envs/browser-1/{ORT_WEB}"));
    }

    #[test]
    fn a_browser_of_ones_own_is_known_by_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let of = |content: &str| {
            let path = dir.path().join("browser");
            std::fs::write(&path, content).unwrap();
            identity(&path)
        };
        assert_ne!(of("\u{7f}ELF one"), of("\u{7f}ELF two"));
        assert!(of("#!/bin/sh\nexec chromium \"$@\"").ends_with("(own, a script)"));
        assert_eq!(identity(Path::new("/nowhere/chromium")), "absent");
    }
}
