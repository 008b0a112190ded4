//! What is handed out is of the spec as it is now, and people's copies are no part of the store.

use std::fs;

use crate::support::Sandbox;

const SPEC: &str = "version: 1
commands:
  copy: {argv: [sh, -c, 'cat in > out; echo read $(cat in)'], inputs: {in: {file: in.txt}}, outputs: [out]}
  tool: {argv: [sh, -c, 'echo tool > run; chmod +x run'], outputs: [run]}
";
const RUN: [&str; 3] = ["run", "spec.yaml", "--json"];
const OUTPUT: [&str; 6] = [
    "output",
    "command:copy",
    "--spec",
    "spec.yaml",
    "--cat",
    "out",
];

fn write(sandbox: &Sandbox, text: &str) {
    sandbox.write("in.txt", text);
    sandbox.run(RUN).success();
}

/// A, then B, then A again: the last one to be executed was B.
fn there_and_back() -> Sandbox {
    let sandbox = Sandbox::new().file("spec.yaml", SPEC);
    write(&sandbox, "A");
    write(&sandbox, "B");
    sandbox.write("in.txt", "A");
    sandbox.run(RUN).success().summary([("executed", 0)]);
    sandbox
}

#[test]
fn output_is_that_of_the_current_key() {
    let sandbox = there_and_back();
    assert_eq!(sandbox.run(OUTPUT).success().stdout, "A");
    assert_eq!(
        sandbox
            .run(["output", "command:copy", "--latest", "--cat", "out"])
            .success()
            .stdout,
        "B"
    );
    let key = |args: &[&str]| sandbox.run(args).success().json()["key"].clone();
    let current = key(&["output", "command:copy", "--spec", "spec.yaml", "--json"]);
    assert_ne!(
        current,
        key(&["output", "command:copy", "--latest", "--json"])
    );
    let explained = sandbox
        .run(["explain", "command:copy", "--spec", "spec.yaml", "--json"])
        .success()
        .json();
    assert_eq!(explained[0]["key"], current);
    // What it printed is kept of the last execution alone, and said to be that.
    let log = ["log", "command:copy", "--spec", "spec.yaml"];
    sandbox
        .run(log)
        .success()
        .stdout_has("read B")
        .stderr_has("was of another definition than spec.yaml has now");
    assert_eq!(
        sandbox.run([&log[..], &["--json"]].concat()).json()[0]["current"],
        false
    );
    write(&sandbox, "C");
    sandbox
        .run(log)
        .success()
        .stdout_has("read C")
        .stderr_lacks("note:");
    assert_eq!(
        sandbox.run([&log[..], &["--json"]].concat()).json()[0]["current"],
        true
    );
}

#[test]
fn where_nothing_is_held_it_says_so_and_how_to_make_it() {
    let sandbox = there_and_back();
    sandbox.write("in.txt", "D");
    let ended = sandbox.run(OUTPUT).code(3);
    ended
        .stderr_has("the store holds nothing for `command:copy` as spec.yaml has it now")
        .stderr_has("--latest gives");
    let ended = sandbox.run(OUTPUT).stdout_lacks("A");
    ended.stderr_has("hint: `orch run spec.yaml --step 'command:copy'");
    sandbox
        .run(["output", "command:copy"])
        .code(2)
        .stderr_has("name it after the step, or ask with --latest");
    sandbox.write("spec.yaml", SPEC.replace("copy:", "copies:"));
    sandbox
        .run(OUTPUT)
        .code(2)
        .stderr_has("no step of spec.yaml is called `command:copy`")
        .stderr_has("--latest gives");
    sandbox.write(
        "spec.yaml",
        SPEC.replace("'cat in", "'false; exit 1; cat in"),
    );
    sandbox.run(RUN).code(1);
    sandbox
        .run(OUTPUT)
        .code(3)
        .stderr_has("`command:copy` made nothing when it was executed")
        .stderr_has("FAIL");
}

#[test]
fn copies_are_no_links_and_replace_nothing_of_others() {
    let sandbox = there_and_back();
    let to = |more: &[&str]| {
        let args = [
            "output",
            "command:copy",
            "--spec",
            "spec.yaml",
            "--to",
            "got",
        ];
        sandbox.run([&args[..], more].concat())
    };
    to(&[]).success();
    // As a careless program with all rights would.
    fs::write(sandbox.path("got/out"), "spoilt").unwrap();
    assert_eq!(sandbox.run(OUTPUT).success().stdout, "A");
    to(&[])
        .code(2)
        .stderr_has("`got/out` already exists with other content, so nothing was copied");
    assert_eq!(sandbox.read("got/out"), "spoilt");
    to(&["--force"]).success();
    assert_eq!(sandbox.read("got/out"), "A");
    // What the store holds is no loss.
    sandbox.write("got/out", "B");
    to(&[]).success();
    assert_eq!(sandbox.read("got/out"), "A");
    sandbox
        .run([
            "output",
            "command:tool",
            "--spec",
            "spec.yaml",
            "--to",
            "bin",
        ])
        .success();
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(sandbox.path("bin/run")).unwrap().permissions(),
    );
    assert!(mode & 0o300 == 0o300, "{mode:o}");
}
