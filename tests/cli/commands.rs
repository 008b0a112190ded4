//! Steps of the user's own: what they see, what they leave, how they fail.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::{Sandbox, eventually, marker, processes_with};

const RUN: [&str; 3] = ["run", "spec.yaml", "--json"];

fn one(command: &str) -> Sandbox {
    Sandbox::new().file(
        "spec.yaml",
        format!("version: 1\ncommands:\n  one: {command}\n"),
    )
}

/// What the only command made.
fn made(sandbox: &Sandbox, name: &str) -> String {
    sandbox.output("command:one", name)
}

#[test]
fn it_reads_declared_inputs_and_makes_declared_outputs() {
    let sandbox = one("{argv: [sh, -c, 'wc -l < notes.txt > count.txt; echo x > undeclared'], inputs: {notes.txt: \
        {file: data/notes.txt}}, outputs: [count.txt]}")
    .file("data/notes.txt", "a\nb\n");
    sandbox.run(RUN).success().summary([
        ("steps", 1),
        ("executed", 1),
        ("hits", 0),
        ("cases", 0),
        ("failed", 0),
    ]);
    assert_eq!(made(&sandbox, "count.txt").trim(), "2");
    let listed = sandbox
        .run(["output", "command:one", "--json", "--spec", "spec.yaml"])
        .success()
        .json();
    assert_eq!(listed["files"].as_array().unwrap().len(), 1, "{listed}");
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 0), ("hits", 1)]);
}

#[test]
fn it_sees_declared_variables_only_and_their_values_are_in_its_key() {
    let sandbox = one("{argv: [sh, -c, 'echo \"${SEEN-unset} ${HIDDEN-unset}\" > out'], outputs: [out], env: [SEEN]}")
        .env("SEEN", "first")
        .env("HIDDEN", "secret");
    sandbox.run(RUN).success();
    assert_eq!(made(&sandbox, "out").trim(), "first unset");
    let sandbox = sandbox.env("HIDDEN", "other");
    sandbox.run(RUN).success().summary([("executed", 0)]);
    let sandbox = sandbox.env("SEEN", "second");
    sandbox
        .run(["explain", "command:one", "--spec", "spec.yaml"])
        .success()
        .stdout_has("the value of SEEN changed");
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 1), ("hits", 0)]);
}

/// What a program could tell one machine from another by: whether files are links, and modes.
#[test]
fn it_finds_the_same_whatever_the_size_the_sandbox_and_modes_are() {
    let list = "find . -mindepth 1 ! -name list -printf \"%p %y %m\\n\" | sort > list; tar cf - in own | wc -c >> list";
    let spec = format!(
        "version: 1
commands:
  large: {{argv: [sh, -c, 'head -c 3000000 /dev/zero > large; mkdir d; echo x > d/small'], outputs: [large, d]}}
  one:
    argv: [sh, -c, '{list}']
    inputs: {{in: {{step: 'command:large'}}, own: {{file: data}}}}
    outputs: [list]
"
    );
    let mut found = Vec::new();
    for (sandbox, umask, mode) in [("on", "022", 0o644), ("off", "077", 0o600)] {
        let home = Sandbox::new()
            .file("spec.yaml", &spec)
            .file("data/deep/notes.txt", "a\n")
            .env("ORCH_SANDBOX", sandbox);
        let notes = home.path("data/deep/notes.txt");
        fs::set_permissions(notes, fs::Permissions::from_mode(mode)).unwrap();
        let start = format!("umask {umask}; exec \"$@\"");
        home.run_through(["sh", "-c", &start, "sh"], &RUN).success();
        found.push(made(&home, "list"));
    }
    assert_eq!(found[0], found[1]);
    for line in [
        "./in/large f 644",
        "./in/d d 755",
        "./own/deep/notes.txt f 644",
    ] {
        assert!(found[0].lines().any(|told| told == line), "{}", found[0]);
    }
    let size = found[0].lines().last().unwrap();
    assert!(size.parse::<u64>().unwrap() > 3_000_000, "{size}");
}

