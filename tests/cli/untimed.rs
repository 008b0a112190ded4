//! Cases that are checked and not timed: `measure: none` and `--check`.

use serde_json::Value;

use crate::onnx::RIGHT;
use crate::ready_onnx::{SPEC, sandbox};
use crate::slots::Trace;
use crate::support::Sandbox;

const RUN: [&str; 3] = ["run", "specs/all.yaml", "--json"];
const CHECK: [&str; 4] = ["run", "specs/all.yaml", "--json", "--check"];

/// A key that only a latency has.
const TIMES: [&str; 6] = [
    "load_ms",
    "first_ms",
    "median_ms",
    "samples_ms",
    "warmup_ms",
    "sync",
];

/// Fails if a latency stands anywhere in the text, by the names of its fields or as pages write it.
#[track_caller]
fn assert_no_latency(what: &str, text: &str) {
    for name in TIMES {
        assert!(
            !text.contains(&format!("\"{name}\"")),
            "{what} holds `{name}`: {text}"
        );
    }
    let is_figure = |(at, _): &(usize, &str)| text[..*at].ends_with(|c: char| c.is_ascii_digit());
    let figure = text.match_indices(" ms").find(is_figure);
    assert!(
        figure.is_none(),
        "{what} shows a latency at {figure:?}: {text}"
    );
}

/// All that the store holds besides what steps made, as text.
fn stored(sandbox: &Sandbox) -> String {
    let blobs = sandbox.store("blobs");
    let files = sandbox
        .stored_files("")
        .into_iter()
        .filter(|path| !path.starts_with(&blobs));
    let files = files.map(|path| std::fs::read(path).unwrap());
    files
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .collect()
}

fn assert_untimed(document: &Value) {
    let cases = document["cases"].as_array().unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        assert_eq!(
            (&case["status"], &case["untimed"]),
            (&"PASS".into(), &true.into()),
            "{case:#}"
        );
        assert_eq!(case["metrics"], Value::Null);
        assert_eq!(case["numerics"]["passed"], true);
        assert!(case["actual_device"].is_string(), "{case:#}");
    }
}

#[test]
fn a_checked_case_is_judged_and_shows_no_latency_anywhere() {
    let sandbox = sandbox(RIGHT);
    let args = [&CHECK[..], &["--trace", "trace.json"]].concat();
    let ended = sandbox
        .run(args)
        .success()
        .summary([("cases", 2), ("passed", 2)]);
    assert_untimed(&ended.json());
    for page in ["matrix.json", "matrix.md", "index.html", "junit.xml"] {
        assert_no_latency(page, &sandbox.read(&format!("orch-out/report/{page}")));
    }
    let is_recorded = || {
        TIMES
            .iter()
            .any(|name| stored(&sandbox).contains(&format!("\"{name}\":")))
    };
    assert!(!is_recorded(), "a record holds times");
    let shown = sandbox
        .run(["run", "specs/all.yaml", "--check"])
        .success()
        .stdout_has("✓ untimed");
    assert_no_latency("the console", &shown.stdout);
    assert!(
        sandbox
            .read("orch-out/report/junit.xml")
            .contains("untimed: true")
    );
    sandbox.run(RUN).success();
    assert!(is_recorded(), "nothing would have been seen");
}

#[test]
fn an_untimed_result_answers_for_no_timed_case_nor_the_other_way_round() {
    let sandbox = sandbox(RIGHT);
    sandbox.run(RUN).success().summary([("passed", 2)]);
    let why = "param.measure.samples";
    sandbox
        .run(["plan", "specs/all.yaml", "--check"])
        .success()
        .stdout_has("run:linear:cpu-fp32")
        .stdout_has(why);
    let checked = sandbox
        .run(CHECK)
        .success()
        .stderr_has("ok    run:linear:cpu-fp32")
        .summary([("passed", 2)]);
    // The outputs equal those of the timed run, so their verdict stands.
    assert_untimed(&checked.stderr_lacks("judge:").json());
    sandbox
        .run(CHECK)
        .success()
        .summary([("executed", 0), ("passed", 2)]);
    // Who looks at it says which of the two is meant.
    let explain = ["explain", "run:linear:cpu-fp32"];
    sandbox
        .run(explain)
        .success()
        .stdout_has("param.measure.samples: 6");
    sandbox
        .run([&explain[..], &["--check"]].concat())
        .success()
        .stdout_has("param.measure: \"none\"");
    let timed = sandbox
        .run(RUN)
        .success()
        .stderr_lacks("run:linear")
        .summary([("passed", 2)])
        .json();
    assert!(
        timed["cases"][0]["metrics"]["median_ms"].as_f64().unwrap() > 0.0,
        "{timed:#}"
    );
    assert_eq!(timed["cases"][0]["untimed"], Value::Null);
}

