//! An orch that was built without remote stores says so where one is configured.

use crate::support::Sandbox;

#[test]
fn a_configured_remote_is_not_ignored_in_silence() {
    let spec = "version: 1\ncommands:\n  one: {argv: [sh, -c, 'echo x > out'], outputs: [out]}\n";
    let sandbox = Sandbox::new()
        .file("spec.yaml", spec)
        .file("orch.toml", "[remote]\nurl = 'file:///nowhere'\n");
    let ended = sandbox.run(["run", "spec.yaml"]).success();
    assert_eq!(
        ended.stderr.matches("warning").count(),
        1,
        "{}",
        ended.stderr
    );
    ended
        .stderr_has("built without remote stores")
        .stderr_has("cargo build --features remote");
    sandbox
        .run(["run", "spec.yaml", "--no-remote"])
        .success()
        .stderr_lacks("warning");
    sandbox
        .run(["cache", "remote"])
        .code(2)
        .stderr_has("cargo build --features remote");
    sandbox
        .run(["cache", "push"])
        .code(2)
        .stderr_has("cargo build --features remote");
    let wrong = sandbox.file("orch.toml", "[remote]\nurl = 1\n");
    wrong
        .run(["run", "spec.yaml"])
        .code(2)
        .stderr_has("line 2, column 7");
}
