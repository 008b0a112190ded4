# Everything here also works with plain cargo: the recipes are one line each.

# List the recipes
default:
    @just --list

# Run the key models on every target and print the matrix
matrix:
    cargo run --release -- run specs/all.yaml

# Check hundreds of small models, or a selection: `just zoo --select 'family:vision & target:openvino'`
zoo *ARGS:
    cargo run --release -- run specs/zoo.yaml {{ ARGS }}

# Make pages of what the last `just zoo` found: one for each model, target and case
zoo-site DIR:
    cargo run --release -- site {{ DIR }}

# Run a spec or a selection, e.g. `just run specs/all.yaml --model bert`
run *ARGS:
    cargo run --release -- run {{ ARGS }}

# Pass the tests
test:
    cargo test

# Kill orch 200 times and flip 300 bits of its store: minutes; ORCH_STRESS_SEED chooses where
stress:
    ORCH_STRESS_KILLS=200 ORCH_STRESS_FLIPS=300 ORCH_STRESS_FAILURES=60 cargo test --release --test stress -- --nocapture

# Try everything hostile as this user, and as root and nobody where this is root; with Landlock and without
hostile:
    tests/hostile/everywhere.sh

# Test remote stores against real servers (Debian: apt install apache2-bin; ORCH_TEST_NATIVELINK=PROGRAM adds routing)
test-remote:
    cargo test --features remote --test remote

# What CI runs
ci:
    .ci/run

# Build the worker for targets with `runtime: torch` ahead of a run
torch-worker:
    cargo run --release -- setup torch-worker

# List what is missing, and the command that fixes it
doctor:
    cargo run --release -- doctor

# Write specs/schema.json again after a change of the spec's types
schema:
    cargo run -- schema > specs/schema.json.new || { rm specs/schema.json.new; exit 1; }
    mv specs/schema.json.new specs/schema.json

# Write the lists of transformers' model classes and types again after a change of its lock, with the installed environment `torch`
classes:
    #!/usr/bin/env bash
    set -euo pipefail
    python=$(ls -td "${ORCH_ENV_DIR:-cache/envs}"/torch-*/bin/python 2>/dev/null | head -1 || true)
    if [ -z "$python" ]; then
        echo "the environment \`torch\` is not installed" >&2
        echo "  hint: cargo run --release -- setup torch" >&2
        exit 2
    fi
    for list in class type; do
        PYTHONPATH=python "$python" -m "tools.${list}_list" > "target/$list.txt"
    done
    mv target/class.txt src/spec/data/transformers-classes.txt
    mv target/type.txt src/spec/data/transformers-types.txt

# After a change of transformers' lock: try each row of the zoo again, make rows for new types, write both lists. Then read `git diff`
upgrade-zoo:
    -cargo run --release -- zoo refresh
    -cargo run --release -- zoo add missing
    just classes

# Write the list of Python packages and their licences again after a change of a lock
sbom:
    PYTHONPATH=python python3 -m tools.sbom

# Make a book of the docs in target/book; `cargo install mdbook` once
book:
    @command -v mdbook >/dev/null || { echo "there is no program \`mdbook\`" >&2; echo "  hint: cargo install mdbook" >&2; exit 2; }
    mdbook build docs

# Draw the README's pictures from the last report
pictures *ARGS:
    PYTHONPATH=python python3 -m tools.pictures {{ ARGS }}

# Measure orch itself beside its peers, e.g. `just bench --steps 1000 10000`
bench *ARGS:
    cargo build --release
    python3 benches/peers.py {{ ARGS }}

# Gather evidence from an NVIDIA card in one folder, e.g. `just card --package pieces`; needs a built target/release/orch
card *ARGS:
    python3 benches/card.py {{ ARGS }}

# Measure how fast orch reads: the digest of a large file, and a large spec
bench-throughput *ARGS:
    cargo build --release
    python3 benches/throughput.py {{ ARGS }}

# Run ONNX's own 1,615 node tests and three trained models from PyPI, e.g. `just suite-onnx --sample 100`
suite-onnx *ARGS:
    python3 suites/onnx/make.py target/suite-onnx {{ ARGS }}
    cargo run --release -- run target/suite-onnx/all.yaml --cache-dir target/suite-onnx/cache
