//! Steps on the worker of a real remote execution server (buildbox-casd), and what becomes of a run when something breaks.

use std::path::Path;
use std::time::Duration;

use crate::download::with_content;
use crate::servers::{Liar, Manner, Server, casd_that_executes, free_port, is_done_without};
use crate::support::{Ended, Sandbox, beside_load, eventually, flip_byte, signal};
use crate::{SPEC, files, timed};

pub(crate) const WHAT: &str = "a remote execution server";

/// A server with one worker, and its folder.
pub(crate) struct Lab {
    dir: tempfile::TempDir,
    server: Option<Server>,
    pub(crate) port: u16,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let port = free_port();
        let server = Some(casd_that_executes(dir.path(), port, 2));
        Self { dir, server, port }
    }

    pub(crate) fn url(&self) -> String {
        format!("grpc://127.0.0.1:{}", self.port)
    }

    fn kill(&mut self) {
        self.server.take().unwrap().kill();
    }

    fn start(&mut self) {
        self.server = Some(casd_that_executes(self.dir.path(), self.port, 2));
    }

    /// Processes on the worker that have this file in their command line.
    fn works_on(&self, marker: &str) -> Vec<u32> {
        crate::support::processes_with(marker)
    }

    pub(crate) fn blobs(&self) -> Vec<std::path::PathBuf> {
        files(&self.dir.path().join("cache/cas/objects"))
    }
}

fn run<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let all = [
        "run",
        "spec.yaml",
        "--json",
        "--step",
        "command:*",
        "--executor",
        url,
        "--where",
        "remote",
    ];
    [&all[..], more].concat()
}

fn checkout() -> Sandbox {
    Sandbox::new().file("spec.yaml", SPEC)
}

#[test]
fn steps_execute_there_and_their_outputs_come_back() {
    if is_done_without(WHAT) {
        return;
    }
    let lab = Lab::new();
    let first = checkout();
    let url = lab.url();
    let ended = first
        .run(run(&lab.url(), &[]))
        .success()
        .summary([("steps", 2), ("executed", 2)]);
    ended.stderr_lacks("warning");
    assert_eq!(
        first.output("command:second", "twice"),
        "content\ncontent\n"
    );
    assert_eq!(first.output("command:first", "empty"), "");
    first.run(["cache", "verify"]).success();
    // It is a hit here, executed there or not.
    first
        .run(run(&lab.url(), &[]))
        .success()
        .summary([("executed", 0), ("hits", 2)]);
    first
        .run(["run", "spec.yaml", "--json", "--step", "command:*"])
        .success()
        .summary([("executed", 0), ("hits", 2)]);

    // Another clone with an empty store: the server remembers, and nobody works.
    let before = lab.blobs().len();
    let second = checkout();
    let ended = second.run(run(&lab.url(), &[])).success();
    ended.summary([("executed", 0), ("hits", 2), ("fetched", 2)]);
    assert_eq!(lab.blobs().len(), before);
    assert_eq!(
        second.output("command:second", "twice"),
        "content\ncontent\n"
    );
    // And as a remote store beside it: hits.
    let again = run(&url, &["--rerun", "command:*"]);
    checkout()
        .env("ORCH_REMOTE", lab.url())
        .run(again)
        .success()
        .summary([("executed", 2)])
        .stderr_has("2 uploads");
    let third = checkout()
        .env("ORCH_REMOTE", lab.url())
        .env("ORCH_REMOTE_MODE", "read-only");
    third.run(run(&lab.url(), &[])).success().summary([
        ("executed", 0),
        ("hits", 2),
        ("fetched", 2),
    ]);
}

