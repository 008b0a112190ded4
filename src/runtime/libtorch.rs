//! How the tch worker is built: from the libtorch inside a Python environment, into an executable that starts by itself.
//!
//! Makes a folder of links and says which command to run; runs nothing, and knows nothing of how the environment came
//! to be.

#![expect(
    clippy::disallowed_methods,
    reason = "starts cargo, which builds the worker"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::base::fs as bfs;

/// The one release that the tch crate in Cargo.toml is written for; another one does not compile.
pub const TORCH_VERSION: &str = "2.13.0";

/// The worker's executable and cargo target.
pub const WORKER: &str = "orch-torch";

/// The link beside the worker to the folder that [`link`] makes.
pub const LINK: &str = "libtorch";

/// Makes `root` a libtorch folder of links into the torch wheel below `site_packages`; an older folder is renewed.
///
/// `lib` is one link to the wheel's whole folder, not a folder of links: the libraries find CUDA's by run paths relative
/// to themselves (`$ORIGIN/../../nvidia/...`), and the kernel resolves `..` behind a linked folder but a linked file
/// would leave them searching here.
pub fn link(site_packages: &Path, root: &Path) -> Result<()> {
    let torch = site_packages.join("torch");
    let version = wheel_version(&torch)?;
    if version.split('+').next() != Some(TORCH_VERSION) {
        bail!(
            "torch {version} in {} does not fit the worker, which is written for {TORCH_VERSION}; install torch=={TORCH_VERSION} there",
            site_packages.display()
        );
    }
    let library = torch.join("lib").join(if cfg!(target_os = "macos") {
        "libtorch_cpu.dylib"
    } else {
        "libtorch_cpu.so"
    });
    let header = torch.join("include/torch/csrc/api/include/torch/torch.h");
    if let Some(missing) = [&library, &header].into_iter().find(|file| !file.is_file()) {
        bail!(
            "torch {version} lacks {}; install its wheel again",
            missing.display()
        );
    }
    fs::create_dir_all(root).with_context(|| format!("failed to create {}", root.display()))?;
    relink(&torch.join("include"), &root.join("include"))?;
    relink(&torch.join("lib"), &root.join("lib"))?;
    // torch-sys refuses another release by this file; the wheel itself has none.
    let stamp = root.join("build-version");
    bfs::write_new(&stamp, format!("{version}\n"))
        .with_context(|| format!("failed to write {}", stamp.display()))
}

/// Variables of the caller that would lead the build to another libtorch, or elsewhere.
const MISLEADING: [&str; 7] = [
    "LIBTORCH_USE_PYTORCH",
    "LIBTORCH_INCLUDE",
    "LIBTORCH_LIB",
    "LIBTORCH_STATIC",
    "LIBTORCH_BYPASS_VERSION_CHECK",
    "CARGO_BUILD_TARGET",
    "CARGO_TARGET_DIR",
];

/// The command that builds the worker from the sources at `source` against the libtorch at `root`, and the executable that
/// it makes.
///
/// The profile whose dependencies are compiled already is the fastest. What runs in a measured inference is libtorch,
/// compiled long ago, so either measures the same. The run path of the result is `libtorch/lib` beside it ([`LINK`]), so it
/// needs no LD_LIBRARY_PATH, and no build of its own for another environment.
pub fn build(cargo: &Path, source: &Path, root: &Path, is_release: bool) -> (Command, PathBuf) {
    let target = source.join("target");
    let mut command = Command::new(cargo);
    command
        .args(["build", "--locked", "--package", WORKER, "--target-dir"])
        .arg(&target)
        .current_dir(source);
    command
        .args(is_release.then_some("--release"))
        .env("LIBTORCH", root)
        .env("LIBTORCH_CXX11_ABI", "1");
    for name in MISLEADING {
        command.env_remove(name);
    }
    (
        command,
        target
            .join(if is_release { "release" } else { "debug" })
            .join(WORKER),
    )
}

/// `__version__` of the wheel, read without Python: importing torch takes seconds and needs all of CUDA's wheels.
fn wheel_version(torch: &Path) -> Result<String> {
    let file = torch.join("version.py");
    let text = fs::read_to_string(&file).with_context(|| {
        format!(
            "failed to read {}; install torch=={TORCH_VERSION} there",
            file.display()
        )
    })?;
    text.lines()
        .find_map(|line| line.strip_prefix("__version__ = '")?.strip_suffix('\''))
        .map(str::to_owned)
        .with_context(|| format!("{} names no __version__", file.display()))
}

/// Makes `at` a link to `to`, also where it was one to another.
pub fn relink(to: &Path, at: &Path) -> Result<()> {
    bfs::remove_file(at).with_context(|| format!("failed to replace {}", at.display()))?;
    symlink(to, at).with_context(|| format!("failed to link {} to {}", at.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A site-packages folder that holds what `link` looks for.
    fn wheel(version: &str) -> tempfile::TempDir {
        let site = tempfile::tempdir().unwrap();
        let torch = site.path().join("torch");
        for file in [
            "lib/libtorch_cpu.so",
            "lib/libtorch_cpu.dylib",
            "include/torch/csrc/api/include/torch/torch.h",
        ] {
            fs::create_dir_all(torch.join(file).parent().unwrap()).unwrap();
            fs::write(torch.join(file), "").unwrap();
        }
        fs::write(
            torch.join("version.py"),
            format!("debug = False\n__version__ = '{version}'\n"),
        )
        .unwrap();
        site
    }

    #[test]
    fn links_follow_the_newest_environment() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path().join("libtorch");
        let old = wheel("2.13.0+cu130");
        link(old.path(), &at).unwrap();
        let new = wheel("2.13.0");
        link(new.path(), &at).unwrap();
        assert_eq!(
            fs::read_link(at.join("lib")).unwrap(),
            new.path().join("torch/lib")
        );
        assert_eq!(
            fs::read_to_string(at.join("build-version")).unwrap(),
            "2.13.0\n"
        );
    }

    #[test]
    fn another_release_or_half_a_wheel_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let other = wheel("2.15.0");
        let error = link(other.path(), root.path()).unwrap_err().to_string();
        assert!(
            error.contains("torch 2.15.0") && error.contains("install torch==2.13.0"),
            "{error}"
        );

        let half = wheel("2.13.0");
        fs::remove_dir_all(half.path().join("torch/include")).unwrap();
        assert!(
            link(half.path(), root.path())
                .unwrap_err()
                .to_string()
                .contains("torch.h")
        );
    }

    #[test]
    fn the_command_builds_only_the_worker_and_ignores_the_callers_libtorch() {
        let with = |is_release| {
            build(
                "cargo".as_ref(),
                "/src".as_ref(),
                "/lt".as_ref(),
                is_release,
            )
        };
        let (command, binary) = with(false);
        let arguments = [
            "build",
            "--locked",
            "--package",
            "orch-torch",
            "--target-dir",
            "/src/target",
        ];
        assert!(command.get_args().eq(arguments));
        assert_eq!(binary, Path::new("/src/target/debug/orch-torch"));
        let variable = |name: &str| {
            command
                .get_envs()
                .find(|(known, _)| *known == name)
                .unwrap()
                .1
        };
        assert_eq!(
            (variable("LIBTORCH"), variable("LIBTORCH_USE_PYTORCH")),
            (Some("/lt".as_ref()), None)
        );
        let (command, binary) = with(true);
        assert_eq!(binary, Path::new("/src/target/release/orch-torch"));
        assert!(
            command
                .get_args()
                .eq(arguments.into_iter().chain(["--release"]))
        );
    }
}