#[test]
fn a_spec_says_what_is_not_timed() {
    let sandbox = sandbox(RIGHT);
    let untimed = |spec: String| {
        sandbox.write("specs/all.yaml", spec);
        let document = sandbox.run(RUN).success().summary([("passed", 2)]).json();
        let cases = document["cases"].as_array().unwrap().clone();
        cases
            .iter()
            .map(|case| case["untimed"] == true)
            .collect::<Vec<_>>()
    };
    let general = "measure: {warmup: 1, samples: 6}";
    assert_eq!(
        untimed(SPEC.replace(general, "measure: none")),
        [true, true]
    );
    assert_eq!(
        untimed(SPEC.replace("artefact: onnx,", "artefact: onnx, measure: none,")),
        [true, false]
    );
    assert_eq!(
        untimed(SPEC.replace("family: other", "family: other\n    measure: none")),
        [true, true]
    );
    let asks = SPEC.replace("artefact: onnx,", "artefact: onnx, measure: {samples: 2},");
    assert_eq!(
        untimed(asks.replace(general, "measure: none")),
        [false, true]
    );
    let limits = SPEC.replace(
        "artefact: onnx,",
        "artefact: onnx, measure: {timeout_seconds: 99},",
    );
    assert_eq!(
        untimed(limits.replace(general, "measure: none")),
        [true, true]
    );
    sandbox.write("specs/all.yaml", SPEC.replace(general, "measure: never"));
    sandbox
        .run(RUN)
        .code(2)
        .stderr_has("`measure` must be a mapping, or `none`");
}

#[test]
fn checked_cases_of_one_device_run_side_by_side() {
    let sandbox = sandbox(RIGHT);
    // Both read the same steps, so both are ready at the same moment.
    let cpu =
        "  cpu: {runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32]}\n";
    sandbox.write(
        "specs/all.yaml",
        SPEC.replace(cpu, &(cpu.to_owned() + &cpu.replace("cpu:", "too:"))),
    );
    let args = [
        "-t",
        "cpu",
        "-t",
        "too",
        "--jobs",
        "2",
        "--memory",
        "8GiB",
        "--remeasure",
        "0",
        "--trace",
        "trace.json",
    ];
    let runs = |check: &[&str]| {
        sandbox
            .run([&RUN[..], &args, check].concat())
            .success()
            .summary([("passed", 2)]);
        let runs: Vec<_> = Trace::of(&sandbox)
            .slices
            .into_iter()
            .filter(|run| run.name.starts_with("run:"))
            .collect();
        assert_eq!(runs.len(), 2);
        (
            runs[0].begin < runs[1].end && runs[1].begin < runs[0].end,
            runs,
        )
    };
    let (overlap, checked) = runs(&["--check"]);
    assert!(
        overlap
            && checked
                .iter()
                .all(|run| run.cores == 1 && run.row.starts_with("job ")),
        "{checked:?}"
    );
    let (overlap, timed) = runs(&[]);
    assert!(
        !overlap && timed.iter().all(|run| run.row == "exclusive"),
        "{timed:?}"
    );
}

#[test]
fn the_test_of_a_checked_case_takes_times_where_they_are_requested() {
    let sandbox = sandbox(RIGHT);
    let document = sandbox
        .run([&CHECK[..], &["-t", "cpu"]].concat())
        .success()
        .json();
    let line =
        document["cases"][0]["repro"].as_str().unwrap().to_owned() + " --json by-itself.json";
    let by_itself = |more: &str| {
        let line = format!("{line}{more}");
        let ended = std::process::Command::new("sh")
            .args(["-c", &line])
            .current_dir(sandbox.path(""))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stdout).into_owned()
            + &String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{line}\n{said}");
        (said, sandbox.read("by-itself.json"))
    };
    let (said, result) = by_itself("");
    assert_no_latency("what it prints", &said);
    assert_no_latency("what it writes", &result);
    let (said, result) = by_itself(" --samples 4 --warmup 1");
    assert!(said.contains("of 4 samples"), "{said}");
    let result: Value = serde_json::from_str(&result).unwrap();
    assert_eq!(result["measure"]["samples_ms"].as_array().unwrap().len(), 4);
}
