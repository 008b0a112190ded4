//! What a failed step printed last is in the report, and the file that a run left for the history is a report too.

use serde_json::Value;

use crate::page;
use crate::support::Sandbox;

/// Attention has no heads of half a number.
const SPEC: &str = "version: 1
pipelines: {text: {description: token ids to vectors, tasks: [feature-extraction]}}
targets: {eager: {runtime: python, backend: cpu, device: cpu, artefact: model, precisions: [fp32]}}
models:
  odd: {class: BertModel, family: encoder-only, task: feature-extraction, pipeline: text,
    config: {hidden_size: 7, num_attention_heads: 2, num_hidden_layers: 1, intermediate_size: 8, vocab_size: 16},
    inputs: {input_ids: {dtype: int64, shape: [1, 4], randint: [0, 9]}}}
";

fn log(report: &Value) -> String {
    report["cases"][0]["log"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn a_failure_shows_what_its_step_printed_last() {
    let sandbox = Sandbox::new().installs().file("specs/all.yaml", SPEC);
    let ran = sandbox
        .run(["run", "specs/all.yaml", "--json"])
        .code(1)
        .json();
    assert_eq!(ran["cases"][0]["stage"], "generate", "{ran:#}");
    let last = log(&ran);
    let said = sandbox.run(["log", "generate:odd"]).success().stdout;
    assert!(
        last.contains("hidden size (7)") && last.lines().all(|line| said.contains(line)),
        "{last}\n--\n{said}"
    );
    let details = page::data(&sandbox.read("orch-out/report/index.html"))["details"].to_string();
    assert!(details.contains("printed last"), "{details}");
    // It stands in the records as well, and on no page that is published.
    let report = ["report", "specs/all.yaml", "--format", "json"];
    assert_eq!(log(&sandbox.run(report).json()), last);
    assert_eq!(
        log(&sandbox.run([&report[..], &["--no-repro"]].concat()).json()),
        ""
    );
    sandbox.run(["site", "public"]).success();
    assert!(
        !sandbox
            .read("public/pairs/odd/eager-fp32.html")
            .contains("printed last")
    );
    // A log that a later execution wrote is not of this record.
    let path = sandbox.path("cache/v2/logs/generate.odd.log");
    let file = std::fs::File::options().append(true).open(path).unwrap();
    file.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(3600))
        .unwrap();
    assert_eq!(log(&sandbox.run(report).json()), "");

    let file = sandbox.results().remove(0);
    let merged = sandbox
        .run([
            "report",
            "--merge",
            file.to_str().unwrap(),
            "--format",
            "json",
        ])
        .json();
    assert_eq!(
        (log(&merged), &merged["cases"][0]["case"]),
        (last, &ran["cases"][0]["case"])
    );
}
