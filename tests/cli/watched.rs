//! Commands that read what they did not declare, and what the user is told of it.

use crate::support::Sandbox;

fn spec(script: &str, rest: &str) -> String {
    format!("version: 1\ncommands:\n  x: {{argv: [sh, -c, '{script}'], outputs: [out]{rest}}}\n")
}

/// Whether this machine's kernel tells what a program reads; containers may forbid it.
fn is_watched() -> bool {
    let sandbox = Sandbox::new().file("probe", "x");
    let script = format!("cat {} > out", sandbox.path("probe").display());
    let sandbox = sandbox.file("spec.yaml", spec(&script, ""));
    let said = sandbox.run(["run", "spec.yaml"]).success().stderr;
    said.contains("is not among its inputs")
}

#[test]
fn an_undeclared_read_is_told_with_the_remedy_and_a_declared_one_is_not() {
    if !is_watched() {
        assert!(
            !cfg!(all(target_os = "linux", target_arch = "x86_64"))
                || std::env::var_os("CI").is_none()
        );
        return;
    }
    let sandbox = Sandbox::new()
        .file("conf/x.txt", "x")
        .file("data/y.txt", "y");
    let x = sandbox.path("conf/x.txt");
    let y = sandbox.path("data/y.txt");
    let script = format!("cat {} {} y > out", x.display(), y.display());
    let sandbox = sandbox.file(
        "specs/spec.yaml",
        spec(&script, ", inputs: {y: {file: ../data/y.txt}}"),
    );
    let ended = sandbox.run(["run", "specs/spec.yaml"]).success().stderr_has(
        "warning command:x read conf/x.txt, which is not among its inputs: a change of it will not rerun the step; \
         hint: declare it under inputs:",
    );
    ended.stderr_lacks("y.txt").stderr_lacks("spec.yaml");
    let rest = ", inputs: {y: {file: ../data/y.txt}, x: {file: ../conf/x.txt}}";
    let sandbox = sandbox.file("specs/spec.yaml", spec(&script, rest));
    sandbox
        .run(["run", "specs/spec.yaml"])
        .success()
        .stderr_lacks("warning");
}

#[test]
fn watching_can_be_turned_off() {
    let sandbox = Sandbox::new()
        .file("x.txt", "x")
        .env("ORCH_WATCH_READS", "0");
    let script = format!("cat {} > out", sandbox.path("x.txt").display());
    let sandbox = sandbox.file("spec.yaml", spec(&script, ""));
    sandbox
        .run(["run", "spec.yaml"])
        .success()
        .stderr_lacks("warning");
}

#[test]
fn a_silent_step_leaves_no_log() {
    let sandbox = Sandbox::new().file("spec.yaml", spec("echo x > out", ""));
    sandbox.run(["run", "spec.yaml"]).success();
    assert!(
        sandbox.stored_files("logs").is_empty(),
        "{:?}",
        sandbox.stored_files("logs")
    );
    let sandbox = sandbox.file("spec.yaml", spec("echo x > out; echo said", ""));
    sandbox.run(["run", "spec.yaml"]).success();
    assert_eq!(sandbox.stored_files("logs").len(), 1);
}
