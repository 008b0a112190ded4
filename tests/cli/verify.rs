//! `orch verify`: one model of each pipeline runs for real, each time, and what fails or is not here is told.

use serde_json::Value;

use crate::onnx::{RIGHT, linear};
use crate::ready_onnx::{SPEC, sandbox};
use crate::support::Sandbox;

const WRONG: [f32; 3] = [41.5, 51.5, 60.];
const VERIFY: [&str; 3] = ["verify", "specs/all.yaml", "--json"];

/// With a second model of the pipeline, which counts for more, a pipeline without a model, and a target that is not here.
fn prepared(values: [f32; 3]) -> Sandbox {
    let sandbox = sandbox(values);
    let spec = SPEC
        .replace(
            "template: text}\n",
            "template: text}\n  lonely: {description: x, tasks: [regression], template: text}\n",
        )
        .replace(
            "measure:",
            "  apple: {runtime: ort, backend: mps, device: all, artefact: onnx, precisions: [fp32]}
  one: {runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32], options: {threads: 1}}
matrix: {targets: [cpu, openvino, apple]}\nmeasure:",
        )
        .replace("  linear:\n", "  linear: &linear\n");
    sandbox.write(
        "specs/all.yaml",
        spec + "  twin: {<<: *linear, priority: high}\n",
    );
    sandbox
}

fn states(cells: &Value) -> Vec<(&str, &str)> {
    let cells = cells.as_array().unwrap().iter();
    cells
        .map(|cell| {
            (
                cell["name"].as_str().unwrap(),
                cell["status"].as_str().unwrap(),
            )
        })
        .collect()
}

#[test]
fn the_model_of_the_highest_priority_runs_each_time_on_what_is_here() {
    let sandbox = prepared(RIGHT);
    let first = sandbox.run(VERIFY).success().json();
    let [tabular, lonely] = [&first["pipelines"][0], &first["pipelines"][1]];
    assert_eq!(
        (&tabular["pipeline"], &tabular["model"]["name"]),
        (&"tabular".into(), &"twin".into())
    );
    let all = [
        ("cpu-fp32", "PASS"),
        ("openvino-fp32", "PASS"),
        ("apple-fp32", "SKIP_UNAVAILABLE"),
    ];
    assert_eq!(states(&tabular["cells"]), all);
    assert_eq!(
        (&lonely["model"], &lonely["cells"]),
        (&Value::Null, &Value::Array(vec![]))
    );
    assert_eq!(
        first["unavailable"][0]["targets"],
        serde_json::json!(["apple"])
    );
    assert_eq!(first["unavailable"][0]["reason"], "not macOS");
    assert_eq!(first["not_asked"], serde_json::json!(["one"]));

    // Nothing changed, and it is run again, where `orch run` would not.
    sandbox
        .run(["run", "specs/all.yaml", "-m", "twin", "--check", "--json"])
        .success()
        .summary([("executed", 0)]);
    // Times in pages are of whole seconds.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let again = sandbox
        .run(["verify", "specs/all.yaml", "-t", "cpu", "--json"])
        .success()
        .json();
    let executed = |document: &Value| {
        document["pipelines"][0]["cells"][0]["executed"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        states(&again["pipelines"][0]["cells"]),
        [("cpu-fp32", "PASS")]
    );
    assert!(
        executed(&again) > executed(&first),
        "{} {}",
        executed(&again),
        executed(&first)
    );
    // What the command line leaves out was asked for; what it names is.
    assert_eq!(again["not_asked"], serde_json::json!(["one"]));
    let named = sandbox
        .run(["verify", "specs/all.yaml", "-t", "one"])
        .success();
    named.stdout_has("one-fp32").stdout_lacks("not asked");
    let page = sandbox.run(["verify", "specs/all.yaml"]).success();
    page.stdout_has(
        "tabular: twin (regression, priority high)\n  PASS             cpu-fp32, openvino-fp32\n",
    )
    .stdout_has("lonely: not verified: the spec has no model of it")
    .stdout_has("unavailable: apple (mps): not macOS")
    .stdout_has("not asked: one: not in the matrix; `-t NAME` adds one")
    .stdout_has("2 passed");
    // The pages of the usual run are not replaced.
    assert!(sandbox.path("orch-out/verify/report/index.html").exists());
}

#[test]
fn what_fails_fails_it_and_where_nothing_is_here_nothing_is_verified() {
    let sandbox = prepared(WRONG);
    let failed = sandbox.run(VERIFY).code(1).json();
    let cell = &failed["pipelines"][0]["cells"][0];
    assert_eq!(
        (&cell["status"], &cell["stage"]),
        (&"NUMERICS".into(), &"run".into())
    );
    assert!(
        cell["reason"].is_string() && cell["repro"].is_string() && cell["executed"].is_string(),
        "{cell:#}"
    );
    sandbox
        .run(["verify", "specs/all.yaml"])
        .code(1)
        .stdout_has("NUMERICS")
        .stdout_has("repro: ");
    sandbox
        .run(["verify", "specs/all.yaml", "-t", "apple"])
        .code(3)
        .stdout_has("not macOS");
    sandbox
        .run(["verify", "specs/all.yaml", "-t", "appel"])
        .code(2)
        .stderr_has("did you mean `apple`?");

    // What does not come to its run says when it ended, too.
    sandbox.write("models/linear.onnx", &linear()[..20]);
    let broken = sandbox.run(VERIFY).code(1).json();
    let cell = &broken["pipelines"][0]["cells"][0];
    assert!(
        cell["stage"] != "run" && cell["executed"].is_string(),
        "{cell:#}"
    );
}

#[test]
fn every_pipeline_of_this_repository_has_a_model_that_stands_for_it() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/specs/verify.yaml");
    let spec = orch::spec::Spec::load(std::path::Path::new(path))
        .unwrap_or_else(|errors| panic!("{errors}"));
    let matrix = orch::matrix::Matrix::of(&spec);
    let lonely = matrix
        .representatives(&spec)
        .into_iter()
        .filter(|row| row.model.is_none());
    assert_eq!(
        lonely.collect::<Vec<_>>(),
        [],
        "specs/verify.yaml includes no model of it"
    );
}
