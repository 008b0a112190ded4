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

# What its name promises: glibc 2.34, and what GCC 11 brought, are all that the executables ask of a system.
python3 - "$wheel" venv/bin/orch venv/bin/orch-torch-* <<'TAG'
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

OLDEST = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13)}
wheel, *programs = sys.argv[1:]
assert re.search(r"-py3-none-manylinux_2_(\d+)_x86_64\.whl$", Path(wheel).name), wheel
tag = re.search(r"manylinux_(\d+)_(\d+)", wheel).groups()
assert tuple(map(int, tag)) <= OLDEST["GLIBC"], wheel
assert len(programs) == 2, programs
for program in programs:
    symbols = subprocess.run(["objdump", "--dynamic-syms", program], check=True, capture_output=True, text=True).stdout
    asked = set(re.findall(r"\b(GLIBC|GLIBCXX|CXXABI)_([0-9.]+)", symbols))
    assert any(family == "GLIBC" for family, _ in asked), f"{program} names no glibc: {symbols[:300]}"
    for family, oldest in OLDEST.items():
        newest = max((tuple(map(int, version.split("."))) for of, version in asked if of == family), default=())
        assert newest <= oldest, f"{program} asks for {family} {newest}, and {wheel} promises {oldest}"
# What is in it, as the release hands it out: the crates of all features.
with zipfile.ZipFile(wheel) as archive:
    sboms = [json.loads(archive.read(name)) for name in archive.namelist() if "/sboms/" in name]
crates = {component["name"] for sbom in sboms for component in sbom["components"]}
assert {"clap", "tonic", "opendal"} <= crates, sorted(crates)
TAG

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

# Shared results: another store gets from a folder what the first one made.
export ORCH_REMOTE=file://$work/shared
mkdir shared
orch cache push --all
orch run specs/all.yaml --cache-dir other --out-dir other-out --env-dir "${ORCH_ENV_DIR:-cache/envs}" --json | python3 -c '
import json, sys
summary = json.load(sys.stdin)["summary"]
assert (summary["passed"], summary["cases"]) == (4, 4) and summary["executed"] <= 1, summary
'
