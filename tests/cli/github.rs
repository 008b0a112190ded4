//! What a job of GitHub Actions shows of a run: annotations at rows of the spec, and the summary of the step.

use crate::onnx::RIGHT;
use crate::ready_onnx::sandbox;
use crate::support::Sandbox;

const WRONG: [f32; 3] = [41.5, 51.5, 60.];
const RUN: [&str; 4] = ["run", "specs/all.yaml", "-t", "cpu"];

fn on_github(sandbox: Sandbox) -> Sandbox {
    let root = sandbox.path("");
    let summary = sandbox.path("summary.md");
    let sandbox = sandbox
        .env("GITHUB_ACTIONS", "true")
        .env("GITHUB_WORKSPACE", root.to_str().unwrap());
    sandbox.env("GITHUB_STEP_SUMMARY", summary.to_str().unwrap())
}

#[test]
fn a_failure_is_reported_at_its_row_and_in_the_summary_each_time() {
    let sandbox = on_github(sandbox(WRONG));
    sandbox.write("summary.md", "before\n");
    let row = sandbox
        .read("specs/all.yaml")
        .lines()
        .position(|line| line == "  linear:")
        .unwrap()
        + 1;
    let told = format!(
        "::error file=specs/all.yaml,line={row},title=linear on cpu-fp32%3A NUMERICS::tensor"
    );
    let first = sandbox
        .run(RUN)
        .code(1)
        .stderr_has(&told)
        .stderr_has("%0Aagain: ");
    assert_eq!(
        first.stderr.matches("::error").count(),
        1,
        "{}",
        first.stderr
    );
    // The second time nothing is executed, and stdout is a document for a program.
    let again = sandbox
        .run([&RUN[..], &["--json"]].concat())
        .code(1)
        .stderr_has(&told);
    assert_eq!(again.json()["summary"]["executed"], 0);
    let summary = sandbox.read("summary.md");
    assert!(
        summary.starts_with("before\n# orch: specs/all.yaml\n"),
        "{summary}"
    );
    assert_eq!(summary.matches("# orch: ").count(), 2);
}

#[test]
fn a_run_that_is_well_annotates_nothing_and_elsewhere_nothing_is_written() {
    let sandbox = on_github(sandbox(RIGHT));
    sandbox.run(RUN).success().stderr_lacks("::error");
    assert!(sandbox.read("summary.md").contains("1 passed"));
    let sandbox = sandbox.env("GITHUB_ACTIONS", "");
    sandbox.run(RUN).success();
    assert_eq!(sandbox.read("summary.md").matches("# orch: ").count(), 1);
}

#[test]
fn a_summary_that_cannot_be_written_fails_no_run() {
    let sandbox = on_github(sandbox(RIGHT));
    std::fs::create_dir(sandbox.path("summary.md")).unwrap();
    sandbox
        .run(RUN)
        .success()
        .stderr_has("failed to write the summary of the step");
}

#[test]
fn where_hardware_may_be_absent_nothing_having_run_can_be_allowed() {
    let sandbox = sandbox(WRONG);
    let spec = sandbox.read("specs/all.yaml");
    sandbox.write(
        "specs/all.yaml",
        spec.replacen(
            "runtime: ort, backend: cpu, device: cpu",
            "runtime: ort, backend: cuda, device: \"cuda:0\"",
            1,
        ),
    );
    sandbox.run(RUN).code(3);
    sandbox
        .run([&RUN[..], &["--allow-none"]].concat())
        .success()
        .stdout_has("1 unavailable");
    sandbox
        .run([&RUN[..], &["--allow-none"]].concat())
        .success();
    sandbox
        .run(["run", "specs/all.yaml", "-t", "openvino", "--allow-none"])
        .code(1);
}

#[test]
fn a_badge_says_how_many_passed() {
    let sandbox = sandbox(WRONG);
    let badge = ["report", "specs/all.yaml", "--format", "badge"];
    sandbox
        .run(badge)
        .code(3)
        .stdout_has("<title>orch: incomplete</title>");
    sandbox.run(["run", "specs/all.yaml"]).code(1);
    sandbox
        .run(badge)
        .success()
        .stdout_has("<title>orch: 0 of 2 passed")
        .stdout_has("#b3261e");
}
