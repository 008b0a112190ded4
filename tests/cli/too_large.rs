//! A run that does not fit this machine: refused before its first step, with figures and a remedy.

use serde_json::json;

use crate::support::Sandbox;

/// A row of a checkpoint whose header claims so many parameters.
fn sandbox(parameters: u64) -> Sandbox {
    let header = json!({"weight": {"dtype": "F32", "shape": [parameters], "data_offsets": [0, 4 * parameters]}});
    let header = header.to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.into_bytes());
    let sandbox = Sandbox::new().installs().file(
        "specs/all.yaml",
        "version: 1
pipelines:
  text: {description: 'ids to logits', tasks: [fill-mask]}
targets:
  eager: {runtime: python, backend: cpu, device: cpu, artefact: model, precisions: [fp32]}
models:
  huge: {class: BertForMaskedLM, family: encoder-only, task: fill-mask, pipeline: text, weights: path,
    path: ../weights,
    inputs: {input_ids: {dtype: int64, shape: [1, 4], value: 1}}, outputs: [logits]}
",
    );
    std::fs::create_dir_all(sandbox.path("weights")).unwrap();
    sandbox.write("weights/config.json", r#"{"model_type": "bert"}"#);
    std::fs::write(sandbox.path("weights/model.safetensors"), file).unwrap();
    sandbox
}

#[test]
fn a_run_that_does_not_fit_is_refused_before_its_first_step() {
    let sandbox = sandbox(1 << 50);
    let run = ["run", "specs/all.yaml"];
    sandbox
        .run(run)
        .code(2)
        .stderr_has("this run does not fit this machine, and nothing of it was begun")
        .stderr_has("`generate:huge` is expected to hold")
        .stderr_has("of memory, and this machine has")
        .stderr_has("--select '!NAME'")
        .stderr_has("are free where the store is")
        .stderr_has("--oversized begins nevertheless");
    sandbox
        .run(["run", "specs/all.yaml", "--oversized"])
        .code(1);
}
