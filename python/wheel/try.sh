#!/usr/bin/env bash
# Installs a wheel as a user would and runs two models with it, without Rust: try.sh WHEEL. Of ORCH_ENV_DIR, where it is set,
# the Python environments are used, and not the tch worker: that comes with the wheel.
set -euo pipefail
wheel=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
uv venv --quiet --python 3.12 venv 2>/dev/null || uv venv --quiet venv
uv pip install --quiet --python venv/bin/python "$wheel"

# What a user has: the wheel, uv and the system's programs. No cargo.
mkdir path
ln -s "$(command -v uv)" path/uv
export PATH="$work/venv/bin:$work/path:/usr/bin:/bin"
if command -v cargo; then echo "cargo is on PATH" >&2; exit 1; fi

if [ -n "${ORCH_ENV_DIR:-}" ]; then
    mkdir envs
    for env in "$ORCH_ENV_DIR"/torch-*/ "$ORCH_ENV_DIR"/ort-*/; do ln -s "${env%/}" envs/; done
    export ORCH_ENV_DIR=$work/envs
fi
orch init
python3 - <<'SPEC'
from pathlib import Path

spec = Path("specs/all.yaml")
text = spec.read_text().replace("targets: [cpu, openvino]", "targets: [cpu, torch-cpu]")
spec.write_text(text + """\
  pictures:
    class: ViTForImageClassification
    family: vision
    task: image-classification
    pipeline: vision
    weights: seeded
    config: {hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 64, image_size: 32, patch_size: 8}
    dims: {batch: 1}
    inputs:
      pixel_values: {dtype: float32, shape: [batch, 3, 32, 32], normal: [0, 1]}
    outputs: [logits]
""")
SPEC
orch run specs/all.yaml
orch run specs/all.yaml --json | python3 -c '
import json, sys
summary = json.load(sys.stdin)["summary"]
assert (summary["passed"], summary["executed"], summary["cases"]) == (4, 0, 4), summary
'
