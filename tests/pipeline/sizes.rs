//! Models of the sizes that people deploy: what holds for a megabyte of weights holds for gigabytes.

use super::*;

/// Spec files of one Llama with so many layers; each has 45 million parameters, and the embeddings 66 million.
fn llama(layers: u32) -> String {
    format!(
        "version: 1
include: [pipelines.yaml, targets.yaml]
matrix: {{targets: [cpu, openvino]}}
measure: none
models:
  large:
    class: LlamaForCausalLM
    weights: seeded
    max_parameters: 1000000000
    family: decoder-only
    task: text-generation
    pipeline: text
    config:
      hidden_size: 2048
      intermediate_size: 5632
      num_hidden_layers: {layers}
      num_attention_heads: 32
      num_key_value_heads: 8
      vocab_size: 16000
      tie_word_embeddings: false
    dims: {{batch: 1, seq: 16}}
    inputs:
      input_ids: {{dtype: int64, shape: [batch, seq], randint: [0, 16000]}}
      attention_mask: {{dtype: int64, shape: [batch, seq], value: 1}}
    outputs: [logits]
"
    )
}

/// Runs the Llama on ONNX Runtime and on OpenVINO at fp32 and int8, and expects `gib` of weights in one file beside the
/// graph, or within it below what protobuf holds.
fn passes(layers: u32, gib: f64, is_beside: bool) {
    let sandbox = suite();
    sandbox.write("specs/large.yaml", llama(layers).as_bytes());
    let document = sandbox
        .run([
            "run",
            "specs/large.yaml",
            "--json",
            "--select",
            "precision:fp32 | precision:int8",
        ])
        .success()
        .summary([("cases", 3), ("passed", 3)])
        .json();
    let case = cases(&document)["large:cpu-fp32"];
    assert_eq!(case["facts"]["convert:large:onnx"]["route"], "legacy");
    let written = sandbox
        .run(["output", "convert:large:onnx", "specs/large.yaml", "--json"])
        .success()
        .json();
    let files = written["files"].as_array().unwrap();
    let size = |name: &str| {
        let file = files.iter().find(|file| text(&file["path"]) == name);
        file.map_or(0, |file| file["size"].as_u64().unwrap())
    };
    let whole = (size("model.onnx") + size("model.onnx.data")) as f64 / f64::from(1 << 30);
    assert!((whole / gib - 1.0).abs() < 0.1, "{whole} GiB");
    assert_eq!(size("model.onnx.data") > 0, is_beside);
}

#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn half_a_gibibyte_of_weights_passes_on_onnx_runtime_and_openvino() {
    passes(2, 0.58, false);
}

#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn a_gibibyte_of_weights_passes_on_onnx_runtime_and_openvino() {
    passes(5, 1.08, false);
}

#[test]
#[ignore = "deep, and slow: `cargo test --test '*' -- --ignored`, as CI does"]
fn three_gibibytes_of_weights_pass_on_onnx_runtime_and_openvino() {
    passes(17, 3.10, true);
}
