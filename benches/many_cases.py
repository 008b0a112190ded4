#!/usr/bin/env python3
"""What orch itself takes where there are thousands of cases: `plan`, `report`, and a run with nothing to do.

    cargo build --release
    python3 benches/many_cases.py                  # --cells 400 for a quick look

The models are ONNX files of one operator, written here, each with a constant of its own. Every one has a case on `cpu`
and one on `openvino`. Making all results once takes minutes for thousands of cases; `--dir` keeps them for the next
time. Prints a Markdown table: the least CPU time of `--runs`, which neighbours on the machine disturb little, and the
least wall time.
"""

from __future__ import annotations

import argparse
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

from harness.table import machine, where

TARGETS = """\
version: 1
targets:
  cpu: {runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32]}
  openvino: {runtime: openvino, backend: openvino, device: CPU, artefact: openvino, precisions: [fp32]}
measure: {warmup: 0, samples: 1}
models:
"""
SIZE = 8


def varint(value: int) -> bytes:
    head = bytes([value & 0x7F | (0x80 if value > 0x7F else 0)])
    return head + varint(value >> 7) if value > 0x7F else head


def field(number: int, value: int | str | bytes) -> bytes:
    """A field of a protobuf message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def model(constant: float) -> bytes:
    """An ONNX file: `y = x * constant`, by the numbers of fields in onnx.proto."""
    shape = field(2, field(1, field(1, SIZE)))
    floats = field(2, field(1, field(1, 1) + shape))
    node = field(1, "x") + field(1, "c") + field(2, "y") + field(4, "Mul")
    values = field(1, SIZE) + field(2, 1) + field(8, "c") + field(9, struct.pack("<f", constant) * SIZE)
    graph = field(1, node) + field(2, "g") + field(5, values)
    graph += field(11, field(1, "x") + floats) + field(12, field(1, "y") + floats)
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))


def write_spec(folder: Path, cells: int) -> None:
    (folder / "models").mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(cells // 2):
        name = f"multiply_by_{number}_of_many_that_are_called_alike"
        (folder / "models" / f"{name}.onnx").write_bytes(model(1 + number / 7))
        inputs = f"{{x: {{dtype: float32, shape: [{SIZE}], normal: [0, 1]}}}}"
        rows.append(f"  {name}: {{onnx: models/{name}.onnx, inputs: {inputs}}}\n")
    (folder / "all.yaml").write_text(TARGETS + "".join(rows))


def timed(argv: list[str], folder: Path) -> tuple[float, float]:
    """Seconds of CPU and of wall. Failures of cases are none of orch's."""
    with (folder / "said").open("wb") as said:
        start = time.perf_counter()
        child = subprocess.Popen(argv, cwd=folder, stdout=said, stderr=said)
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 1):
        sys.exit(f"{' '.join(argv)} failed: see {folder / 'said'}")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--orch", type=Path, default=Path("target/release/orch"))
    parser.add_argument("--cells", type=int, default=3500)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--dir", type=Path, default=Path("target/many-cases"))
    parser.add_argument("--env-dir", type=Path, default=Path("cache/envs"))
    args = parser.parse_args()
    about, folder = machine(), args.dir.absolute() / str(args.cells)
    write_spec(folder, args.cells)
    orch = [str(args.orch.absolute()), "--env-dir", str(args.env_dir.absolute())]
    seconds = timed([*orch, "run", "all.yaml"], folder)[1]
    print(f"all results are there after {seconds:.0f} s", file=sys.stderr)
    print("| what | CPU | wall | lines on the terminal |\n|---|--:|--:|--:|")
    for words in (["plan", "all.yaml"], ["report", "all.yaml"], ["run", "all.yaml"]):
        took = [timed([*orch, *words], folder) for _ in range(args.runs)]
        cpu, wall = (min(times) for times in zip(*took, strict=True))
        lines = (folder / "said").read_bytes().count(b"\n")
        what = "a run with nothing to do" if words[0] == "run" else f"`orch {words[0]}`"
        print(f"| {what} | {cpu:.2f} s | {wall:.2f} s | {lines} |")
    print(f"\n{where(about)} {args.cells:,} cells; the least of {args.runs}.")


if __name__ == "__main__":
    main()
