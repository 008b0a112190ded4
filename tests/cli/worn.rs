//! Python servers: one that grows is replaced while the run goes on (another process, said in the log, and every step
//! passes), and what is timed has one of its own, whose threads wait as its libraries choose.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::onnx::{RIGHT, linear};
use crate::ready_onnx::{SPEC, lend_onnx_runtime, sandbox};
use crate::support::{Sandbox, WITHOUT_DEVICE, env_dir, eventually};

/// Executed by every Python of the environment when it starts: the server, and no other, notes its number and then holds 300 MB more
/// after each fork.
const GROWS: &str = "import os, sys
if 'orch_py.worker.server' in sys.orig_argv:
    with open(os.path.join(os.path.dirname(__file__), 'servers'), 'a') as file:
        file.write(f'{os.getpid()}\\n')
    held = []
    os.register_at_fork(after_in_parent=lambda: held.append(bytearray(b'x') * 300_000_000))
";

/// Executed in the same way: each server notes how its threads wait for each other.
const WAITS: &str = "import os, sys
if 'orch_py.worker.server' in sys.orig_argv:
    with open(os.path.join(os.path.dirname(__file__), 'servers'), 'a') as file:
        file.write(os.environ.get('OMP_WAIT_POLICY', '') + '\\n')
";

/// The newest environment of a name.
fn newest(envs: &Path, name: &str) -> PathBuf {
    let is_it = |found: &str| found.starts_with(&format!("{name}-")) && !found.contains('.');
    let found = fs::read_dir(envs).unwrap().map(|entry| entry.unwrap());
    let found = found
        .filter(|entry| is_it(entry.file_name().to_str().unwrap()))
        .map(|entry| entry.path());
    found.max().unwrap()
}

/// An environment with all that another one has, and a module of its own that is imported at each start. Gives its interpreter
/// and its packages.
fn beside(sandbox: &Sandbox, other: &Path, module: &str) -> (PathBuf, PathBuf) {
    let lib = fs::read_dir(other.join("lib"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .file_name();
    let packages = Path::new("lib").join(lib).join("site-packages");
    let own = sandbox.path("grows");
    fs::create_dir_all(own.join("bin")).unwrap();
    fs::create_dir_all(own.join(&packages)).unwrap();
    fs::copy(other.join("pyvenv.cfg"), own.join("pyvenv.cfg")).unwrap();
    symlink(
        fs::canonicalize(other.join("bin/python")).unwrap(),
        own.join("bin/python"),
    )
    .unwrap();
    for entry in fs::read_dir(other.join(&packages))
        .unwrap()
        .map(|entry| entry.unwrap())
    {
        symlink(entry.path(), own.join(&packages).join(entry.file_name())).unwrap();
    }
    fs::write(own.join(&packages).join("noted.py"), module).unwrap();
    fs::write(own.join(&packages).join("noted.pth"), "import noted\n").unwrap();
    (own.join("bin/python"), own.join(packages))
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_that_grows_is_replaced_and_every_step_passes() {
    let sandbox = sandbox(RIGHT);
    let envs = sandbox.path("envs");
    let (python, packages) = beside(&sandbox, &newest(&envs, "openvino"), GROWS);
    lend_onnx_runtime(&packages);

    // Six files that differ, so that no two conversions are the same.
    let (head, model) = SPEC.split_once("models:\n  linear:\n").unwrap();
    let mut spec = format!("{head}matrix: {{targets: [openvino]}}\nmodels:\n");
    for n in 0..6 {
        let file = linear();
        let at = file
            .windows(6)
            .position(|window| window == b"linear")
            .expect("the name of the graph");
        let file = [&file[..at + 5], n.to_string().as_bytes(), &file[at + 6..]].concat();
        sandbox.write(&format!("models/linear{n}.onnx"), file);
        spec += &format!(
            "  linear{n}:\n{}",
            model.replace("linear.onnx", &format!("linear{n}.onnx"))
        );
    }
    sandbox.write("specs/all.yaml", spec);
    let sandbox = sandbox.env("ORCH_PYTHON", python.to_str().unwrap());
    let run = ["run", "specs/all.yaml", "--jobs", "1", "--json"];
    sandbox
        .run(run)
        .success()
        .summary([("cases", 6), ("passed", 6), ("failed", 0)]);

    let servers = fs::read_to_string(packages.join("servers")).unwrap();
    let servers: Vec<&str> = servers.lines().collect();
    assert!(servers.len() > 1 && servers[0] != servers[1], "{servers:?}");
    let log = fs::read_to_string(envs.join("server-openvino.log")).unwrap();
    let said = format!(
        "orch: another server takes over: process {} grew from ",
        servers[0]
    );
    assert!(log.contains(&said), "{log}");
    assert_eq!(
        log.matches("takes over").count(),
        servers.len() - 1,
        "{log}"
    );
    let is_alive = |pid: &&str| {
        fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
    };
    eventually("the servers are gone", || !servers.iter().any(is_alive));
}

/// PyTorch's threads take three times as long where they sleep as they wait for each other, which is right only for work that
/// shares the cores.
#[test]
fn what_is_timed_has_a_server_of_its_own_whose_threads_wait_as_the_user_wants() {
    let spec = WITHOUT_DEVICE.replace(
        "  mps: {runtime: torch, backend: mps, artefact: torchscript, precisions: [fp32]}",
        "  eager: {runtime: python, backend: cpu, device: cpu, artefact: model, precisions: [fp32]}",
    );
    let envs = env_dir();
    let sandbox = || Sandbox::new().file("specs/all.yaml", &spec);
    sandbox()
        .env("ORCH_ENV_DIR", envs.to_str().unwrap())
        .run(["setup", "torch"])
        .success();
    let sandbox = sandbox();
    let (python, packages) = beside(&sandbox, &newest(&envs, "torch"), WAITS);
    let sandbox = sandbox
        .env("ORCH_PYTHON", python.to_str().unwrap())
        .env("OMP_WAIT_POLICY", "ACTIVE");
    let servers = || fs::read_to_string(packages.join("servers")).unwrap();
    sandbox.run(["run", "specs/all.yaml", "--check"]).success();
    assert_eq!(servers(), "PASSIVE\n");
    sandbox.run(["run", "specs/all.yaml"]).success();
    assert_eq!(servers(), "PASSIVE\nACTIVE\n");
}
