//! `orch matrix`: the last run's, as it was printed.

use crate::onnx::{RIGHT, expected};
use crate::ready_onnx::sandbox;
use crate::support::Sandbox;

#[test]
fn it_is_what_the_last_run_printed() {
    let sandbox = sandbox(RIGHT);
    let whole = sandbox.run(["run", "specs/all.yaml"]).success();
    let again = sandbox
        .run(["matrix"])
        .success()
        .stderr_has("orch-out/report/matrix.json, the run of ");
    assert_eq!(again.stdout, whole.stdout);
    sandbox.write("models/expected/output_0.pb", expected([41.5, 51.5, 60.]));
    let part = sandbox.run(["run", "specs/all.yaml", "-t", "cpu"]).code(1);
    let again = sandbox
        .run(["matrix"])
        .success()
        .stderr_has("orch-out/part/matrix.json")
        .stderr_has("(target:cpu)");
    assert_eq!(again.stdout, part.stdout);
    let json = sandbox.run(["matrix", "--json"]).success().stdout;
    assert_eq!(json, sandbox.read("orch-out/part/matrix.json"));
    let named = sandbox
        .run(["matrix", "orch-out/report/matrix.json"])
        .success()
        .stderr_has("is newer");
    assert_eq!(named.stdout, whole.stdout);
}

#[test]
fn where_nothing_ran_it_says_so() {
    let empty = Sandbox::new();
    empty
        .run(["matrix"])
        .code(2)
        .stderr_has("no run has left a report in `orch-out`")
        .stderr_has("hint: `orch run`");
    assert!(!empty.path("cache").exists());
}
