//! How much memory NVIDIA's cards have is known to a run that needs one, and asked of nobody else.
//!
//! The card is a device node in a `/dev` that only this orch sees (a mount namespace), and its driver's library one with
//! NVML's functions and known answers. Where no namespace can be made these tests say so and check nothing.

use std::path::Path;
use std::process::Command;

use crate::ready_onnx;
use crate::support::{Ended, Sandbox};

/// A `/dev` with what programs use, and a node of one NVIDIA GPU.
const WITH_A_CARD: &str = r#"set -e
mkdir dev dev/shm
for node in null zero full random urandom tty; do : > dev/$node; mount --bind /dev/$node dev/$node; done
ln -s /proc/self/fd dev/fd
: > dev/nvidia0
mount --rbind dev /dev
exec "$@""#;

/// A ready model on CUDA, in a Python environment whose ONNX Runtime is the CPU's: its run cannot execute here.
fn sandbox(define: &[&str]) -> Option<Sandbox> {
    let may = Command::new("unshare").args(["-rm", "true"]).output();
    if !may.is_ok_and(|tried| tried.status.success()) {
        crate::support::skipped("no mount namespace can be made here");
        return None;
    }
    let targets =
        "targets:\n  gpu: {runtime: ort, backend: cuda, artefact: onnx, precisions: [fp32]}\n";
    let (head, rest) = ready_onnx::SPEC.split_once("targets:\n").unwrap();
    let (_, rest) = rest.split_once("measure:").unwrap();
    let sandbox = Sandbox::new()
        .installs()
        .file("specs/all.yaml", format!("{head}{targets}measure:{rest}"))
        .file("models/linear.onnx", crate::onnx::linear())
        .file(
            "models/expected/output_0.pb",
            crate::onnx::expected(crate::onnx::RIGHT),
        );
    let python = sandbox.path("python");
    let made = Command::new("python3")
        .args(["-m", "venv", "--without-pip"])
        .arg(&python)
        .status()
        .unwrap();
    assert!(made.success());
    sandbox.run(["setup", "ort"]).success();
    let lib = std::fs::read_dir(python.join("lib"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    ready_onnx::lend_onnx_runtime(&lib.join("site-packages"));
    let sandbox = sandbox.env("ORCH_PYTHON", python.join("bin/python").to_str().unwrap());
    Some(with(sandbox, "driver", define))
}

/// With a driver of its own folder: another place is another question, whatever was answered before.
fn with(sandbox: Sandbox, driver: &str, define: &[&str]) -> Sandbox {
    let folder = sandbox.path(driver);
    std::fs::create_dir_all(&folder).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/native/nvml.c");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-w", "-o"])
        .arg(folder.join("libnvidia-ml.so.1"))
        .arg(source)
        .args(define);
    assert!(cc.status().unwrap().success());
    sandbox.env("LD_LIBRARY_PATH", folder.to_str().unwrap())
}

fn run(sandbox: &Sandbox, args: &[&str]) -> Ended {
    let _ = std::fs::remove_dir_all(sandbox.path("dev"));
    sandbox.run_through(["unshare", "-rm", "sh", "-c", WITH_A_CARD, "sh"], args)
}

const RUN: [&str; 2] = ["run", "specs/all.yaml"];

#[test]
fn a_run_that_may_take_more_than_the_card_has_says_so() {
    let Some(sandbox) = sandbox(&["-DGPUS=1", "-DTOTAL=(512ULL << 20)"]) else {
        return;
    };
    let said = "warning run:linear:gpu-fp32 may take 1.2 GiB of the memory of cuda:0, which has 512 MiB: it runs there alone";
    run(&sandbox, &RUN)
        .stderr_has(said)
        .stderr_lacks("is unknown");
    // A card that is large enough is no news.
    let sandbox = with(sandbox, "large", &["-DGPUS=1", "-DTOTAL=(8ULL << 30)"]);
    run(&sandbox, &RUN)
        .stderr_lacks("may take")
        .stderr_lacks("is unknown");
}

#[test]
fn a_broken_library_leaves_the_size_unknown_says_why_and_limits_nothing() {
    let Some(sandbox) = sandbox(&["-DINIT=18"]) else {
        return;
    };
    let refused = run(&sandbox, &RUN).stderr_lacks("may take");
    let refused = refused
        .stderr_has("warning the memory of cuda:0 is unknown: NVML (libnvidia-ml.so.1) refuses: ");
    refused.stderr_has("RM detects a driver/library version mismatch; orch cannot limit how much of it steps claim");
    let sandbox = with(sandbox, "crashing", &["-DCRASH"]);
    let crashed = run(&sandbox, &RUN).stderr_lacks("may take");
    crashed.stderr_has(
        "is unknown: asking its native library failed: the probe was ended by signal 11; orch cannot limit",
    );
}

#[test]
fn no_driver_is_queried_where_no_step_needs_the_card() {
    let Some(sandbox) = sandbox(&["-DCRASH"]) else {
        return;
    };
    sandbox.write(
        "plain.yaml",
        "version: 1\ncommands:\n  a: {argv: [sh, -c, 'echo x > out'], outputs: [out]}\n",
    );
    run(&sandbox, &["run", "plain.yaml"])
        .success()
        .stderr_lacks("is unknown");
    run(&sandbox, &["plan", "specs/all.yaml"])
        .success()
        .stderr_lacks("is unknown");
    run(&sandbox, &["run", "specs/all.yaml", "--step", "generate"]).stderr_lacks("is unknown");
    // The library is there to be asked, all the same.
    run(&sandbox, &["devices"])
        .success()
        .stdout_has("ended by signal 11");
}
