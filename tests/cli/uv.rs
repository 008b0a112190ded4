//! uv, by which environments are installed: orch brings its own where the machine has none.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::Sandbox;

/// Where a program lies that is on this machine's PATH.
fn on_path(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("no {name} on PATH"))
}

fn installer(home: &Path) -> Value {
    let marker = std::fs::read(home.join("orch-env.json")).unwrap();
    serde_json::from_slice::<Value>(&marker).unwrap()["installer"].clone()
}

#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn a_machine_without_uv_gets_one_and_no_environment_is_installed_by_pip_but_uv() {
    let sandbox = Sandbox::new().installs();
    let bin = sandbox.path("bin");
    std::fs::create_dir(&bin).unwrap();
    // By its real name: what a version manager puts there asks for programs of its own.
    let python = std::process::Command::new(on_path("python3"))
        .args(["-c", "import sys; print(sys.executable)"])
        .output();
    let python = String::from_utf8(python.unwrap().stdout).unwrap();
    symlink(python.trim(), bin.join("python3")).unwrap();
    symlink("/bin/sh", bin.join("sh")).unwrap();
    let envs = sandbox.path("envs");
    let sandbox = sandbox
        .env("PATH", bin.to_str().unwrap())
        .env("ORCH_ENV_DIR", envs.to_str().unwrap());
    sandbox.run(["setup", "qnn"]).success();
    let found = || {
        std::fs::read_dir(&envs)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_dir())
    };
    let home = |name: &str| {
        found()
            .find(|path| {
                path.file_name()
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .starts_with(name)
            })
            .unwrap()
    };
    assert_eq!(
        (installer(&home("uv-")), installer(&home("qnn-"))),
        ("pip".into(), "uv".into())
    );
    sandbox
        .run(["setup", "uv"])
        .success()
        .stderr_has("there already");
}
