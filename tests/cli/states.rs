//! States besides passed and failed: what is expected, what passed in the end, what ran elsewhere, what only pretends.

use serde_json::Value;

use crate::onnx::RIGHT;
use crate::ready_onnx::sandbox;
use crate::support::Sandbox;

const RUN: [&str; 3] = ["run", "specs/all.yaml", "--json"];
const WRONG: [f32; 3] = [41.5, 51.5, 60.];

/// Adds a part to the spec of `ready_onnx`.
fn with(sandbox: &Sandbox, more: &str) {
    sandbox.write("specs/all.yaml", sandbox.read("specs/all.yaml") + more);
}

fn case<'d>(document: &'d Value, target: &str) -> &'d Value {
    let cases = document["cases"].as_array().unwrap();
    cases
        .iter()
        .find(|case| case["target"] == target)
        .unwrap_or_else(|| panic!("no case on {target}: {document:#}"))
}

/// A step that fails with this exit code until it was started often enough.
fn shaky(sandbox: &Sandbox, code: u32, succeeds_at: u32, more: &str) {
    let count = sandbox.path("seen/count").display().to_string();
    let script = format!(
        "echo x >> {count}; n=$(wc -l < {count}); echo attempt $n; test $n -ge {succeeds_at} || exit {code}; echo 1 > out"
    );
    let spec = format!(
        "version: 1\ncommands:\n  shaky: {{argv: [sh, -c, '{script}'], outputs: [out], writable: [../seen]{more}}}\n  reads:\n    \
         argv: [cp, in/out, copy]\n    inputs: {{in: {{step: 'command:shaky'}}}}\n    outputs: [copy]\n"
    );
    sandbox.write("specs/all.yaml", spec);
}

#[test]
fn a_transient_failure_is_tried_again_and_stays_known_as_flaky() {
    let sandbox = Sandbox::new();
    shaky(&sandbox, 75, 3, ", retries: 4, transient: [75]");
    let again = [
        "run",
        "specs/all.yaml",
        "--json",
        "--retry-wait",
        "0.05",
        "--retry-seed",
        "1",
    ];
    let ended = sandbox
        .run(again)
        .success()
        .stderr_has("flaky command:shaky")
        .stderr_has("ok    command:reads");
    let told = |document: Value, cached: bool| {
        let flaky = &document["flaky_steps"][0];
        assert_eq!(
            (&flaky["step"], &flaky["cached"]),
            (&"command:shaky".into(), &cached.into()),
            "{document:#}"
        );
        let attempts = flaky["attempts"].as_array().unwrap().clone();
        assert_eq!(
            attempts
                .iter()
                .map(|one| &one["outcome"])
                .collect::<Vec<_>>(),
            ["FAIL", "FAIL"]
        );
        attempts
    };
    let attempts = told(ended.json(), false);
    let log = |attempt: &Value| {
        std::fs::read_to_string(sandbox.store("logs").join(attempt["log"].as_str().unwrap()))
    };
    assert_eq!(
        attempts
            .iter()
            .map(|one| log(one).unwrap())
            .collect::<Vec<_>>(),
        ["attempt 1\n", "attempt 2\n"]
    );
    let waited: Vec<_> = attempts
        .iter()
        .map(|one| one["waited_seconds"].as_f64().unwrap())
        .collect();
    assert!(
        (0.025..0.075).contains(&waited[0]) && (0.05..0.15).contains(&waited[1]),
        "{waited:?}"
    );
    // Its output is good, so nothing is done again, and what it took is told each time: on the short way and on the long.
    let ended = sandbox.run(RUN).success().summary([("executed", 0)]);
    told(ended.json(), true);
    let ended = sandbox
        .run(["run", "specs/all.yaml", "--json", "--step", "command:*"])
        .success();
    told(ended.summary([("executed", 0)]).json(), true);
    // Done again, it passes at once.
    let ended = sandbox
        .run(["run", "specs/all.yaml", "--json", "--rerun", "flaky"])
        .success();
    assert_eq!(
        ended
            .stderr_has("ok    command:shaky")
            .json()
            .get("flaky_steps"),
        None
    );
    assert_eq!(sandbox.read("seen/count").lines().count(), 4);
}

