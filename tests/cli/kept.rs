//! Failures that stand: told again with their date, and met again only if asked, or if something changed.

use serde_json::Value;

use crate::onnx::{RIGHT, expected};
use crate::ready_onnx::sandbox;
use crate::support::Sandbox;

const RUN: [&str; 3] = ["run", "specs/all.yaml", "--json"];
const WRONG: [f32; 3] = [41.5, 51.5, 60.];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&RUN[..], more].concat()
}

/// What a run says, without what differs between two runs that found the same.
fn lasting(mut document: Value) -> Value {
    document["summary"]["seconds"] = Value::Null;
    document["run"] = Value::Null;
    document["summary"]["path"] = Value::Null;
    // How much memory is free at the moment.
    document["backends"] = Value::Null;
    document
}

#[test]
fn a_known_failure_leaves_nothing_to_do() {
    let sandbox = sandbox(WRONG);
    let first = sandbox
        .run(RUN)
        .code(1)
        .summary([("failed", 2), ("passed", 0)])
        .json();
    let second = sandbox
        .run(RUN)
        .code(1)
        .stderr_lacks("FAIL  ")
        .summary([("executed", 0), ("failed", 2), ("failed_before", 2)])
        .json();
    assert_eq!(second["summary"]["path"], "memo", "{second:#}");
    for (before, now) in first["cases"]
        .as_array()
        .unwrap()
        .iter()
        .zip(second["cases"].as_array().unwrap())
    {
        assert_eq!(
            (&before["known_since"], &now["status"]),
            (&Value::Null, &"NUMERICS".into()),
            "{now:#}"
        );
        for same in ["measured", "reason", "stage", "repro"] {
            assert_eq!(before[same], now[same], "{same}");
        }
        assert!(
            now["known_since"].as_str().unwrap() >= now["measured"].as_str().unwrap(),
            "{now:#}"
        );
    }
    // The long way says the same.
    let text = sandbox.run(["run", "specs/all.yaml"]).code(1);
    std::fs::remove_dir_all(sandbox.store("memos")).unwrap();
    let long = sandbox.run(RUN).code(1).summary([("executed", 0)]).json();
    assert_eq!(long["summary"]["path"], "full");
    assert_eq!(lasting(long), lasting(second));
    std::fs::remove_dir_all(sandbox.store("memos")).unwrap();
    let long = sandbox.run(["run", "specs/all.yaml"]).code(1);
    assert_eq!(
        (long.stdout.lines().count(), &long.stderr),
        (text.stdout.lines().count(), &text.stderr)
    );

    let plan = sandbox.run(["plan", "specs/all.yaml"]).success();
    plan.stdout_has(" 0 would run")
        .stdout_has("2 failed before and are kept (`orch run --rerun failed` runs them)");
    let all = sandbox.run(["plan", "specs/all.yaml", "--all"]).success();
    all.stdout_has("failed before: NUMERICS: ")
        .stdout_has("; kept since 20");
    let explained = sandbox
        .run(["explain", "*:linear:cpu-fp32", "--spec", "specs/all.yaml"])
        .success();
    explained
        .stdout_has("failed before; a standing failure")
        .stdout_has("NUMERICS: ");
    sandbox
        .run(["report", "specs/all.yaml"])
        .success()
        .stdout_has("NUMERICS");
}

#[test]
fn it_is_met_again_if_requested_or_if_what_it_reads_changed() {
    let sandbox = sandbox(WRONG);
    sandbox.run(with(&["-t", "cpu"])).code(1);
    sandbox
        .run(with(&["-t", "cpu"]))
        .code(1)
        .summary([("executed", 0)]);
    for ask in [["--rerun", "failed"], ["--step", "failed"]] {
        let again = sandbox.run(with(&["-t", "cpu", ask[0], ask[1]])).code(1);
        let again = again
            .stderr_has("FAIL  ")
            .stderr_has("NUMERICS")
            .stderr_lacks("generate:linear");
        again.stderr_has("ok    run:linear:cpu-fp32");
    }
    sandbox
        .run(with(&["-t", "cpu"]))
        .code(1)
        .stderr_lacks("run:linear")
        .stderr_lacks("FAIL  ");
    sandbox.write("models/expected/output_0.pb", expected(RIGHT));
    sandbox
        .run(with(&["-t", "cpu"]))
        .success()
        .summary([("passed", 1)]);
    // What failed with the older key is known still, and can be asked for although it is not the latest.
    sandbox.write("models/expected/output_0.pb", expected(WRONG));
    sandbox
        .run(with(&["-t", "cpu"]))
        .code(1)
        .summary([("failed", 1)])
        .stderr_lacks("FAIL  ");
    sandbox
        .run(with(&["-t", "cpu", "--rerun", "failed"]))
        .code(1)
        .stderr_has("ok    run:")
        .stderr_has("FAIL  ");
}

