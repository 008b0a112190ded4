//! The project whose inputs are changed one at a time: every kind of step, and models that a change must not reach.

use std::fs;
use std::path::Path;

/// `bert` meets every kind of target, `plain` is never touched, `hubbed` and `local` have weights of their own,
/// `affine` and `scaled` are ready files.
pub(crate) const SPEC: &str = r#"version: 1
pipelines:
  text: {description: "token ids to logits", tasks: [fill-mask]}
  vectors: {description: "vectors to vectors", tasks: [feature-extraction], template: text}
measure: {warmup: 3, samples: 20, max_seconds: 10, timeout_seconds: 600}
targets:
  cpu: {runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32]}
  openvino: {runtime: openvino, backend: openvino, device: CPU, artefact: openvino, precisions: [fp16, int8]}
  qnn: {runtime: ort, backend: qnn, device: htp, artefact: qnn, precisions: [fp16], options: {soc_model: 60}}
  torch-cpu: {runtime: torch, backend: cpu, device: cpu, artefact: torchscript, precisions: [fp32]}
  eager-cpu: {runtime: python, backend: cpu, device: cpu, artefact: model, precisions: [fp32]}
matrix:
  models: [bert, plain]
  exclude:
    - {model: plain, reason: "one target is enough to see that it is left alone"}
  include:
    - {model: plain, target: cpu}
    - {model: hubbed, target: eager-cpu}
    - {model: local, target: eager-cpu}
    - {family: vectors, target: cpu}
    - {model: affine, target: cpu, precision: fp16}
models:
  bert:
    class: BertForMaskedLM
    family: encoder-only
    task: fill-mask
    pipeline: text
    hub: {id: someone/bert}
    config: {vocab_size: 128, hidden_size: 64, layers: [{kind: full, size: 4}]}
    seed: 7
    dims: {batch: 1, seq: 16}
    inputs:
      input_ids: {dtype: int64, shape: [batch, seq], randint: [5, 128]}
      attention_mask: {dtype: int64, shape: [batch, seq], value: 1}
    outputs: [logits]
    export: {routes: [legacy, dynamo], opset: 17}
    tags: [key]
    priority: high
  plain:
    class: BertModel
    family: encoder-only
    task: fill-mask
    pipeline: text
    inputs:
      input_ids: {dtype: int64, shape: [batch, seq], randint: [0, 9]}
  hubbed:
    class: BertForMaskedLM
    family: encoder-only
    task: fill-mask
    pipeline: text
    weights: hub
    hub: {id: someone/tuned, revision: "1111111111111111111111111111111111111111"}
    inputs:
      input_ids: {dtype: int64, shape: [batch, seq], value: 3}
  local:
    class: BertForMaskedLM
    family: encoder-only
    task: fill-mask
    pipeline: text
    weights: path
    path: ../weights
    inputs:
      input_ids: {dtype: int64, shape: [batch, seq], value: 4}
  affine:
    onnx: ../ready/affine.onnx
    external: [affine.onnx.data]
    inputs_from: ../ready/inputs.npz
    expected: ../ready/expected.npz
    family: vectors
    task: feature-extraction
    pipeline: vectors
  scaled:
    onnx: ../ready/scaled.onnx
    family: vectors
    task: feature-extraction
    pipeline: vectors
    inputs:
      x: {dtype: float32, shape: [2], data: [1, 2]}
      y: {dtype: float32, shape: [2], data: [3, 4]}
commands:
  written: {write: {settings.json: '{}'}}
  sorted:
    argv: [sort, -u, words.txt, -o, sorted.txt]
    inputs: {words.txt: {file: ../data/words.txt}}
    outputs: [sorted.txt]
    env: [ORCH_KEYS_DECLARED]
  packed:
    argv: [tar, cf, all.tar, tree, sorted]
    inputs: {tree: {file: ../data/tree}, sorted: {step: "command:sorted"}}
    outputs: [all.tar]
  card:
    argv: [cp, onnx/manifest.json, card.json]
    inputs: {onnx: {step: "convert:bert:onnx"}}
    outputs: [card.json]
"#;

const FILES: &[(&str, &str)] = &[
    ("specs/all.yaml", SPEC),
    ("weights/config.json", "{}"),
    ("weights/model.safetensors", "weights"),
    ("ready/affine.onnx", "affine"),
    ("ready/affine.onnx.data", "weights"),
    ("ready/inputs.npz", "inputs"),
    ("ready/expected.npz", "expected"),
    ("ready/scaled.onnx", "scaled"),
    ("data/words.txt", "b\na\n"),
    ("data/tree/one.txt", "1"),
    ("data/tree/sub/two.txt", "2"),
];

pub(crate) fn write(root: &Path) {
    for (name, text) in FILES {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}
