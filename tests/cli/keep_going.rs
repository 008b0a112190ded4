//! What goes on after a failure, after an interrupt, and in a run that is resumed.

use serde_json::Value;

use crate::support::{Ended, Sandbox, eventually, marker, processes_with, signal};

/// `last` reads `bad`, which fails at once, and `slow`, which serves nothing else; `alone` has nothing to do with them.
fn three_ways() -> Sandbox {
    let spec = "version: 1
commands:
  bad: {argv: ['false'], outputs: [out]}
  slow: {argv: [sh, -c, 'echo x > out'], outputs: [out]}
  last: {argv: [sh, -c, 'echo x > out'], inputs: {a: {step: 'command:bad'}, b: {step: 'command:slow'}}, outputs: [out]}
  alone: {argv: [sh, -c, 'echo alone > out'], outputs: [out]}
";
    Sandbox::new().file("spec.yaml", spec)
}

fn keep_going(sandbox: &Sandbox, how: &[&str]) -> Ended {
    // Only these two are asked for: what `last` reads serves nothing but it.
    let asked = [
        "run",
        "spec.yaml",
        "--jobs",
        "1",
        "--step",
        "command:last",
        "--step",
        "command:alone",
    ];
    sandbox
        .run(asked.iter().chain(how))
        .code(1)
        .stderr_has("FAIL  command:bad")
        .stderr_lacks("command:last")
}

#[test]
fn always_runs_every_step_whose_inputs_are_there() {
    for how in [&["--keep-going", "always"][..], &[]] {
        keep_going(&three_ways(), how)
            .stderr_has("ok    command:slow")
            .stderr_has("ok    command:alone");
    }
}

#[test]
fn dependencies_leaves_out_what_serves_nothing_that_can_still_pass() {
    let how = ["--keep-going", "dependencies"];
    keep_going(&three_ways(), &how)
        .stderr_lacks("command:slow")
        .stderr_has("ok    command:alone");
    // Whoever is asked for by name serves itself.
    let sandbox = three_ways();
    let all = ["run", "spec.yaml", "--keep-going", "dependencies"];
    sandbox
        .run(all)
        .code(1)
        .stderr_has("ok    command:slow")
        .stderr_has("ok    command:alone");
}

#[test]
fn never_starts_nothing_new() {
    for how in [&["--keep-going", "never"][..], &["--fail-fast"]] {
        keep_going(&three_ways(), how)
            .stderr_lacks("command:slow")
            .stderr_lacks("command:alone");
    }
    three_ways()
        .run(["run", "spec.yaml", "--fail-fast", "--keep-going", "always"])
        .code(2)
        .stderr_has("cannot be used with");
    three_ways()
        .run(["run", "spec.yaml", "--keep-going", "maybe"])
        .code(2)
        .stderr_has("dependencies");
}

/// `done` and `bad` end at once; `slow` sleeps until it is told not to.
fn interruptible(marker: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let began = sandbox.path("seen/began");
    let awake = sandbox.path("awake");
    let step = |name: &str, then: &str| {
        let script = format!("echo {name} >> {}; {then}; echo x > out", began.display());
        format!("  {name}: {{argv: [sh, -c, '{script}'], outputs: [out], writable: [seen]}}\n")
    };
    let sleep = format!(
        "test -e {} || sh -c \"sleep 100; : {marker}\"",
        awake.display()
    );
    let spec = [
        "version: 1\ncommands:\n".to_owned(),
        step("done", ":"),
        step("bad", "exit 3"),
        step("slow", &sleep),
    ];
    sandbox.file("spec.yaml", spec.concat())
}

fn began(sandbox: &Sandbox) -> Vec<String> {
    let text = std::fs::read_to_string(sandbox.path("seen/began")).unwrap_or_default();
    let mut names: Vec<String> = text.lines().map(str::to_owned).collect();
    names.sort();
    names
}