#[test]
fn only_transient_failures_are_tried_again_and_only_as_often_as_allowed() {
    let sandbox = Sandbox::new();
    let attempts = |sandbox: &Sandbox| {
        let count = sandbox.read("seen/count").lines().count();
        std::fs::remove_file(sandbox.path("seen/count")).unwrap();
        count
    };
    shaky(&sandbox, 1, 3, ", retries: 4, transient: [75]");
    sandbox.run(RUN).code(1);
    assert_eq!(attempts(&sandbox), 1);
    shaky(&sandbox, 75, 9, ", retries: 1, transient: [75]");
    let ended = sandbox
        .run(["run", "specs/all.yaml", "--retry-wait", "0"])
        .code(1);
    ended
        .stderr_has("attempt 2 of 2")
        .stderr_has("FAIL  command:shaky");
    assert_eq!(attempts(&sandbox), 2);
    // The command line overrules the spec.
    sandbox
        .run([
            "run",
            "specs/all.yaml",
            "--retry-wait",
            "0",
            "--retries",
            "3",
        ])
        .code(1);
    assert_eq!(attempts(&sandbox), 4);
    sandbox
        .run(["run", "specs/all.yaml", "--retries", "0"])
        .code(1);
    assert_eq!(attempts(&sandbox), 1);
}

#[test]
fn a_pause_occupies_no_slot_and_an_interrupt_ends_it() {
    let sandbox = Sandbox::new();
    shaky(&sandbox, 75, 9, ", retries: 4, transient: [75]");
    with(
        &sandbox,
        "  other: {argv: [touch, done], outputs: [done]}\n",
    );
    let child = sandbox.spawn([
        "run",
        "specs/all.yaml",
        "--jobs",
        "1",
        "--retry-wait",
        "600",
    ]);
    crate::support::eventually("the other step passes during the pause", || {
        sandbox
            .run(["log", "command:other", "--history"])
            .stdout
            .contains("PASS")
    });
    crate::support::signal(&child, libc::SIGINT);
    let ended = sandbox.wait(child).code(130);
    ended
        .stderr_has("attempt 2 of 5")
        .stderr_has("FAIL  command:shaky")
        .stderr_has("ok    command:other");
}

#[test]
fn a_killed_program_is_a_crash_and_tried_again() {
    let sandbox = Sandbox::new().file(
        "specs/all.yaml",
        "version: 1\ncommands:\n  dies: {argv: [sh, -c, 'kill -SEGV $$'], outputs: [out]}\n",
    );
    let ended = sandbox
        .run([
            "run",
            "specs/all.yaml",
            "--retries",
            "1",
            "--retry-wait",
            "0",
        ])
        .code(1);
    ended.stderr_has("CRASH: ").stderr_has("attempt 2 of 2");
}