#[test]
fn a_model_is_converted_and_measured_there_and_judged_here() {
    if is_done_without(WHAT) {
        return;
    }
    let lab = Lab::new();
    let sandbox = example();
    sandbox
        .run(["setup", "ort", "openvino", "--spec", "specs/all.yaml"])
        .success();
    let url = lab.url();
    let envs = crate::support::env_dir();
    let envs = envs.display();
    sandbox.write(
        "orch.toml",
        format!("[executor]\nurl = '{url}'\nwhere = 'remote'\nenv = {{ORCH_ENV_DIR = '{envs}'}}"),
    );
    // None of this is installed here.
    let nothing = sandbox.path("nothing").display().to_string();
    let sandbox = sandbox.env("ORCH_ENV_DIR", nothing);
    let document = sandbox
        .run(["run", "specs/all.yaml", "--json"])
        .success()
        .summary([("passed", 3), ("failed", 0)])
        .json();
    // The record says whose figures these are, and how fast that machine was before and after.
    let this = sandbox
        .run(["worker-properties", "--json"])
        .success()
        .json()["orch-host"][0]
        .clone();
    for case in document["cases"].as_array().unwrap() {
        assert_eq!(case["status"], "PASS", "{case:#}");
        let facts = &case["facts"][format!("run:{}", case["case"].as_str().unwrap())];
        let fingerprint = facts["executor"]["fingerprint"]
            .as_str()
            .unwrap_or_default();
        assert!(
            fingerprint.starts_with(this.as_str().unwrap()) && fingerprint.len() == 64,
            "{this}: {facts:#}"
        );
        assert_eq!(facts["execution"]["server"], url.as_str(), "{facts:#}");
        let yardstick = &case["metrics"]["rounds"][0]["conditions"]["yardstick_ms"];
        let told = yardstick
            .as_array()
            .is_some_and(|all| all.len() == 2 && all.iter().all(|ms| ms.as_f64() > Some(0.0)));
        assert!(told, "{:#}", case["metrics"]);
    }
    // Converted there and left there: the verdicts are the same, and the folder says how to get what is in it.
    let lean = example()
        .file("orch.toml", sandbox.read("orch.toml"))
        .env("ORCH_ENV_DIR", "/nowhere");
    let ended = lean
        .run(["run", "specs/all.yaml", "--json", "--download", "none"])
        .success();
    ended
        .summary([("passed", 3), ("failed", 0)])
        .stderr_has("artefacts stayed elsewhere: `orch run");
    let at = "orch-out/artefacts/affine/openvino-fp32/orch.json";
    assert!(
        lean.read(at).contains("--download toplevel --step"),
        "{}",
        lean.read(at)
    );
    lean.run(["run", "specs/all.yaml", "--json", "--download", "all"])
        .success()
        .summary([("passed", 3)]);
    assert!(lean.read(at).contains(".xml"), "{}", lean.read(at));
    // Where the device is lacking, the worker says so.
    lack_a_device(&sandbox);
    let document = sandbox
        .run(["run", "specs/all.yaml", "--json", "-t", "rocm"])
        .code(3)
        .json();
    has_what_is_offered(&document["cases"][0]);
}

#[test]
fn what_this_machine_can_run_stays_and_the_rest_goes_away() {
    if is_done_without(WHAT) {
        return;
    }
    let lab = Lab::new();
    let sandbox = example();
    sandbox
        .run(["setup", "ort", "--spec", "specs/all.yaml"])
        .success();
    lack_a_device(&sandbox);
    let envs = crate::support::env_dir();
    let program = env!("CARGO_BIN_EXE_orch");
    sandbox.write(
        "orch.toml",
        format!(
            "[executor]\nurl = '{}'\nprogram = '{program}'\nenv = {{ORCH_ENV_DIR = '{}'}}",
            lab.url(),
            envs.display()
        ),
    );
    let named = "targets:\n  lab: {runtime: ort, backend: cpu, artefact: onnx, precisions: [fp32], properties: {pool: xeon}}\n";
    sandbox.write(
        "specs/all.yaml",
        sandbox.read("specs/all.yaml").replace("targets:\n", named),
    );
    let run = [
        "run",
        "specs/all.yaml",
        "--json",
        "-t",
        "cpu",
        "-t",
        "rocm",
        "-t",
        "lab",
        "--where",
        "auto",
    ];
    let document = sandbox
        .run(run)
        .success()
        .summary([("passed", 2), ("failed", 0)])
        .json();
    let of = |target: &str| {
        document["cases"]
            .as_array()
            .unwrap()
            .iter()
            .find(|case| case["target"] == target)
            .unwrap()
    };
    let here = of("cpu");
    let away = of("rocm");
    let lab = of("lab");
    assert_eq!(here["status"], "PASS", "{here:#}");
    let facts = &here["facts"]["run:affine:cpu-fp32"];
    assert!(
        facts.is_object() && facts["execution"].is_null() && facts["executor"].is_null(),
        "{facts:#}"
    );
    has_what_is_offered(away);
    // This machine has the device too, but the target asks for another one.
    assert_eq!(lab["status"], "PASS", "{lab:#}");
    assert!(
        lab["facts"]["run:affine:lab-fp32"]["executor"].is_object(),
        "{lab:#}"
    );
    let run = [
        "run",
        "specs/all.yaml",
        "--json",
        "-t",
        "lab",
        "--where",
        "auto",
    ];
    sandbox.run(run).success().summary([("executed", 0)]);
    sandbox.write(
        "specs/all.yaml",
        sandbox
            .read("specs/all.yaml")
            .replace("pool: xeon", "pool: epyc"),
    );
    assert_eq!(
        sandbox.run(run).success().json()["cases"][0]["status"],
        "PASS"
    );
    let explained = sandbox.run(["explain", "run:affine:lab-fp32", "--spec", "specs/all.yaml"]);
    explained
        .success()
        .stdout_has("pool=epyc")
        .stdout_has("pool=xeon");
    let local = [
        "run",
        "specs/all.yaml",
        "--json",
        "-t",
        "lab",
        "--where",
        "local",
    ];
    let document = sandbox.run(local).code(3).json();
    assert!(
        document["cases"][0]["reason"]
            .as_str()
            .unwrap()
            .contains("pool=epyc"),
        "{document:#}"
    );
}