const RUN: [&str; 6] = ["run", "spec.yaml", "--jobs", "1", "--rerun", "command"];
const RESUMED: [&str; 7] = [
    "run",
    "spec.yaml",
    "--jobs",
    "1",
    "--rerun",
    "command",
    "--resume",
];

fn interrupted(signals: &[i32]) -> (Sandbox, Ended) {
    let marker = marker("resume");
    let sandbox = interruptible(&marker);
    let child = sandbox.spawn(RUN);
    eventually("the last step began", || {
        began(&sandbox).len() == 3 && processes_with(&marker).len() >= 2
    });
    signals.iter().for_each(|number| signal(&child, *number));
    let ended = sandbox.wait(child);
    eventually("no process is left", || processes_with(&marker).is_empty());
    (sandbox, ended)
}

#[test]
fn a_resumed_run_does_what_was_left_and_neither_repeats_successes_nor_failures() {
    for signals in [&[libc::SIGINT][..], &[libc::SIGKILL]] {
        let (sandbox, ended) = interrupted(signals);
        let how = match ended.code {
            Some(130) => "interrupted",
            _ => "killed",
        };
        assert_eq!(began(&sandbox), ["bad", "done", "slow"]);
        sandbox.write("awake", "");
        let ended = sandbox.run(RESUMED).code(1);
        let ended = ended.stderr_has(&format!(
            "which was {how}: 1 step had passed, 1 had ended otherwise, 1 had begun"
        ));
        ended
            .stderr_lacks("command:done")
            .stderr_lacks("FAIL")
            .stderr_has("ok    command:slow");
        assert_eq!(began(&sandbox), ["bad", "done", "slow", "slow"]);
        sandbox
            .run(RESUMED)
            .code(2)
            .stderr_has("came to its end")
            .stderr_has("hint: leave out --resume");
    }
}

#[test]
fn a_run_that_resumes_can_itself_be_resumed() {
    let (sandbox, ended) = interrupted(&[libc::SIGINT]);
    ended
        .code(130)
        .stderr_has("the same command line with --resume continues");
    let child = sandbox.spawn(RESUMED);
    eventually("it began again", || began(&sandbox).len() == 4);
    signal(&child, libc::SIGINT);
    sandbox.wait(child).code(130);
    sandbox.write("awake", "");
    sandbox
        .run(RESUMED)
        .code(1)
        .stderr_has("1 step had passed, 1 had ended otherwise");
    assert_eq!(began(&sandbox), ["bad", "done", "slow", "slow", "slow"]);
}

#[test]
fn what_cannot_be_resumed_is_an_error_that_says_why() {
    let (sandbox, _) = interrupted(&[libc::SIGINT]);
    let other = ["run", "spec.yaml", "--resume"];
    let ended = sandbox.run(other).code(2);
    ended
        .stderr_has("no run of this command line is on record")
        .stderr_has("line: orch run spec.yaml\n");
    sandbox
        .run(["run", "spec.yaml", "--resume", "--watch"])
        .code(2)
        .stderr_has("cannot be used with");
}

#[test]
fn a_second_interrupt_ends_all_at_once() {
    let marker = marker("twice");
    let sandbox = interruptible(&marker);
    let child = sandbox.spawn(RUN);
    eventually("the last step began", || {
        began(&sandbox).len() == 3 && processes_with(&marker).len() >= 2
    });
    // The first is given a moment to be taken in; the kernel makes one of two that come together.
    signal(&child, libc::SIGINT);
    std::thread::sleep(std::time::Duration::from_millis(5));
    signal(&child, libc::SIGINT);
    sandbox.wait(child).code(130);
    eventually("no process is left", || processes_with(&marker).is_empty());
    let last: Value = sandbox.run(["history", "1", "--json"]).success().json();
    assert_eq!(
        last["steps"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|step| step["outcome"] == "PASS")
            .count(),
        1
    );
}
