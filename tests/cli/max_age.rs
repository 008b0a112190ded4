//! `--max-age` and `--rerun`: what runs again although nothing changed.

use std::fs;

use crate::onnx::RIGHT;
use crate::ready_onnx::sandbox;
use crate::support::Sandbox;

const RUN: [&str; 5] = ["run", "specs/all.yaml", "--json", "-t", "cpu"];

#[test]
fn an_old_measurement_is_made_again_and_nothing_else_is() {
    let sandbox = sandbox(RIGHT);
    let first = sandbox.run(RUN).success().json();
    let with = |age: &str| sandbox.run([&RUN[..], &["--max-age", age]].concat());
    with("1h")
        .success()
        .summary([("executed", 0), ("passed", 1)]);
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let plan = sandbox
        .run(["plan", "specs/all.yaml", "-t", "cpu", "--max-age", "1s"])
        .success();
    let plan = plan
        .stdout_has("run  run:linear:cpu-fp32")
        .stdout_has("measured 20")
        .stdout_has(", longer ago than 1s");
    plan.stdout_lacks("generate:linear");
    sandbox
        .run(["plan", "specs/all.yaml", "-t", "cpu", "--max-age", "2w"])
        .success()
        .stdout_lacks("longer ago");
    // The run, and the report of its new figures.
    let again = with("1s")
        .success()
        .stderr_has("ok    run:linear:cpu-fp32")
        .summary([("executed", 1), ("passed", 1)])
        .json();
    assert_ne!(first["cases"][0]["measured"], again["cases"][0]["measured"]);
    with("1h")
        .success()
        .summary([("executed", 0), ("passed", 1)]);
    with("soon")
        .code(2)
        .stderr_has("`soon` is not an age")
        .stderr_has("`7d`");

    for rerun in ["run", "case:linear:cpu-*", "run:linear:cpu-fp32"] {
        let ended = sandbox
            .run([&RUN[..], &["--rerun", rerun]].concat())
            .success();
        ended
            .stderr_has("ok    run:linear:cpu-fp32")
            .summary([("executed", 1)]);
    }
    sandbox
        .run([&RUN[..], &["--rerun", "case:linear:qnn-*"]].concat())
        .code(2)
        .stderr_has("no step is called");
}

/// `flaky` fails as long as the file `broken` stands beside the spec; its key knows nothing of that.
fn flaky() -> Sandbox {
    let sandbox = Sandbox::new().file("broken", "");
    let broken = sandbox.path("broken");
    let spec = format!(
        "version: 1
commands:
  fine: {{argv: [sh, -c, 'echo x > out'], outputs: [out]}}
  flaky: {{argv: [sh, -c, 'test ! -e {} && echo x > out'], outputs: [out]}}
",
        broken.display()
    );
    sandbox.file("spec.yaml", spec)
}

#[test]
fn failed_names_the_steps_that_failed_last_time() {
    let sandbox = flaky();
    sandbox.run(["run", "spec.yaml"]).code(1);
    let only = ["run", "spec.yaml", "--step", "failed"];
    sandbox
        .run(only)
        .code(1)
        .stderr_has("FAIL  command:flaky")
        .stderr_lacks("command:fine");
    sandbox
        .run(["run", "spec.yaml", "--rerun", "failed"])
        .code(1)
        .stderr_has("command:flaky")
        .stderr_lacks("command:fine");
    fs::remove_file(sandbox.path("broken")).unwrap();
    sandbox
        .run(only)
        .success()
        .stderr_has("ok    command:flaky")
        .stderr_lacks("command:fine");
    sandbox
        .run(only)
        .success()
        .stderr_has("no step failed last time: nothing to run")
        .stderr_lacks("ok    ");
    sandbox
        .run(["run", "spec.yaml", "--json", "--rerun", "failed"])
        .success()
        .summary([("failed", 0)]);
}