/// Puts a target on a device that no machine of these tests has into the place of OpenVINO's.
fn lack_a_device(sandbox: &Sandbox) {
    let spec = sandbox.read("specs/all.yaml");
    let from = "openvino: {runtime: openvino, backend: openvino, device: CPU, artefact: openvino, precisions: [fp32, fp16]}";
    assert!(spec.contains(from), "{spec}");
    let to =
        "rocm: {runtime: ort, backend: rocm, device: rocm, artefact: onnx, precisions: [fp32]}";
    sandbox.write("specs/all.yaml", spec.replace(from, to));
}

/// This server sends anything anywhere, so it is a worker who says that it lacks the device, and what it has.
fn has_what_is_offered(case: &serde_json::Value) {
    assert_eq!(case["status"], "SKIP_UNAVAILABLE", "{case:#}");
    let reason = case["reason"].as_str().unwrap();
    assert!(
        reason.contains("does not offer rocm") && reason.contains("it offers cpu"),
        "{reason}"
    );
    assert!(reason.contains("orch-device=rocm"), "{reason}");
}

/// A ready ONNX file on ONNX Runtime and OpenVINO.
pub(crate) fn example() -> Sandbox {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/onnx-file/specs");
    let mut sandbox = Sandbox::new().installs();
    for entry in std::fs::read_dir(example).unwrap() {
        let entry = entry.unwrap();
        let name = format!("specs/{}", entry.file_name().to_str().unwrap());
        sandbox = sandbox.file(&name, std::fs::read(entry.path()).unwrap());
    }
    sandbox
}

/// A step that says by a file that it works, and waits for another one.
fn slow(dir: &Path) -> String {
    let at = dir.display();
    format!(
        "version: 1\ncommands:\n  slow: {{argv: [sh, -c, 'while test ! -e {at}/go; do sleep 0.1; done; echo done > out'], \
         outputs: [out], timeout_seconds: 60}}\n"
    )
}

#[test]
fn a_worker_that_is_killed_in_mid_step_loses_nothing() {
    if is_done_without(WHAT) {
        return;
    }
    let lab = Lab::new();
    let gate = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new().file("spec.yaml", slow(gate.path()));
    let url = lab.url();
    let child = sandbox.spawn(run(&url, &[]));
    let marker = format!("{}/go", gate.path().display());
    eventually("the step works", || !lab.works_on(&marker).is_empty());
    let workers = orders_below(lab.dir.path());
    // SAFETY: kill takes no pointers.
    unsafe { libc::kill(workers[0] as i32, libc::SIGKILL) };
    eventually("another one works", || {
        orders_below(lab.dir.path())
            .iter()
            .any(|pid| !workers.contains(pid))
    });
    std::fs::write(gate.path().join("go"), "").unwrap();
    let ended = sandbox
        .wait(child)
        .success()
        .summary([("executed", 1), ("failed", 0)]);
    ended.stderr_has("it is executed again");
    assert_eq!(sandbox.output("command:slow", "out"), "done\n");
}

/// Processes of `orch worker order` whose folder lies below `dir`.
fn orders_below(dir: &Path) -> Vec<u32> {
    let inside = |pid: &u32| {
        std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(dir))
    };
    let mut all = crate::support::processes_with("worker\0order");
    all.retain(inside);
    // The first one; what it started came later.
    all.sort_unstable();
    all
}

#[test]
fn a_server_that_is_restarted_in_mid_step_loses_nothing() {
    if is_done_without(WHAT) {
        return;
    }
    let mut lab = Lab::new();
    let gate = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new().file("spec.yaml", slow(gate.path()));
    let url = lab.url();
    let child = sandbox.spawn(run(&url, &[]));
    let marker = format!("{}/go", gate.path().display());
    eventually("the step works", || !lab.works_on(&marker).is_empty());
    lab.kill();
    std::thread::sleep(Duration::from_secs(1));
    std::fs::write(gate.path().join("go"), "").unwrap();
    lab.start();
    let ended = sandbox
        .wait(child)
        .success()
        .summary([("executed", 1), ("failed", 0)]);
    ended.stderr_has("the server cannot be reached");
    assert_eq!(sandbox.output("command:slow", "out"), "done\n");
}

