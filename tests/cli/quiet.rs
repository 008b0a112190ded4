//! Latencies that are not quiet: marked wherever they stand, and measured again as long as the user allows it. Whether the
//! machine is busy, a library says in place of `/proc`.

use serde_json::Value;

use crate::ready_onnx::SPEC;
use crate::strict;
use crate::support::{Ended, Sandbox};

const RUN: [&str; 5] = ["run", "specs/all.yaml", "-t", "cpu", "--json"];
const STEP: &str = "run:linear:cpu-fp32";

/// How often the timed run was executed.
fn executed(sandbox: &Sandbox, arguments: &[&str]) -> (Ended, usize) {
    let ended = sandbox.run([&RUN[..], arguments, &["-vv"]].concat());
    let count = ended.stderr.matches(&format!("begin {STEP} ")).count();
    (ended, count)
}

fn metrics(document: &Value) -> &Value {
    &document["cases"][0]["metrics"]
}

#[test]
fn a_figure_that_is_not_quiet_carries_its_mark_in_every_format() {
    let sandbox = strict::sandbox().file("busy", "");
    let document = sandbox
        .run([&RUN[..], &["--remeasure", "0"]].concat())
        .success()
        .json();
    let found = metrics(&document);
    let doubts = found["not_quiet"].as_array().unwrap();
    assert!(doubts.contains(&"disturbed".into()), "{found:#}");
    let told = "1 of 1 latencies are not quiet";
    let console = sandbox
        .run(["report", "specs/all.yaml", "-t", "cpu", "--format", "text"])
        .success();
    console.stdout_has(told).stdout_has("✓ ~");
    assert!(sandbox.read("orch-out/report/matrix.md").contains("✓ \\~"));
    let page = sandbox.read("orch-out/report/index.html");
    assert!(
        page.contains("<span class=\"word\">~") && page.contains(told),
        "{page}"
    );
    sandbox.run(["site", "site"]).success();
    assert!(
        sandbox.read("site/models/linear.html").contains(">~"),
        "{}",
        sandbox.read("site/models/linear.html")
    );
}

#[test]
fn what_is_not_quiet_is_measured_again_as_long_as_that_is_allowed() {
    let sandbox = strict::sandbox().file("busy", "");
    // Twice more, and then what remains stands, with its mark.
    let (ended, count) = executed(&sandbox, &["--remeasure", "600"]);
    let document = ended.success().summary([("passed", 1)]).json();
    assert_eq!(
        (count, metrics(&document)["not_quiet"].is_array()),
        (3, true)
    );
    sandbox
        .run(["explain", STEP, "specs/all.yaml"])
        .success()
        .stdout_has("measured again: its latency was not quiet");
    // It is a result like any other, and no reason to measure at the next run.
    let (ended, _) = executed(&sandbox, &["--remeasure", "600"]);
    ended.success().summary([("executed", 0)]);
    // A spec may say so as well, and the command line has the last word.
    sandbox.write(
        "specs/all.yaml",
        SPEC.replace("samples: 6", "samples: 7, remeasure_seconds: 0"),
    );
    assert_eq!(executed(&sandbox, &[]).1, 1);
    assert_eq!(
        executed(&sandbox, &["--rerun", "run", "--remeasure", "600"]).1,
        3
    );
    assert_eq!(
        executed(&sandbox, &["--rerun", "run", "--remeasure", "0"]).1,
        1
    );
}

#[test]
fn a_quiet_moment_later_counts() {
    let sandbox = strict::sandbox().file("busy", "");
    let arguments = [&RUN[..], &["--remeasure", "600", "-vv"]].concat();
    let mut child = sandbox.spawn(arguments);
    strict::until(&mut child, "measured again");
    std::fs::remove_file(sandbox.path("busy")).unwrap();
    let document = sandbox.wait(child).success().json();
    assert!(
        !metrics(&document)["remarks"]
            .to_string()
            .contains(strict::STOLEN),
        "{document:#}"
    );
}
