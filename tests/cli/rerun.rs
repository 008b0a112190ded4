//! What reruns after a change, what does not, and the reasons that are given.

use std::fs;

use crate::support::Sandbox;

const RUN: [&str; 3] = ["run", "specs/all.yaml", "--json"];

/// words.txt → sorted → first; other.txt → aside.
const CHAIN: &str = "version: 1
commands:
  sorted:
    argv: [sh, -c, 'sort -u words.txt > sorted.txt']
    inputs: {words.txt: {file: ../data/words.txt}}
    outputs: [sorted.txt]
  first:
    argv: [sh, -c, 'head -n 1 in/sorted.txt > first.txt']
    inputs: {in: {step: 'command:sorted'}}
    outputs: [first.txt]
  aside:
    argv: [sh, -c, 'cp other.txt copy.txt']
    inputs: {other.txt: {file: ../data/other.txt}}
    outputs: [copy.txt]
";

fn chain() -> Sandbox {
    Sandbox::new()
        .file("specs/all.yaml", CHAIN)
        .file("data/words.txt", "b\na\n")
        .file("data/other.txt", "x")
}

#[test]
fn an_unchanged_output_stops_the_wave() {
    let sandbox = chain();
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 3), ("hits", 0)]);
    sandbox.write("data/words.txt", "a\nb\nb\n");
    let ended = sandbox
        .run(RUN)
        .success()
        .stderr_has("ok    command:sorted")
        .stderr_lacks("command:first");
    ended
        .stderr_lacks("command:aside")
        .summary([("executed", 1), ("hits", 2)]);
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 0), ("hits", 3)]);
}

#[test]
fn a_changed_input_reruns_its_descendants_and_says_which_line_changed() {
    let sandbox = chain();
    sandbox.run(RUN).success();
    sandbox.write("data/words.txt", "0\nb\na\n");
    let plan = sandbox.run(["plan", "specs/all.yaml"]).success();
    let plan = plan
        .stdout_has("run  command:sorted")
        .stdout_has("input.words.txt changed (")
        .stdout_has(" => ");
    plan.stdout_has("run  command:first   after command:sorted")
        .stdout_lacks("command:aside");
    let before = sandbox
        .run(["explain", "command:sorted", "--spec", "specs/all.yaml"])
        .success();
    before
        .stdout_has("would run")
        .stdout_has("input.words.txt changed (")
        .stdout_has("last executed");
    let ended = sandbox
        .run(RUN)
        .success()
        .stderr_has("ok    command:sorted")
        .stderr_has("ok    command:first");
    ended
        .stderr_lacks("command:aside")
        .summary([("executed", 2), ("hits", 1)]);
}

#[test]
fn a_changed_parameter_names_old_and_new() {
    let sandbox = chain();
    sandbox.run(RUN).success();
    sandbox.write("specs/all.yaml", CHAIN.replace("head -n 1", "head -n 2"));
    let explained = sandbox
        .run([
            "explain",
            "command:first",
            "--spec",
            "specs/all.yaml",
            "--json",
        ])
        .success()
        .json();
    assert_eq!(explained[0]["verdict"], "would run");
    let reason = explained[0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("param.argv changed ("), "{reason}");
    assert!(
        reason.contains("head -n 1 in/sorted.txt") && reason.contains("head -n 2 in/sorted.txt"),
        "{reason}"
    );
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 1), ("hits", 2)]);
}

#[test]
fn comments_and_the_order_of_keys_rerun_nothing() {
    let sandbox = chain();
    sandbox.run(RUN).success();
    let spec = "# Another comment.
commands:
  aside: {outputs: [copy.txt], inputs: {other.txt: {file: ../data/other.txt}}, argv: [sh, -c, 'cp other.txt copy.txt']}
  first:
    outputs: [\"first.txt\"] # the same
    inputs: {in: {step: 'command:sorted'}}
    argv: [sh, -c, 'head -n 1 in/sorted.txt > first.txt']
  sorted:
    timeout_seconds: 100
    outputs: [sorted.txt]
    argv: [sh, -c, 'sort -u words.txt > sorted.txt']
    inputs: {words.txt: {file: ../data/words.txt}}
version: 1
";
    sandbox.write("specs/all.yaml", spec);
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 0), ("hits", 3)]);
}

#[test]
fn a_checkout_at_another_place_with_other_times_hits() {
    let first = chain();
    first.run(RUN).success().summary([("executed", 3)]);
    let second = chain().cache_of(&first);
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(86_400 * 365);
    for name in ["specs/all.yaml", "data/words.txt", "data/other.txt"] {
        fs::File::options()
            .write(true)
            .open(second.path(name))
            .unwrap()
            .set_modified(old)
            .unwrap();
    }
    second
        .run(RUN)
        .success()
        .summary([("executed", 0), ("hits", 3)]);
    // Once more with the digests of settled files on record.
    second
        .run(RUN)
        .success()
        .summary([("executed", 0), ("hits", 3)]);
}

#[test]
fn a_file_changed_without_a_change_of_size_is_noticed() {
    let sandbox = chain();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
    let age = |name: &str| {
        fs::File::options()
            .write(true)
            .open(sandbox.path(name))
            .unwrap()
            .set_modified(old)
            .unwrap()
    };
    age("data/words.txt");
    sandbox.run(RUN).success();
    sandbox.write("data/words.txt", "c\nd\n");
    sandbox.run(RUN).success().summary([("executed", 2)]);
}

#[test]
fn what_fails_upstream_is_reported_downstream_and_mended_by_the_next_run() {
    let sandbox = chain();
    fs::remove_file(sandbox.path("data/words.txt")).unwrap();
    sandbox.run(RUN).code(1);
    sandbox.write("data/words.txt", "a\n");
    sandbox.run(RUN).success().summary([("failed", 0)]);
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 0), ("hits", 3)]);
}

/// Two steps one after the other; the first writes to a file of the second's, or to its own.
fn writes_to(file: &str) -> Sandbox {
    let sandbox = Sandbox::new().file("a.txt", "a\n").file("b.txt", "b\n");
    let target = sandbox.path(file);
    let spec = format!(
        "version: 1
commands:
  a: {{argv: [sh, -c, 'echo written > {}; cp in out'], inputs: {{in: {{file: ../a.txt}}}}, outputs: [out], writable: [..]}}
  b: {{argv: [cp, in, out], inputs: {{in: {{file: ../b.txt}}}}, outputs: [out]}}
",
        target.display()
    );
    sandbox.file("specs/all.yaml", spec)
}

#[test]
fn a_file_that_changes_before_its_step_starts_gets_a_key_of_its_new_content() {
    let sandbox = writes_to("b.txt");
    let one_by_one = ["run", "specs/all.yaml", "--json", "--jobs", "1"];
    sandbox.run(one_by_one).success().summary([("executed", 2)]);
    sandbox.write("b.txt", "written\n");
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 0), ("hits", 2)]);
    sandbox.write("b.txt", "b\n");
    sandbox
        .run(RUN)
        .success()
        .summary([("executed", 1), ("hits", 1)]);
}

#[test]
fn a_file_that_changes_while_its_step_runs_makes_no_hit() {
    let sandbox = writes_to("a.txt");
    let ended = sandbox
        .run(RUN)
        .code(1)
        .stderr_has("its input `in` ([DIR]/specs/../a.txt) changed while it ran; run again");
    ended.summary([("executed", 2)]);
}
