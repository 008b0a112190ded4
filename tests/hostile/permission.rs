//! That a file may be executed changes what programs do with it, and no byte of it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::Sandbox;

const SPEC: &str = "version: 1
commands:
  file: {argv: [sh, -c, './tool > out || echo no > out'], inputs: {tool: {file: tool}}, outputs: [out]}
  folder: {argv: [sh, -c, './bin/tool > out || echo no > out'], inputs: {bin: {file: bin}}, outputs: [out]}
";

#[test]
fn the_executable_bit_of_an_input_is_in_its_key_and_in_the_sandbox() {
    let tool = "#!/bin/sh\necho yes\n";
    let sandbox = Sandbox::new()
        .file("spec.yaml", SPEC)
        .file("tool", tool)
        .file("bin/tool", tool);
    let chmod = |mode: u32| {
        for name in ["tool", "bin/tool"] {
            fs::set_permissions(sandbox.path(name), fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    let run = |executed: u64| {
        let run = sandbox.run(["run", "spec.yaml", "--json"]).success();
        run.summary([("executed", executed), ("failed", 0)]);
    };
    let made = |text: &str| {
        for step in ["command:file", "command:folder"] {
            let made = sandbox
                .run(["output", step, "--spec", "spec.yaml", "--cat", "out"])
                .success()
                .stdout;
            assert_eq!(made, text, "{step}");
        }
    };
    chmod(0o644);
    run(2);
    made("no\n");
    for _ in 0..2 {
        chmod(0o755);
        let explained = sandbox
            .run(["explain", "command:file", "--spec", "spec.yaml"])
            .success()
            .stdout;
        // Of the second round, both are held.
        assert!(
            explained.contains("tool: it may be executed now") || explained.contains("up to date"),
            "{explained}"
        );
        if !explained.contains("up to date") {
            run(2);
        }
        made("yes\n");
        chmod(0o644);
        run(0);
        made("no\n");
    }
    // Others' permissions, and times, are nobody's key.
    chmod(0o600);
    run(0);
}