/// Only what the spec lends is a link, with the sandbox and without.
#[test]
fn what_is_lent_is_a_link_and_its_key_another() {
    for sandbox in ["on", "off"] {
        let spec = |lend: &str| {
            format!(
                "version: 1
commands:
  large: {{argv: [sh, -c, 'echo x > small'], outputs: [small]}}
  one: {{argv: [sh, -c, 'find in -printf \"%p %y\\n\" | sort > list'], inputs: {{in: {{step: 'command:large'{lend}}}}}, outputs: [list]}}
"
            )
        };
        let home = Sandbox::new()
            .file("spec.yaml", spec(""))
            .env("ORCH_SANDBOX", sandbox);
        home.run(RUN).success();
        assert_eq!(made(&home, "list"), "in d\nin/small f\n");
        home.write("spec.yaml", spec(", lend: true"));
        home.run(RUN).success().summary([("executed", 1)]);
        assert_eq!(made(&home, "list"), "in d\nin/small l\n");
    }
    let file = one("{argv: [cat, in], inputs: {in: {file: in, lend: true}}, outputs: [out]}")
        .file("in", "x");
    file.run(RUN)
        .code(2)
        .stderr_has("input `in` is a file, and only what a step made can be lent");
}

#[test]
fn it_works_in_a_folder_of_its_own() {
    let sandbox = one(
        "{argv: [sh, -c, 'ls -A > out; pwd > where; ls -A \"$HOME\" >> out'], inputs: {a/in.txt: {file: \
        spec.yaml}}, outputs: [out, where]}",
    );
    sandbox.run(RUN).success();
    assert_eq!(made(&sandbox, "out"), "a\nout\n");
    let place = made(&sandbox, "where");
    assert!(
        !std::path::Path::new(place.trim()).exists(),
        "{place} is left behind"
    );
    assert!(
        sandbox.stored_files("tmp").is_empty(),
        "{:?}",
        sandbox.stored_files("tmp")
    );
}

#[test]
fn a_failure_has_the_last_line_the_log_and_how_to_run_it_again() {
    let sandbox = one("{argv: [sh, -c, 'echo first; echo no disk >&2; exit 3'], outputs: [out]}");
    for _ in 0..2 {
        let ended = sandbox.run(["run", "spec.yaml"]).code(1);
        let ended = ended
            .stderr_has("FAIL  command:one")
            .stderr_has("FAIL: `sh` ended with exit status: 3: no disk");
        ended
            .stderr_has("log: [DIR]/cache/v2/logs/command.one.log")
            .stderr_has("again: orch run spec.yaml --cache-dir [DIR]/cache --step 'command:one' --rerun 'command:one'");
    }
    assert_eq!(
        sandbox.read("cache/v2/logs/command.one.log"),
        "first\nno disk\n"
    );
    sandbox
        .run([
            "run",
            "spec.yaml",
            "--step",
            "command:one",
            "--rerun",
            "command:one",
        ])
        .code(1)
        .stderr_has("no disk");
    sandbox
        .run(["plan", "spec.yaml"])
        .success()
        .stdout_has("last time: FAIL, which may end differently now");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let sandbox = one("{argv: [no-such-program], outputs: [out]}");
    sandbox
        .run(RUN)
        .code(1)
        .stderr_has("failed to start `no-such-program`");
}

#[test]
fn files_of_fixed_content_are_written_without_a_program() {
    let rows = |text: &str| {
        format!(
            "version: 1\ncommands:\n  made: {{write: {{deep/a.txt: '{text}', b.txt: b}}}}\n  \
            two: {{argv: [cp, made/deep/a.txt, copy], inputs: {{made: {{step: 'command:made'}}}}, outputs: [copy]}}\n"
        )
    };
    let sandbox = Sandbox::new().file("spec.yaml", rows("first"));
    sandbox
        .run(RUN)
        .success()
        .summary([("steps", 2), ("executed", 2)]);
    assert_eq!(sandbox.output("command:two", "copy"), "first");
    assert_eq!(sandbox.output("command:made", "b.txt"), "b");
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 0), ("hits", 2)]);
    let sandbox = sandbox.file("spec.yaml", rows("second"));
    sandbox
        .run(["explain", "command:made", "--spec", "spec.yaml"])
        .success()
        .stdout_has("param.write.deep/a.txt changed (\"first\" => \"second\")");
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 2), ("hits", 0)]);
}

#[test]
fn an_output_that_was_not_made_is_a_failure() {
    let sandbox = one("{argv: [sh, -c, 'echo x > other'], outputs: [out]}");
    sandbox
        .run(RUN)
        .code(1)
        .stderr_has("`sh` ended well but did not make its declared output `out`");
    assert_eq!(sandbox.stats()["held"], 0);
}

