//! Two orch processes on one machine: what one times, the other does not disturb.

use std::fs::File;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use crate::onnx::RIGHT;
use crate::ready_onnx::{SPEC, sandbox};
use crate::slots::Trace;
use crate::support::{Sandbox, beside_load, eventually, signal};

const STEP: &str = "run:linear:cpu-fp32";
const RUN: [&str; 8] = [
    "run",
    "specs/all.yaml",
    "-t",
    "cpu",
    "--remeasure",
    "0",
    "--rerun",
    "run",
];
const WAITS: &str = "waiting for cpu: another orch measures on it";

/// A process of its own with a model of its own, whose run on the CPU warms up for so many seconds. All that are given the same folder
/// of locks are on one machine.
fn process(locks: &Sandbox, seconds: u32) -> Sandbox {
    let sandbox = sandbox(RIGHT).env("ORCH_DEVICE_LOCK_DIR", folder(locks).to_str().unwrap());
    let long = format!("measure: {{warmup: 1000000000, samples: 6, max_seconds: {seconds}}}");
    let spec = SPEC.replace("measure: {warmup: 1, samples: 6}", &long);
    assert_ne!(spec, SPEC);
    sandbox.write("specs/all.yaml", spec);
    sandbox
}

fn folder(locks: &Sandbox) -> PathBuf {
    locks.path("locks")
}

fn file(locks: &Sandbox, name: &str) -> File {
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder(locks).join(name))
        .unwrap()
}

fn processor(locks: &Sandbox) -> File {
    file(locks, "cpu")
}

fn until_one_waits(locks: &Sandbox) {
    eventually("a process waits", || {
        file(locks, "cpu.queue").try_lock().is_err()
    });
}

/// A run that has the processor.
fn measuring(locks: &Sandbox, sandbox: &Sandbox) -> Child {
    let child = sandbox.spawn(RUN);
    eventually("a run measures", || {
        folder(locks).join("cpu").exists() && processor(locks).try_lock_shared().is_err()
    });
    child
}

/// When the run began and ended, microseconds since the epoch.
fn interval(sandbox: &Sandbox) -> (u64, u64) {
    let trace: serde_json::Value = serde_json::from_str(&sandbox.read("trace.json")).unwrap();
    let started = trace["otherData"]["started"].as_str().unwrap();
    let started: jiff::Timestamp = started.parse().unwrap();
    let start = started.as_microsecond() as u64;
    let slices = Trace::of(sandbox).slices;
    let run = slices.iter().find(|slice| slice.name == STEP).unwrap();
    (start + run.begin, start + run.end)
}

fn overlap(one: (u64, u64), other: (u64, u64)) -> u64 {
    one.1.min(other.1).saturating_sub(one.0.max(other.0))
}

fn both(extra: &[&str]) -> [(u64, u64); 2] {
    let locks = Sandbox::new();
    let sandboxes = [process(&locks, 2), process(&locks, 2)];
    let args = [&RUN[..], &["--trace", "trace.json"], extra].concat();
    // What the runs load is made first, so that both begin at once.
    for sandbox in &sandboxes {
        sandbox.run(&args).success();
    }
    let children = sandboxes.each_ref().map(|sandbox| sandbox.spawn(&args));
    for (sandbox, child) in sandboxes.iter().zip(children) {
        sandbox.wait(child).success();
    }
    sandboxes.each_ref().map(interval)
}

#[test]
fn two_processes_never_time_on_one_device_at_once() {
    let [one, other] = both(&[]);
    // The clock of each trace is set when its run begins, by two readings.
    let between = Duration::from_millis(100).as_micros() as u64;
    assert!(overlap(one, other) < between, "{one:?} {other:?}");
}

#[test]
fn what_is_timed_nowhere_executes_at_once() {
    let locks = Sandbox::new();
    let sandbox = process(&locks, 1);
    sandbox.run(RUN).success();
    let shared = processor(&locks);
    shared.lock_shared().unwrap();
    // Another process executes a model and times nothing.
    sandbox
        .run([&RUN[..], &["--check"]].concat())
        .success()
        .stderr_lacks("waiting for");
}

#[test]
fn a_wait_is_shown_and_is_none_of_the_steps_time() {
    let locks = Sandbox::new();
    let waiting = process(&locks, 1);
    waiting.run(RUN).success();
    let held = processor(&locks);
    held.lock().unwrap();
    let child = waiting.spawn([&RUN[..], &["--json", "--quiet", "--trace", "trace.json"]].concat());
    let wait = Duration::from_secs(5);
    std::thread::sleep(wait);
    drop(held);
    let ended = waiting.wait(child).success();
    let lines: Vec<_> = ended
        .stderr
        .lines()
        .filter(|line| line.contains(WAITS))
        .collect();
    assert_eq!(lines, [format!("wait  {STEP} {WAITS}")], "{}", ended.stderr);
    let (begin, end) = interval(&waiting);
    assert!(end - begin < beside_load(wait - Duration::from_secs(1)).as_micros() as u64);
    let record = waiting.run(["log", STEP, "--spec", "specs/all.yaml", "--json"]);
    assert_eq!(record.code, Some(0));
}

#[test]
fn a_process_that_is_killed_keeps_nothing() {
    let locks = Sandbox::new();
    let [killed, other] = [process(&locks, 600), process(&locks, 1)];
    other.run(RUN).success();
    let mut child = measuring(&locks, &killed);
    let waiting = other.spawn(RUN);
    until_one_waits(&locks);
    std::thread::sleep(Duration::from_secs(3));
    child.kill().unwrap();
    child.wait().unwrap();
    let ended = other.wait(waiting).success();
    assert!(ended.stderr.contains(WAITS), "{}", ended.stderr);
}

#[test]
fn an_interrupt_ends_a_wait_at_once() {
    let locks = Sandbox::new();
    let waiting = process(&locks, 1);
    waiting.run(RUN).success();
    let held = processor(&locks);
    held.lock().unwrap();
    let child = waiting.spawn([&RUN[..], &["-vv"]].concat());
    until_one_waits(&locks);
    let clock = Instant::now();
    signal(&child, libc::SIGINT);
    waiting.wait(child).code(130);
    let took = clock.elapsed();
    assert!(took < beside_load(Duration::from_secs(2)), "{took:?}");
}

#[test]
fn a_folder_that_cannot_be_written_is_a_note_and_no_failure() {
    let locks = Sandbox::new();
    let sandbox = process(&locks, 1);
    std::fs::write(folder(&locks), "a file").unwrap();
    let ended = sandbox.run(RUN).success();
    let noted = ended.stderr.matches("ORCH_DEVICE_LOCK_DIR").count();
    assert!(noted > 0, "{}", ended.stderr);
    assert_eq!(
        ended
            .stderr
            .matches("may measure on the same device")
            .count(),
        1,
        "{}",
        ended.stderr
    );
}