#[test]
fn an_expected_failure_fails_no_run_and_an_unexpected_success_does() {
    let sandbox = sandbox(WRONG);
    with(
        &sandbox,
        "matrix:\n  expect:\n    - {target: cpu, status: NUMERICS, reason: wrong weights, since: '2026-01-31'}\n    \
         - {target: openvino, status: CRASH, stage: run, reason: bad driver}\n",
    );
    let ended = sandbox
        .run(RUN)
        .code(1)
        .summary([("xfailed", 1), ("failed", 1), ("passed", 0)]);
    let document = ended.json();
    let known = case(&document, "cpu");
    assert_eq!(
        (&known["status"], &known["stage"]),
        (&"XFAIL".into(), &"run".into())
    );
    assert_eq!(known["expected"]["reason"], "wrong weights");
    let other = case(&document, "openvino");
    assert_eq!(
        other["status"], "NUMERICS",
        "it failed, but not as expected"
    );
    assert!(
        other["reason"]
            .as_str()
            .unwrap()
            .contains("the spec expects CRASH@run: bad driver"),
        "{other:#}"
    );
    let junit = sandbox.read("orch-out/report/junit.xml");
    assert!(
        junit.contains(
            "<skipped message=\"XFAIL: expected NUMERICS: wrong weights (since 2026-01-31)"
        ),
        "{junit}"
    );

    sandbox
        .run(["run", "specs/all.yaml", "-t", "cpu", "--json"])
        .success()
        .summary([("xfailed", 1), ("failed", 0)]);
    // Nor does it end a run that ends at the first failure.
    sandbox
        .run(["run", "specs/all.yaml", "-t", "cpu", "--fail-fast"])
        .success();

    sandbox.write("models/expected/output_0.pb", crate::onnx::expected(RIGHT));
    for _ in 0..2 {
        let ended = sandbox
            .run(["run", "specs/all.yaml", "-t", "cpu", "--json"])
            .code(1);
        let document = ended
            .summary([("xpassed", 1), ("failed", 1), ("passed", 0)])
            .json();
        let reason = case(&document, "cpu")["reason"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(
            reason.contains("specs/all.yaml:18:7 expects NUMERICS: wrong weights"),
            "{reason}"
        );
    }
    assert!(
        sandbox
            .read("orch-out/part/junit.xml")
            .contains("<failure type=\"XPASS\"")
    );
    let lenient = sandbox.read("specs/all.yaml").replace(
        "reason: wrong weights",
        "reason: wrong weights, strict: false",
    );
    sandbox.write("specs/all.yaml", lenient);
    let ended = sandbox
        .run(["run", "specs/all.yaml", "-t", "cpu", "--json"])
        .success();
    ended.summary([("xpassed", 1), ("failed", 0)]);
}

#[test]
fn an_expectation_of_nothing_is_an_error() {
    let sandbox = Sandbox::new().file("specs/all.yaml", crate::ready_onnx::SPEC);
    with(
        &sandbox,
        "matrix:\n  expect:\n    - {case: 'linear:cpu-fp16', status: FAIL, reason: x}\n",
    );
    let ended = sandbox.run(["plan", "specs/all.yaml"]).code(2);
    ended
        .stderr_has("specs/all.yaml:18:7: this `expect` rule matches no case")
        .stderr_has("hint: `orch plan --all`");
    let spec = sandbox.read("specs/all.yaml").replace(
        "{case: 'linear:cpu-fp16'",
        "{target: cpu, status: FAIL, reason: y}\n    - {model: lin*, target: cpu",
    );
    sandbox.write("specs/all.yaml", spec);
    let ended = sandbox.run(["plan", "specs/all.yaml"]).code(2);
    ended
        .stderr_has("specs/all.yaml:19:7: this `expect` rule matches no case")
        .stderr_has("specs/all.yaml:18:7 comes first");
}

#[test]
fn an_expectation_may_speak_of_a_target_that_only_a_run_adds() {
    let sandbox = sandbox(WRONG);
    with(
        &sandbox,
        "matrix:\n  targets: [openvino]\n  expect:\n    - {target: cpu, status: NUMERICS, reason: wrong weights}\n",
    );
    sandbox.run(["plan", "specs/all.yaml"]).success();
    sandbox
        .run(["run", "specs/all.yaml", "-t", "cpu", "--json"])
        .success()
        .summary([("xfailed", 1), ("failed", 0)]);
    sandbox
        .run(["accept", "specs/all.yaml"])
        .success()
        .stderr_has("nothing to change");

    let spec = sandbox.read("specs/all.yaml");
    for nothing in [
        "{target: cpu, precision: int8",
        "{case: 'linear:cpu-fp32'",
        "{target: cp*",
    ] {
        sandbox.write("specs/all.yaml", spec.replace("{target: cpu", nothing));
        sandbox
            .run(["plan", "specs/all.yaml"])
            .code(2)
            .stderr_has("this `expect` rule matches no case");
    }
}

#[test]
fn accept_brings_expectations_up_to_date_and_keeps_the_rest() {
    let sandbox = sandbox(WRONG);
    with(
        &sandbox,
        "# what we test\nmatrix:\n  # known failures\n  expect:\n    # not on OpenVINO\n    - target: openvino  # see 7\n      status: CRASH\n      reason: bad driver\n",
    );
    let accept = ["accept", "specs/all.yaml"];
    sandbox
        .run(accept)
        .success()
        .stderr_has("nothing to change");
    sandbox.run(RUN).code(1);
    let before = sandbox.read("specs/all.yaml");
    let ended = sandbox
        .run(["accept", "specs/all.yaml", "--dry-run"])
        .success();
    ended
        .stdout_has("\n-      status: CRASH\n+      status: NUMERICS\n")
        .stdout_has("+    - {case: \"linear:cpu-fp32\"");
    assert_eq!(sandbox.read("specs/all.yaml"), before);
    let reason = [
        "accept",
        "specs/all.yaml",
        "--reason",
        "the \"weights\" are wrong: all",
    ];
    sandbox
        .run(reason)
        .success()
        .stderr_has("expects of linear:cpu-fp32: NUMERICS");
    let after = sandbox.read("specs/all.yaml");
    let added = after.lines().last().unwrap();
    assert!(
        added.starts_with(
            "    - {case: \"linear:cpu-fp32\", status: NUMERICS, stage: run, reason: "
        ),
        "{added}"
    );
    let expected = before.replace("status: CRASH", "status: NUMERICS") + added + "\n";
    assert_eq!(after, expected);
    sandbox
        .run(RUN)
        .success()
        .summary([("xfailed", 2), ("failed", 0)]);
    sandbox
        .run(accept)
        .success()
        .stderr_has("nothing to change");

    sandbox.write("models/expected/output_0.pb", crate::onnx::expected(RIGHT));
    sandbox.run(RUN).code(1).summary([("xpassed", 2)]);
    // Only what is selected.
    sandbox
        .run(["accept", "specs/all.yaml", "-t", "cpu"])
        .success()
        .stderr_has("linear:cpu-fp32 to pass again");
    assert_eq!(
        sandbox.read("specs/all.yaml"),
        before.replace("status: CRASH", "status: NUMERICS")
    );
    sandbox.run(accept).success();
    let rest = sandbox.read("specs/all.yaml");
    assert!(
        rest.ends_with(
            "# what we test\nmatrix:\n  # known failures\n  expect: []\n    # not on OpenVINO\n"
        ),
        "{rest}"
    );
    sandbox.run(RUN).success().summary([("passed", 2)]);
}

#[test]
fn a_case_whose_device_is_not_there_runs_on_the_next_one_if_requested() {
    let sandbox = sandbox(RIGHT).env("CUDA_VISIBLE_DEVICES", "");
    let spec = sandbox.read("specs/all.yaml");
    let gpu = "targets:\n  gpu: {runtime: ort, backend: cuda, device: cuda, artefact: onnx, precisions: [fp32]}\n";
    sandbox.write("specs/all.yaml", spec.replace("targets:\n", gpu));
    let only = ["run", "specs/all.yaml", "-t", "gpu", "--json"];
    sandbox
        .run(only)
        .code(3)
        .summary([("unavailable", 1), ("passed", 0)]);

    let fallback = [&only[..], &["--fallback"]].concat();
    for executed in [true, false] {
        let ended = sandbox.run(&fallback).success().summary([
            ("fallbacks", 1),
            ("passed", 0),
            ("unavailable", 0),
        ]);
        let document = ended.json();
        assert_eq!(
            document["summary"]["executed"].as_u64().unwrap() > 0,
            executed,
            "{document:#}"
        );
        let case = case(&document, "gpu");
        assert_eq!(
            (&case["status"], &case["fallback"]["name"]),
            (&"PASS_FALLBACK".into(), &"openvino-fp32".into())
        );
        assert_eq!(
            (&case["requested_device"], &case["fallback"]["slowdown"]),
            (&"cuda".into(), &Value::Null)
        );
        assert!(
            case["actual_device"].as_str().unwrap().contains("CPU"),
            "{case:#}"
        );
        assert_eq!(case["fallback"]["tried"][0]["status"], "SKIP_UNAVAILABLE");
    }
    // What was asked for has no result of its own, and without being asked there is no fallback.
    sandbox
        .run(["log", "run:linear:gpu-fp32", "--history"])
        .stdout_lacks("PASS");
    sandbox.run(only).code(3).summary([("unavailable", 1)]);
    // What ran is the run of the other target, and is not done again for it.
    let ended = sandbox
        .run(["run", "specs/all.yaml", "-t", "openvino", "--json"])
        .success();
    let cached = case(&ended.json(), "openvino")["cached"].clone();
    assert_eq!(cached, true);
}

#[test]
fn a_declared_chain_goes_on_until_one_passes_and_reports_the_cost() {
    let sandbox = sandbox(RIGHT).env("CUDA_VISIBLE_DEVICES", "");
    let spec = sandbox.read("specs/all.yaml");
    let first = |backend: &str, fallback: &str| {
        format!(
            "targets:\n  first: {{runtime: ort, backend: {backend}, device: {backend}, artefact: onnx, precisions: [fp32]{fallback}}}\n  none: {{runtime: openvino, backend: openvino, device: NOSUCH, artefact: openvino, precisions: [fp32]}}\n"
        )
    };
    let only = ["run", "specs/all.yaml", "-t", "first", "--json"];
    sandbox.write(
        "specs/all.yaml",
        spec.replace("targets:\n", &first("cpu", "")),
    );
    sandbox.run(only).success().summary([("passed", 1)]);
    // Now the target names a device that is not here, but its figure is still known.
    sandbox.write(
        "specs/all.yaml",
        spec.replace("targets:\n", &first("cuda", ", fallback: [none, cpu]")),
    );
    let document = sandbox
        .run(only)
        .success()
        .summary([("fallbacks", 1), ("failed", 0)])
        .json();
    let fallback = &case(&document, "first")["fallback"];
    assert_eq!(fallback["name"], "cpu-fp32", "{document:#}");
    let tried: Vec<_> = fallback["tried"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].clone())
        .collect();
    assert_eq!(tried, ["first-fp32", "none-fp32"]);
    assert!(
        fallback["slowdown"].as_f64().unwrap() > 0.0 && fallback["against"].is_string(),
        "{fallback:#}"
    );
    // An empty chain is none, whatever is asked for.
    sandbox.write(
        "specs/all.yaml",
        spec.replace("targets:\n", &first("cuda", ", fallback: []")),
    );
    sandbox
        .run(["run", "specs/all.yaml", "-t", "first", "--fallback"])
        .code(3);
}