#[test]
fn a_timeout_ends_grandchildren_too() {
    let marker = marker("timeout");
    let sandbox = one(&format!(
        "{{argv: [sh, -c, 'sh -c \"sleep 100; : {marker}\" & wait'], outputs: [out], timeout_seconds: 1}}"
    ));
    sandbox
        .run(RUN)
        .code(1)
        .stderr_has("TIMEOUT: it did not end within [TIME] s");
    eventually("the grandchildren are gone", || {
        processes_with(&marker).is_empty()
    });
}

#[test]
fn what_a_success_leaves_running_is_ended() {
    let marker = marker("daemon");
    let sandbox = one(&format!(
        "{{argv: [sh, -c, 'sh -c \"sleep 100; : {marker}\" & echo x > out'], outputs: [out]}}"
    ));
    sandbox.run(RUN).success();
    eventually("the background process is gone", || {
        processes_with(&marker).is_empty()
    });
}

#[test]
fn one_step_alone_is_executed_and_no_report_is_made() {
    let sandbox = Sandbox::new().file("spec.yaml", TWO);
    sandbox
        .run(["run", "spec.yaml", "--json", "--step", "command:a"])
        .success()
        .summary([("steps", 1), ("executed", 1)]);
    assert!(!sandbox.path("orch-out/report").exists());
    sandbox
        .run(["run", "spec.yaml", "--json"])
        .success()
        .summary([("executed", 1), ("hits", 1)]);
    sandbox
        .run(["run", "spec.yaml", "--json", "--rerun", "command:a"])
        .success()
        .summary([("executed", 1), ("hits", 1)]);
    sandbox
        .run(["run", "spec.yaml", "--json", "--rerun", "command"])
        .success()
        .summary([("executed", 2), ("hits", 0)]);
}

const TWO: &str = "version: 1
commands:
  a: {argv: [sh, -c, 'echo a > out'], outputs: [out]}
  b: {argv: [sh, -c, 'echo b > out'], outputs: [out]}
";

#[test]
fn fail_fast_starts_nothing_new() {
    let spec = "version: 1
commands:
  bad: {argv: ['false'], outputs: [out]}
  late: {argv: [sh, -c, 'echo x > out'], outputs: [out]}
";
    let sandbox = Sandbox::new().file("spec.yaml", spec);
    sandbox
        .run(["run", "spec.yaml", "--jobs", "1", "--fail-fast"])
        .code(1)
        .stderr_lacks("command:late");
    sandbox
        .run(["run", "spec.yaml", "--jobs", "1"])
        .code(1)
        .stderr_has("ok    command:late");
}

#[test]
fn the_number_of_jobs_changes_no_result() {
    let spec: String = (0..6).fold("version: 1\ncommands:\n".into(), |spec, n| {
        format!("{spec}  c{n}: {{argv: [sh, -c, 'echo {n} > out'], outputs: [out]}}\n")
    });
    let trees = |jobs: &str| {
        let sandbox = Sandbox::new().file("spec.yaml", &spec);
        sandbox
            .run(["run", "spec.yaml", "--jobs", jobs, "--json"])
            .success()
            .summary([("executed", 6)]);
        let tree = |n| {
            sandbox
                .run(["output", &format!("command:c{n}"), "--json", "--latest"])
                .success()
                .json()["tree"]
                .to_string()
        };
        (0..6).map(tree).collect::<std::collections::BTreeSet<_>>()
    };
    let one = trees("1");
    assert_eq!(one.len(), 6);
    assert_eq!(one, trees("2"));
}

const EQUAL: &str = "version: 1
commands:
  one: {argv: [sh, -c, 'echo x > out'], outputs: [out]}
  two: {argv: [sh, -c, 'echo x > out'], outputs: [out]}
";

/// It was told that the second one had run, and why.
#[test]
fn a_step_that_another_one_did_the_work_of_says_so() {
    let sandbox = Sandbox::new().file("spec.yaml", EQUAL);
    sandbox.run(["run", "spec.yaml", "--jobs", "1"]).success();
    let explained = |step: &str| {
        sandbox
            .run(["explain", step, "--spec", "spec.yaml"])
            .success()
            .stdout
    };
    let one = explained("command:one");
    let two = explained("command:two");
    assert!(
        one.contains("  executed ") && one.contains("it ran then because:\n    never ran"),
        "{one}"
    );
    assert!(
        two.contains("  command:one was executed ") && !two.contains("it ran then"),
        "{two}"
    );
    assert!(
        two.contains("  never ran itself: command:one had done the same (the key is one)"),
        "{two}"
    );
}
