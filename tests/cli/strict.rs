//! `orch bench --strict`: on a quiet machine or not at all. How busy the machine is, a library says in place of `/proc`.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command};

use serde_json::Value;

use crate::onnx::RIGHT;
use crate::support::Sandbox;

/// Whoever opens `/proc/stat` reads of an idle machine whose hypervisor takes time as long as there is a file `BUSY`. Nothing is throttled,
/// and nobody governs frequencies.
const MACHINE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static int ends(const char *path, const char *end) {
    size_t all = strlen(path), most = strlen(end);
    return all >= most && strcmp(path + all - most, end) == 0;
}
static int told(void) {
    static long reads, stolen;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) return -1;
    if (access(BUSY, F_OK) == 0) stolen += 10;
    dprintf(ends[1], "cpu  0 0 0 %ld 0 0 0 %ld 0 0\n", 90 * ++reads, stolen);
    close(ends[1]);
    return ends[0];
}
int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    if (strcmp(path, "/proc/stat") == 0) return told();
    if (ends(path, "/scaling_governor") || ends(path, "/core_throttle_count") || ends(path, "/cpu.stat")) {
        errno = ENOENT;
        return -1;
    }
    int (*real)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
    return real(path, flags, mode);
}
"#;

const BENCH: [&str; 6] = ["bench", "specs/all.yaml", "-t", "cpu", "--rounds", "1"];
pub(super) const STOLEN: &str = "the hypervisor took 10 % of the CPU time";

pub(super) fn sandbox() -> Sandbox {
    let sandbox = crate::ready_onnx::sandbox(RIGHT).file("machine.c", MACHINE);
    let source = sandbox.path("machine.c");
    let library = sandbox.path("machine.so");
    let busy = format!("-DBUSY=\"{}\"", sandbox.path("busy").display());
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", &busy, "-o"])
        .args([&library, &source])
        .status();
    assert!(built.unwrap().success());
    sandbox.env("LD_PRELOAD", library.display().to_string())
}

/// Until the process says so.
pub(super) fn until(child: &mut Child, said: &str) {
    if let Err(told) = comes_to(child, said) {
        panic!("it ended without {said:?}: {told:#?}");
    }
}

/// As [`until`]; an error has what it said in place of that.
fn comes_to(child: &mut Child, said: &str) -> Result<(), Vec<String>> {
    let lines = BufReader::new(child.stderr.as_mut().unwrap())
        .lines()
        .map_while(Result::ok);
    let mut told = Vec::new();
    for line in lines {
        if line.contains(said) {
            return Ok(());
        }
        told.push(line);
    }
    Err(told)
}

fn remarks(sandbox: &Sandbox) -> String {
    let report: Value = serde_json::from_str(&sandbox.read("orch-out/report/matrix.json")).unwrap();
    report["cases"][0]["metrics"]["remarks"].to_string()
}

#[test]
fn a_machine_that_stays_busy_is_refused_and_nothing_is_measured() {
    let sandbox = sandbox().file("busy", "");
    let told = sandbox.run([&BENCH[..], &["--strict=0"]].concat()).code(3);
    told.stderr_has(&format!(
        "nothing was measured: this machine is not quiet: {STOLEN}"
    ))
    .stdout_lacks("linear");
    assert!(!sandbox.path("orch-out").exists() && !sandbox.path("cache/history").exists());
    // Whoever is not strict is told afterwards.
    sandbox.run(BENCH).success();
    assert!(
        remarks(&sandbox).contains("the hypervisor took"),
        "{}",
        remarks(&sandbox)
    );
    for (value, why) in [
        ("--strict=soon", "invalid value 'soon'"),
        ("--strict=-1", "invalid value '-1'"),
    ] {
        sandbox
            .run([&BENCH[..], &[value]].concat())
            .code(2)
            .stderr_has(why);
    }
}

#[test]
#[expect(
    clippy::print_stderr,
    reason = "what a test leaves out is shown with its output"
)]
fn it_waits_until_the_machine_is_quiet_and_fails_if_a_round_was_disturbed() {
    let sandbox = sandbox().file("busy", "");
    let mut child = sandbox.spawn([&BENCH[..], &["--strict"]].concat());
    until(&mut child, &format!("waits for a quiet machine: {STOLEN}"));
    assert!(!sandbox.path("orch-out").exists());
    std::fs::remove_file(sandbox.path("busy")).unwrap();
    // The first step that executed; those that make the model and its reference follow, and then the round.
    if let Err(told) = comes_to(&mut child, "ok    ") {
        // What the yardstick takes is really measured.
        let is_busy = |line: &String| line.contains("not quiet: a fixed computation");
        assert!(told.iter().any(is_busy), "{told:#?}");
        eprintln!("skipped: this machine has other work to do all the time: {told:?}");
        return;
    }
    sandbox.write("busy", "");
    sandbox
        .wait(child)
        .code(1)
        .stderr_has("1 case was disturbed while being measured; the report says by what");
    assert!(
        remarks(&sandbox).contains("the hypervisor took"),
        "{}",
        remarks(&sandbox)
    );
}

#[test]
#[expect(
    clippy::print_stderr,
    reason = "what a test leaves out is shown with its output"
)]
fn on_a_quiet_machine_it_succeeds() {
    let sandbox = sandbox();
    // What the yardstick takes is really measured, so other work on this machine may disturb a round.
    let strict = [&BENCH[..], &["--strict", "--json"]].concat();
    let mut disturbed = Vec::new();
    let ended = (0..8).find_map(|_| {
        let ended = sandbox.run(&strict);
        if ended.code == Some(0) {
            return Some(ended);
        }
        disturbed.push(ended.stderr);
        None
    });
    let Some(ended) = ended else {
        let is_disturbed = |told: &String| {
            told.contains("not quiet: a fixed computation")
                || told.contains("was disturbed while being measured")
        };
        assert!(disturbed.iter().all(is_disturbed), "{disturbed:#?}");
        eprintln!("skipped: this machine has other work to do all the time");
        return;
    };
    let document = ended.summary([("passed", 1)]).json();
    assert_eq!(
        document["cases"][0]["metrics"]["rounds"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}