#[test]
fn a_wrong_result_is_not_covered_by_a_fallback() {
    let sandbox = sandbox(WRONG);
    let spec = sandbox
        .read("specs/all.yaml")
        .replace("device: CPU,", "device: CPU, fallback: [cpu],");
    sandbox.write("specs/all.yaml", spec);
    let document = sandbox
        .run(["run", "specs/all.yaml", "-t", "openvino", "--json"])
        .code(1)
        .json();
    assert_eq!(case(&document, "openvino")["status"], "NUMERICS");
}

#[test]
fn a_mocked_device_makes_everything_and_measures_nothing() {
    let sandbox = sandbox(RIGHT)
        .env("CUDA_VISIBLE_DEVICES", "")
        .env("ORCH_MOCK_DEVICES", "cuda");
    let gpu = "targets:\n  gpu: {runtime: ort, backend: cuda, device: cuda, artefact: onnx, precisions: [fp32]}\n";
    sandbox.write(
        "specs/all.yaml",
        sandbox.read("specs/all.yaml").replace("targets:\n", gpu),
    );
    let ended = sandbox
        .run(["run", "specs/all.yaml", "-t", "gpu", "--json"])
        .code(3);
    let document = ended
        .stderr_has("ok    generate:linear")
        .summary([("mocked", 1), ("passed", 0)])
        .json();
    let case = case(&document, "gpu");
    assert_eq!(
        (&case["status"], &case["metrics"]),
        (&"MOCK".into(), &Value::Null)
    );
    sandbox
        .run(["log", "run:linear:gpu-fp32", "--history"])
        .stdout_lacks("MOCK");
    let sandbox = sandbox.env("ORCH_MOCK_DEVICES", "coda");
    sandbox
        .run(["run", "specs/all.yaml"])
        .code(2)
        .stderr_has("no backend is called `coda`")
        .stderr_has("cuda");
}

