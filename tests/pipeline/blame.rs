//! An export that is wrong, and the module that `orch blame` finds.

use super::*;

/// The exporter takes the strides of a view for those of its shape, unless orch's function stands in for it.
const SPEC: &str = "version: 1
include: [pipelines.yaml, targets.yaml]
matrix: {models: [longformer], targets: [cpu, openvino]}
models:
  longformer:
    class: LongformerModel
    family: encoder-only
    task: feature-extraction
    pipeline: text
    export: {routes: [legacy], stand_ins: false}
    config: {attention_window: 16, vocab_size: 128, hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2,
      intermediate_size: 32, max_position_embeddings: 66, initializer_range: 0.3}
    inputs:
      input_ids: {dtype: int64, shape: [1, 64], randint: [3, 127]}
";

#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn the_module_of_a_wrong_export_is_found_and_shown() {
    let sandbox = suite();
    sandbox.write("specs/wrong.yaml", SPEC);
    sandbox.run(["run", "specs/wrong.yaml"]).code(1);
    let blame = ["blame", "--all", "--spec", "specs/wrong.yaml", "--json"];
    let found = sandbox.run(blame).success().json();
    let cases = found["cases"].as_array().unwrap();
    // ONNX Runtime at fp32, and OpenVINO at fp32, fp16 and int8.
    assert_eq!(cases.len(), 4, "{found:#}");
    for case in cases {
        let finding = &case["finding"];
        assert_eq!(finding["verdict"], "exporter", "{case:#}");
        assert_eq!(finding["module"]["class"], "LongformerSelfAttention");
        let repro = sandbox.path(text(&case["repro"]));
        assert!(repro.join("run.py").exists());
    }
    assert_eq!(found["causes"].as_array().unwrap().len(), 1, "{found:#}");
    let report = ["report", "specs/wrong.yaml", "--format", "json"];
    let held = sandbox.run(report).success().json();
    // Two of the cases have equal searches, of which one is executed.
    for case in held["cases"].as_array().unwrap() {
        let facts = &case["facts"][format!("blame:{}", text(&case["case"]))];
        assert_eq!(facts["verdict"], "exporter", "{case:#}");
    }
}
