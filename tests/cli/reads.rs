//! Commands that read what they did not declare, and those that print nothing.

use crate::support::Sandbox;

fn spec(script: &str, rest: &str) -> String {
    format!("version: 1\ncommands:\n  x: {{argv: [sh, -c, '{script}'], outputs: [out]{rest}}}\n")
}

/// Whether this machine's kernel confines programs; containers may forbid it.
fn is_confined(sandbox: &Sandbox) -> bool {
    let said = sandbox.run(["doctor"]).stdout;
    said.contains("Landlock ")
}

#[test]
fn an_undeclared_file_of_the_project_is_refused_with_the_remedy_and_a_declared_one_is_read() {
    let sandbox = Sandbox::new()
        .file("conf/x.txt", "x")
        .file("data/y.txt", "y");
    if !is_confined(&sandbox) {
        return;
    }
    let x = sandbox.path("conf/x.txt");
    let y = sandbox.path("data/y.txt");
    let script = format!("cat {} y && cat {} > out", y.display(), x.display());
    let sandbox = sandbox.file(
        "specs/spec.yaml",
        spec(&script, ", inputs: {y: {file: ../data/y.txt}}"),
    );
    sandbox
        .run(["run", "specs/spec.yaml"])
        .code(1)
        .stderr_has("conf/x.txt: Permission denied; hint: a step reads files of the project that `inputs` names");
    let rest = ", inputs: {y: {file: ../data/y.txt}, x: {file: ../conf/x.txt}}";
    let sandbox = sandbox.file("specs/spec.yaml", spec(&script, rest));
    sandbox.run(["run", "specs/spec.yaml"]).success();
}

#[test]
fn what_a_run_handed_out_is_no_input_and_the_project_on_path_shows_nothing() {
    let path = format!(".:{}", std::env::var("PATH").unwrap());
    let sandbox = Sandbox::new()
        .file("orch-out/x.txt", "x")
        .env("PATH", &path);
    if !is_confined(&sandbox) {
        return;
    }
    let script = format!("cat {} > out", sandbox.path("orch-out/x.txt").display());
    let sandbox = sandbox.file("spec.yaml", spec(&script, ""));
    sandbox
        .run(["run", "spec.yaml"])
        .code(1)
        .stderr_has("Permission denied");
}

#[test]
fn without_a_sandbox_an_undeclared_file_is_read() {
    let sandbox = Sandbox::new().file("x.txt", "x").env("ORCH_SANDBOX", "off");
    let script = format!("cat {} > out", sandbox.path("x.txt").display());
    let sandbox = sandbox.file("spec.yaml", spec(&script, ""));
    sandbox.run(["run", "spec.yaml"]).success();
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
