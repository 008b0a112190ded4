//! Steps in resident processes of `orch worker daemon`: they make what fresh ones make, and go with the run that ordered them.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Stdio};

use serde_json::Value;

use crate::suite;
use crate::support::{Sandbox, eventually, signal};

/// A daemon that ends with the test.
struct Daemon {
    child: Child,
    notes: BufReader<ChildStderr>,
}

impl Daemon {
    fn start(sandbox: &Sandbox) -> Self {
        let folder = sandbox.path("daemon");
        let mut command = sandbox.command(["worker", "daemon"]);
        command.env("ORCH_DAEMON", folder).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let notes = BufReader::new(child.stderr.take().unwrap());
        let mut daemon = Self { child, notes };
        assert!(daemon.note().starts_with("listens at "));
        daemon
    }

    fn note(&mut self) -> String {
        let mut line = String::new();
        self.notes.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        signal(&self.child, libc::SIGTERM);
        let _ = self.child.wait();
    }
}

fn run() -> Vec<&'static str> {
    let models = ["-m", "bert"];
    let targets = ["-t", "cpu", "-t", "openvino", "-t", "eager-cpu"];
    ["run", "specs/all.yaml", "--check", "--json"]
        .into_iter()
        .chain(models)
        .chain(targets)
        .collect()
}

/// A suite whose runs call the daemon of its own.
fn beside_daemon() -> Sandbox {
    let sandbox = suite();
    let folder = sandbox.path("daemon").display().to_string();
    sandbox.env("ORCH_DAEMON", folder)
}

fn contents(sandbox: &Sandbox) -> BTreeSet<String> {
    let names = sandbox.stored_files("blobs").into_iter();
    names
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect()
}

/// The steps that were performed in a resident process.
fn residents(document: &Value) -> BTreeSet<String> {
    let cases = document["cases"].as_array().unwrap().iter();
    cases
        .filter_map(|case| case["facts"].as_object())
        .flatten()
        .filter(|(_, facts)| facts["resident"] == true)
        .map(|(step, _)| step.clone())
        .collect()
}

#[test]
fn a_resident_process_makes_what_a_fresh_one_makes() {
    let fresh = suite();
    let alone = fresh.run(run()).success().json();
    assert_eq!(residents(&alone), BTreeSet::new());
    let beside = beside_daemon();
    let mut daemon = Daemon::start(&beside);
    let document = beside.run(run()).success().json();
    let expected = [
        "convert:bert:onnx",
        "convert:bert:openvino-fp16",
        "convert:bert:openvino-fp32",
        "convert:bert:openvino-int8",
        "generate:bert",
        "run:bert:eager-cpu-fp32",
    ];
    assert_eq!(residents(&document), expected.map(str::to_owned).into());
    assert!(daemon.note().contains(" starts, process "));
    assert_eq!(contents(&fresh), contents(&beside));
    assert_eq!(document["summary"]["passed"], 5);
}

/// The children of a process, as the kernel lists them.
fn children(pid: &str) -> Vec<String> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    list.unwrap_or_default()
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_run_that_is_killed_takes_its_jobs_along_and_the_next_is_served() {
    let sandbox = beside_daemon();
    let mut daemon = Daemon::start(&sandbox);
    let killed = sandbox.spawn(run());
    let note = daemon.note();
    let (_, pid) = note.trim().split_once(", process ").unwrap();
    let jobs = || -> Vec<String> {
        children(pid)
            .iter()
            .flat_map(|fork| children(fork))
            .collect()
    };
    eventually("a job is at work", || !jobs().is_empty());
    signal(&killed, libc::SIGKILL);
    sandbox.wait(killed);
    eventually("nobody is left", || children(pid).is_empty());
    let document = sandbox.run(run()).success().json();
    assert!(!residents(&document).is_empty());
}