#[test]
fn what_a_failure_takes_along_is_known_with_it() {
    let sandbox = sandbox(RIGHT);
    let good = std::fs::read(sandbox.path("models/linear.onnx")).unwrap();
    sandbox.write("models/linear.onnx", "no model");
    let first = sandbox.run(RUN).code(1).summary([("failed", 2)]).json();
    let second = sandbox
        .run(RUN)
        .code(1)
        .summary([("executed", 0), ("failed", 2)])
        .json();
    assert_eq!(second["summary"]["path"], "memo", "{second:#}");
    assert_eq!(first["cases"][0]["stage"], "generate", "{first:#}");
    let case = &second["cases"][0];
    assert_eq!(
        (&case["stage"], &case["cached"]),
        (&"generate".into(), &true.into())
    );
    assert!(
        case["known_since"].is_string() && case["measured"].is_null(),
        "{case:#}"
    );
    sandbox
        .run(with(&["--fail-fast"]))
        .code(1)
        .summary([("executed", 0), ("failed", 2)]);
    sandbox.write("models/linear.onnx", good);
    sandbox.run(RUN).success().summary([("passed", 2)]);
}

#[test]
fn an_expected_failure_is_not_run_every_time() {
    let sandbox = sandbox(WRONG);
    let expect =
        "matrix:\n  expect:\n    - {model: linear, status: NUMERICS, reason: wrong weights}\n";
    sandbox.write("specs/all.yaml", sandbox.read("specs/all.yaml") + expect);
    sandbox
        .run(RUN)
        .success()
        .summary([("xfailed", 2), ("failed", 0)]);
    let second = sandbox
        .run(RUN)
        .success()
        .summary([("xfailed", 2), ("executed", 0)])
        .json();
    assert_eq!(second["summary"]["path"], "memo");
}

#[test]
fn failures_are_handed_to_nobody() {
    let ours = sandbox(WRONG);
    ours.run(with(&["-t", "cpu"])).code(1);
    let incomplete = [
        "cache",
        "export",
        "x.tar",
        "specs/all.yaml",
        "-t",
        "cpu",
        "--require-complete",
    ];
    ours.run(incomplete).code(2).stderr_has(":linear:cpu-fp32");
    ours.run(["cache", "export", "x.tar", "specs/all.yaml", "-t", "cpu"])
        .success();
    ours.run(["cache", "import", "x.tar"]).success();
    let theirs = sandbox(WRONG);
    let archive = ours.path("x.tar");
    theirs
        .run(["cache", "import", archive.to_str().unwrap()])
        .success();
    let ended = theirs
        .run(with(&["-t", "cpu"]))
        .code(1)
        .stderr_has("FAIL  ");
    ended.stderr_lacks("ok    generate:linear\n");
}

#[test]
fn a_changed_source_beside_a_known_failure_is_all_that_runs() {
    let sandbox = sandbox(WRONG).file("words.txt", "a\n");
    let command = "commands:\n  words: {argv: [cp, words.txt, out], inputs: {words.txt: {file: ../words.txt}}, outputs: [out]}\n";
    sandbox.write("specs/all.yaml", sandbox.read("specs/all.yaml") + command);
    sandbox.run(RUN).code(1);
    sandbox.write("words.txt", "b\n");
    let ended =
        sandbox
            .run(RUN)
            .code(1)
            .summary([("executed", 1), ("failed", 2), ("failed_before", 2)]);
    ended.stderr_has("ok    command:words");
    sandbox
        .run(RUN)
        .code(1)
        .summary([("executed", 0), ("failed_before", 2)]);
}

/// Orch does not know what else a program reads.
#[test]
fn a_command_that_failed_runs_again() {
    let sandbox = Sandbox::new().file("broken", "");
    let spec = format!(
        "version: 1\ncommands:\n  one: {{argv: [sh, -c, 'test ! -e {} && echo x > out'], outputs: [out]}}\n",
        sandbox.path("broken").display()
    );
    sandbox.write("specs/all.yaml", spec);
    sandbox.run(RUN).code(1);
    sandbox.run(RUN).code(1).stderr_has("FAIL  command:one");
    sandbox
        .run(["plan", "specs/all.yaml"])
        .success()
        .stdout_has("last time: FAIL, which may end differently now");
    std::fs::remove_file(sandbox.path("broken")).unwrap();
    sandbox.run(RUN).success();
}

/// A page's reproducers repeat what the run was told, and so must who asks whether the page is up to date.
#[test]
fn after_a_run_with_unusual_places_nothing_would_run() {
    let sandbox = sandbox(RIGHT);
    sandbox.write("models/linear.onnx", "no model");
    sandbox
        .run(["run", "specs/all.yaml", "--cache-dir", "elsewhere"])
        .code(1);
    let text = sandbox
        .run(["run", "specs/all.yaml", "--cache-dir", "elsewhere"])
        .code(1);
    text.stdout_has("  known since 20")
        .stdout_has(", 1 failed before (`--rerun failed` executes them)");
    sandbox
        .run(["plan", "specs/all.yaml", "--cache-dir", "elsewhere"])
        .success()
        .stdout_has(" 0 would run");
}
