#!/usr/bin/env bash
# Builds orch's wheel: build.sh OUT_DIR [CARGO_PROFILE]. Needs Rust, uv and a C compiler; installs torch where orch has not yet.
set -euo pipefail
out=$(realpath -m "$1") profile=${2:-release}
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."

# Whoever installs the wheel has no compiler to add the features with.
cargo build --locked --features remote,mcp --profile "$profile"
target=$(cargo metadata --locked --no-deps --format-version 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
orch=$target/$([ "$profile" = dev ] && echo debug || echo "$profile")/orch

rm -rf "$here/orch.data"
trap 'rm -rf "$here/orch.data"' EXIT
worker=$("$orch" setup torch-worker --ship "$here/orch.data/scripts" | tail -n 1)
strip "$worker"

cd "$here"
uv tool run --quiet maturin@1.16.0 build --locked --profile "$profile" --out "$out"
ls -l "$out"
