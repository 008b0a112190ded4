//! A step mounts something in its working folder: what lies behind a mount is somebody else's, and stays.

use std::process::Command;

use crate::support::Sandbox;

/// Whether this user may mount, in a namespace of his own at least, where no mount reaches the machine.
fn may_mount() -> bool {
    Command::new("unshare")
        .args(["-m", "true"])
        .status()
        .is_ok_and(|status| status.success())
}

fn spec(victim: &std::path::Path) -> String {
    let script = format!(
        "mkdir m && mount --bind {} m && ls m > out",
        victim.display()
    );
    format!("version: 1\ncommands:\n  mounter: {{argv: [sh, -c, '{script}'], outputs: [out]}}\n")
}

#[test]
fn a_step_cannot_mount() {
    let sandbox = Sandbox::new().file("victim/file", "precious");
    let sandbox = {
        let spec = spec(&sandbox.path("victim"));
        sandbox.file("spec.yaml", spec)
    };
    if !may_mount() || !orch::confine::Enforced::here().is_some() {
        return;
    }
    let ended = sandbox.run_through(["unshare", "-m"], &["run", "spec.yaml"]);
    ended.code(1).stderr_has("FAIL  command:mounter");
    assert_eq!(sandbox.read("victim/file"), "precious");
}

/// Where nothing keeps it from mounting, clean-up keeps off.
#[test]
fn what_a_step_mounted_is_not_emptied() {
    let sandbox = Sandbox::new()
        .file("victim/file", "precious")
        .env("ORCH_SANDBOX", "off");
    let sandbox = {
        let spec = spec(&sandbox.path("victim"));
        sandbox.file("spec.yaml", spec)
    };
    if !may_mount() {
        return;
    }
    sandbox
        .run_through(["unshare", "-m"], &["run", "spec.yaml"])
        .success();
    assert_eq!(sandbox.output("command:mounter", "out"), "file\n");
    assert_eq!(sandbox.read("victim/file"), "precious");
    // The namespace is gone, and the mount with it: what is left is orch's own, and goes.
    sandbox.run(["cache", "gc", "--keep-last", "9"]).success();
    assert_eq!(sandbox.read("victim/file"), "precious");
}
