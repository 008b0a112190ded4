//! Files that are not what their names promise: devices, FIFOs, folders of them, specs without end.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Ended, Sandbox};

/// A run that may not wait for ever: asked to end, one that waits for a FIFO does not.
fn run(sandbox: &Sandbox, args: &[&str]) -> Ended {
    sandbox.run_through(["timeout", "--signal=KILL", "60"], args)
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// A step with this input.
fn reads(input: &str) -> Sandbox {
    let spec = format!(
        "version: 1\ncommands:\n  a: {{argv: [cp, x, y], inputs: {{x: {{file: {input}}}}}, outputs: [y]}}\n  \
         b: {{argv: [touch, y], outputs: [y]}}\n"
    );
    Sandbox::new().file("spec.yaml", spec)
}

#[test]
fn a_device_as_an_input_fails_its_step_at_once() {
    for device in ["/dev/zero", "/dev/stdin", "/dev/random"] {
        let ended = run(&reads(device), &["run", "spec.yaml"]).code(1);
        ended
            .stderr_has(&format!("failed to read {device}"))
            .stderr_has("not a regular file")
            .stderr_has("ok    command:b");
    }
}

#[test]
fn a_fifo_as_an_input_fails_its_step_at_once() {
    let sandbox = reads("pipe");
    fifo(&sandbox.path("pipe"));
    run(&sandbox, &["run", "spec.yaml"])
        .code(1)
        .stderr_has("pipe")
        .stderr_has("it is a FIFO and not a regular file");
}

#[test]
fn a_fifo_in_a_folder_fails_the_step_that_reads_the_folder() {
    let sandbox = reads("folder").file("folder/file", "x");
    fifo(&sandbox.path("folder/pipe"));
    run(&sandbox, &["run", "spec.yaml"])
        .code(1)
        .stderr_has("folder/pipe is not a regular file");
}

#[test]
fn a_spec_that_is_no_file_is_refused() {
    let sandbox = Sandbox::new();
    fifo(&sandbox.path("spec.yaml"));
    run(&sandbox, &["run", "spec.yaml"])
        .code(2)
        .stderr_has("failed to read spec.yaml: it is a FIFO");
    run(&sandbox, &["run", "/dev/zero"])
        .code(2)
        .stderr_has("failed to read /dev/zero: it is a device or a socket");
    fifo(&sandbox.path("orch.toml"));
    let sandbox = sandbox.file(
        "good.yaml",
        "version: 1\ncommands: {a: {argv: [touch, y], outputs: [y]}}\n",
    );
    run(&sandbox, &["run", "good.yaml"]).stderr_has("failed to read orch.toml: it is a FIFO");
}

#[test]
fn only_a_file_with_a_spec_s_name_is_looked_into() {
    let sandbox = Sandbox::new()
        .file("secret", "password: hunter2\n")
        .env("TOKEN", "hunter2");
    std::os::unix::fs::symlink(sandbox.path("secret"), sandbox.path("linked.yaml")).unwrap();
    for name in ["/proc/self/environ", "secret", "linked.yaml"] {
        let sandbox =
            Sandbox::new().file("spec.yaml", format!("version: 1\ninclude: ['{name}']\n"));
        let _ = fs::write(sandbox.path("secret"), "password: hunter2\n");
        let _ = std::os::unix::fs::symlink("secret", sandbox.path("linked.yaml"));
        let sandbox = sandbox.env("TOKEN", "hunter2");
        let ended = run(&sandbox, &["run", "spec.yaml"])
            .code(2)
            .stderr_has("spec.yaml:2:")
            .stderr_lacks("hunter2");
        ended.stderr_has("only files named `*.yaml` or `*.yml` can be included");
    }
}

#[test]
fn a_mistake_in_a_long_line_shows_a_short_part_of_it() {
    let line = format!(
        "{{argv: [{}], output: [x], note\u{1b}[31m: {}}}",
        "a, ".repeat(5000),
        "b".repeat(5000)
    );
    let sandbox = Sandbox::new().file("spec.yaml", format!("version: 1\ncommands:\n  a: {line}\n"));
    let ended = run(&sandbox, &["run", "spec.yaml"]).code(2);
    assert!(
        ended.stderr.lines().all(|line| line.chars().count() < 300),
        "{}",
        ended.stderr
    );
    ended.stderr_lacks("\u{1b}");
}

#[test]
fn a_chain_of_includes_is_reported_where_it_is_too_long() {
    let sandbox = Sandbox::new().file("0.yaml", "version: 1\ninclude: [1.yaml]\n");
    for at in 1..3000 {
        sandbox.write(
            &format!("{at}.yaml"),
            format!("include: [{}.yaml]\n", at + 1),
        );
    }
    sandbox.write(
        "3000.yaml",
        "commands: {a: {argv: [touch, y], outputs: [y]}}\n",
    );
    let ended = run(&sandbox, &["run", "0.yaml"]).code(2);
    ended
        .stderr_has("63.yaml:1:11: 64.yaml is included by")
        .stderr_has("64 deep")
        .stderr_has("hint: ");
}

#[test]
fn of_a_spec_of_too_many_files_the_first_one_too_many_is_named() {
    let sandbox = Sandbox::new();
    let names: Vec<_> = (0..10_000).map(|at| format!("'p/{at}.yaml'")).collect();
    for at in 0..10_000 {
        sandbox.write(&format!("p/{at}.yaml"), "{}");
    }
    sandbox.write(
        "spec.yaml",
        format!("version: 1\ninclude: [{}]\n", names.join(", ")),
    );
    let ended = run(&sandbox, &["run", "spec.yaml"]).code(2);
    ended
        .stderr_has("p/9999.yaml is one file too many: a spec may have at most 10000")
        .stderr_has("spec.yaml:2:");
}

#[test]
fn a_spec_without_end_is_refused() {
    let sandbox = Sandbox::new();
    fs::File::create(sandbox.path("spec.yaml"))
        .unwrap()
        .set_len((1 << 30) + 1)
        .unwrap();
    run(&sandbox, &["run", "spec.yaml"])
        .code(2)
        .stderr_has("it has more than 1024 MiB");
}