#[test]
fn a_batch_for_which_memory_does_not_suffice_is_halved_and_says_so() {
    let sandbox = sandbox(RIGHT);
    let spec = sandbox.read("specs/all.yaml");
    let spec = spec
        .replace("    expected: ../models/expected\n", "")
        .replace("device: cpu,", "device: cpu, halve_batch: true,");
    let spec = spec.replace(
        "shape: [1, 2], data: [1, 10]",
        "shape: [batch, 2], uniform: [0, 1]",
    );
    sandbox.write(
        "specs/all.yaml",
        spec + "matrix: {targets: [cpu], batch: [8]}\n",
    );
    sandbox.write("models/linear.onnx", crate::onnx::hungry());
    let document = sandbox
        .run(RUN)
        .success()
        .summary([("fallbacks", 1), ("failed", 0)])
        .json();
    let case = case(&document, "cpu");
    assert_eq!(case["status"], "PASS_FALLBACK", "{case:#}");
    assert_eq!(
        case["fallback"]["batch"],
        serde_json::json!({"asked": 8, "ran": 4})
    );
    assert_eq!(case["fallback"]["tried"][0]["status"], "OOM");
    sandbox
        .run(["log", "run:linear:cpu-fp32-b4", "--history"])
        .success()
        .stdout_has("PASS");
    let text = sandbox.run(["report", "specs/all.yaml"]).success();
    text.stdout_has("ran at batch size 4: for 8 there was not enough memory");
    // Unasked, memory that does not suffice is a failure.
    let spec = sandbox
        .read("specs/all.yaml")
        .replace(" halve_batch: true,", "");
    sandbox.write("specs/all.yaml", spec);
    sandbox
        .run(RUN)
        .code(1)
        .summary([("passed", 0), ("failed", 1)]);
}

/// It would be a figure of this machine under another one's name.
#[test]
fn a_target_that_requires_a_machine_is_not_run_on_this_one() {
    let sandbox = sandbox(RIGHT);
    let lab = "targets:\n  lab: {runtime: ort, backend: cpu, artefact: onnx, precisions: [fp32], properties: {pool: xeon}}\n";
    sandbox.write(
        "specs/all.yaml",
        sandbox.read("specs/all.yaml").replace("targets:\n", lab),
    );
    let document = sandbox
        .run(RUN)
        .success()
        .summary([("passed", 2), ("unavailable", 1)])
        .json();
    let case = case(&document, "lab");
    assert_eq!(case["status"], "SKIP_UNAVAILABLE");
    let reason = case["reason"].as_str().unwrap();
    assert!(
        reason.contains("a machine that offers pool=xeon") && reason.contains("--executor"),
        "{reason}"
    );
    sandbox
        .run(["report", "specs/all.yaml"])
        .success()
        .stdout_has("lab unavailable: lab-fp32 (1 case)");
}
