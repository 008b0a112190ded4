//! A mistyped name is no regression: what cannot be read or written is exit code 2, and known before anything runs.

use std::fs;

use crate::onnx::RIGHT;
use crate::ready_onnx;
use crate::support::{Sandbox, WITHOUT_DEVICE};

/// A command that any machine has.
const SPEC: &str = "version: 1
commands:
  a: {argv: [sh, -c, 'echo a > out'], outputs: [out]}
";

/// A sandbox in which `plain` is a file, and no folder.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new()
        .file("plain", "")
        .file("report.json", include_str!("../fixtures/report/doc.json"));
    sandbox.write("specs/all.yaml", SPEC);
    sandbox
}

#[test]
fn what_cannot_be_written_is_known_before_anything_runs() {
    let sandbox = sandbox();
    for place in ["plain/deeper", "/proc/orch/deeper", "/dev/null/deeper"] {
        for option in ["--out-dir", "--trace", "--cache-dir"] {
            for command in ["run", "bench"] {
                let told = sandbox
                    .run([command, "specs/all.yaml", option, place])
                    .code(2);
                assert!(
                    told.stderr.contains(place.split("/deeper").next().unwrap()),
                    "{command} {option}: {}",
                    told.stderr
                );
            }
        }
    }
    sandbox
        .run(["history", "1"])
        .code(2)
        .stderr_has("no run is called `1`");
    sandbox.write("specs/model.yaml", WITHOUT_DEVICE);
    sandbox
        .run(["verify", "specs/model.yaml", "--out-dir", "plain/x"])
        .code(2)
        .stderr_has("plain` is no folder");
    sandbox
        .run(["run", "specs/all.yaml", "--trace", "specs"])
        .code(2)
        .stderr_has("it is a folder");
    assert!(!sandbox.path("orch-out").exists());
    // What is written to is no file that is replaced.
    sandbox
        .run(["run", "specs/all.yaml", "--trace", "/dev/null"])
        .success();
    sandbox
        .run(["history", "1"])
        .success()
        .stdout_has("command:a");
}

/// Each place where a file's name is given, with one that cannot be.
#[test]
fn a_file_that_cannot_be_read_or_written_is_no_failed_case() {
    let sandbox = sandbox();
    sandbox
        .run(["run", "specs/all.yaml", "--out-dir", "elsewhere"])
        .success();
    let none = "none.json";
    let nowhere = "/proc/orch/x";
    let taken = "plain/x";
    let report = "report.json";
    for arguments in [
        &["compare", none][..],
        &["compare", none, report],
        &["compare", report, none],
        &["compare", report, report],
        &["compare", "plain", report],
        &["compare", report, report, "--output", nowhere],
        &["site", "pages"],
        &["site", "pages", "--report", none],
        &["site", taken, "--report", report],
        &["site", "pages", "--report", report, "--since", none],
        &["report", "specs/all.yaml", "--merge", none],
        &["report", "specs/all.yaml", "--merge", report, none],
        &[
            "report",
            "specs/all.yaml",
            "--merge",
            report,
            "--output",
            nowhere,
        ],
        &["report", "specs/none.yaml"],
        &["run", "specs/none.yaml"],
        &["plan", "specs/none.yaml"],
        &["cache", "import", none],
        &["cache", "import", "plain"],
        &["cache", "export", nowhere, "--all"],
        &["cache", "gc", "--max-age", "1d", "--keep", none],
        &["output", "command:a", "--to", taken],
        &["matrix", none],
        &["matrix"],
        &["capabilities", "--update", none],
        &["capabilities", "--table", "plain"],
        &["init", taken],
        &["cache", "stats", "--cache-dir", taken],
        &["setup", "ort", "--env-dir", taken],
        &["run", "specs/all.yaml", "--locks", none],
    ] {
        let told = sandbox.run(arguments);
        assert_eq!(
            told.code,
            Some(2),
            "{arguments:?}: {}{}",
            told.stdout,
            told.stderr
        );
        assert!(
            told.stderr.contains("error: "),
            "{arguments:?}: {}",
            told.stderr
        );
    }
}

#[test]
fn a_plan_fails_where_a_run_would_and_says_in_which_row() {
    let sandbox = ready_onnx::sandbox(RIGHT);
    let run = ["run", "specs/all.yaml"];
    let plan = ["plan", "specs/all.yaml"];
    sandbox.run(plan).success();
    let spec = sandbox.read("specs/all.yaml");
    let line = 1 + spec.lines().position(|line| line == "  linear:").unwrap();
    let other = spec
        .split("  linear:\n")
        .nth(1)
        .unwrap()
        .replace("models/linear", "models/other");
    sandbox.write("specs/all.yaml", format!("{spec}  other:\n{other}"));
    let other = 1 + sandbox
        .read("specs/all.yaml")
        .lines()
        .position(|line| line == "  other:")
        .unwrap();
    fs::remove_file(sandbox.path("models/linear.onnx")).unwrap();
    let told = sandbox.run(plan).code(2);
    for (line, name) in [(line, "linear"), (other, "other")] {
        let row = format!(
            "error: `generate:{name}` cannot begin: specs/all.yaml:{line}:3: failed to read [DIR]/"
        );
        assert!(told.stderr.contains(&row), "{row}\n{}", told.stderr);
        assert!(
            told.stderr
                .contains(&format!("models/{name}.onnx: No such file")),
            "{}",
            told.stderr
        );
    }
    sandbox.run(["plan", "specs/all.yaml", "--json"]).code(2);
    // Two files are two things to mend, and both are named.
    let told = sandbox.run(run).code(1);
    for name in ["linear", "other"] {
        assert!(
            told.stdout
                .contains(&format!("models/{name}.onnx: No such file")),
            "{}",
            told.stdout
        );
    }
    // What a part does not need, it does not miss.
    sandbox.write("models/linear.onnx", crate::onnx::linear());
    sandbox
        .run(["plan", "specs/all.yaml", "-m", "linear"])
        .success();
}