#[test]
fn a_failure_there_is_a_failure_and_nobody_remembers_it_as_a_success() {
    if is_done_without(WHAT) {
        return;
    }
    let lab = Lab::new();
    let bad = "version: 1\ncommands:\n  bad: {argv: [sh, -c, 'echo because; echo x > out; exit 4'], outputs: [out]}\n  \
               late: {argv: [sh, -c, 'sleep 60; echo x > out'], outputs: [out], timeout_seconds: 1}\n";
    for _ in 0..2 {
        let sandbox = Sandbox::new().file("spec.yaml", bad);
        let ended = sandbox
            .run(run(&lab.url(), &["--retries", "0"]))
            .code(1)
            .summary([("executed", 2), ("failed_steps", 2)]);
        ended
            .stderr_has("`sh` ended with exit status: 4: because")
            .stderr_has("TIMEOUT")
            .stderr_has("it did not end within");
        sandbox
            .run(["log", "command:bad"])
            .success()
            .stdout_has("because");
    }
    let lacking = "version: 1\ncommands:\n  one: {argv: [no-such-program], outputs: [out]}\n";
    let sandbox = Sandbox::new().file("spec.yaml", lacking);
    sandbox
        .run(run(&lab.url(), &[]))
        .code(1)
        .stderr_has("failed to start `no-such-program`");
}

#[test]
fn what_a_server_lost_or_spoilt_is_never_taken_for_a_result() {
    if is_done_without(WHAT) {
        return;
    }
    let lab = Lab::new();
    checkout().run(run(&lab.url(), &[])).success();
    // Gone: it is made again.
    std::fs::remove_file(with_content(lab.blobs(), "content\ncontent\n")).unwrap();
    let second = checkout();
    second
        .run(run(&lab.url(), &[]))
        .success()
        .summary([("failed", 0)]);
    assert_eq!(
        second.output("command:second", "twice"),
        "content\ncontent\n"
    );
    // Other content under the same name, whichever the server sees first.
    flip_byte(&with_content(lab.blobs(), "content\ncontent\n"));
    let third = checkout();
    let ended = third.run(run(&lab.url(), &[]));
    match ended.code {
        Some(0) => assert_eq!(
            third.output("command:second", "twice"),
            "content\ncontent\n"
        ),
        _ => drop(
            ended
                .code(1)
                .stderr_has("FAIL  command:second")
                .stderr_has("not what was requested"),
        ),
    }
}

#[test]
fn an_interrupt_ends_the_waiting() {
    if is_done_without(WHAT) {
        return;
    }
    let lab = Lab::new();
    let gate = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new().file("spec.yaml", slow(gate.path()));
    let url = lab.url();
    let child = sandbox.spawn(run(&url, &[]));
    let marker = format!("{}/go", gate.path().display());
    eventually("the step works", || !lab.works_on(&marker).is_empty());
    signal(&child, libc::SIGINT);
    let (ended, took) = timed(|| sandbox.wait(child));
    ended.code(130);
    assert!(took < beside_load(Duration::from_secs(10)), "{took:?}");
}

#[test]
fn a_server_that_hangs_or_is_none_fails_the_step_within_the_limit() {
    let patience = |url: &str| {
        format!("[executor]\nurl = '{url}'\nwhere = 'remote'\ntimeout = 1\nretries = 1\n")
    };
    let liar = Liar::new(Path::new("/nowhere"), Manner::Hang);
    for (url, why) in [
        (
            liar.url().replace("http://", "grpc://"),
            "no answer in time",
        ),
        (
            format!("grpc://127.0.0.1:{}", free_port()),
            "onnection refused",
        ),
    ] {
        let sandbox = checkout().file("orch.toml", patience(&url));
        let (ended, took) = timed(|| {
            sandbox.run([
                "run",
                "spec.yaml",
                "--json",
                "--step",
                "command:first",
                "--retries",
                "0",
            ])
        });
        ended
            .code(1)
            .stderr_has("FAIL  command:first")
            .stderr_has(why);
        assert!(took < beside_load(Duration::from_secs(20)), "{took:?}");
    }
}

#[test]
fn a_mistake_is_reported_with_what_would_be_right() {
    let ended: Ended = checkout().run(run("http://host:1", &[])).code(2);
    ended
        .stderr_has("the executor `http://host:1` is of no known kind")
        .stderr_has("hint: grpc://host:8980");
    checkout()
        .run(["run", "spec.yaml", "--where", "remote"])
        .code(2)
        .stderr_has("no executor is named");
    let bad = checkout().file("orch.toml", "[executor]\nurl = 'grpc://h:1'\nwher = 'auto'");
    bad.run(["run", "spec.yaml"])
        .code(2)
        .stderr_has("line 3")
        .stderr_has("`wher`");
    let shown = checkout().run(["worker-properties"]).success();
    shown
        .stdout_has("cpu=")
        .stdout_has("orch-device=cpu")
        .stdout_has("mem_mb=");
}
