#!/usr/bin/env python3
"""How often `orch compare --gate --confirm` errs: heads that are the base again, and heads that are slower by so much.

    cargo build --release
    python3 benches/gate.py [--again 23] [--slower 6] [--env-dir cache/envs] [--to results.json]

Each model is a chain of layers that cost the same; a head that is 10 % slower has 10 % more of them. So nothing is
pretended: the model's file is another one, as after a change that a user makes. Base and head are revisions of a git
repository, each comparison is a call of `orch compare`, and the machine may be as busy as it is.

Prints how many comparisons came to what, for targets of one thread and for those of several. Needs git and orch's
environments `ort`, `openvino` and `torch` (for the package onnx).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from overhead import make, python

# Rows and width of each product. With 100 layers and one thread: some 0.1, 0.7 and 8 ms.
MODELS = {"tiny": (16, 64), "small": (64, 96), "large": (512, 128)}
LAYERS = 100
# The end of the name of the target that has as many threads as its runtime chooses.
SEVERAL = "-all-"
SLOWER = (3, 5, 10, 20)
SPEC = """version: 1
pipelines: {tabular: {description: numbers to numbers, tasks: [regression], template: text}}
targets:
  ort-1: {runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32], options: {threads: 1}}
  ort-all: {runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32]}
  openvino-1: {runtime: openvino, backend: openvino, device: CPU, artefact: openvino, precisions: [fp32],
    options: {threads: 1}}
models:
"""
# What the gate says of each case.
Found = dict[str, str]
ROW = """  {name}: {{onnx: {name}.onnx, task: regression, pipeline: tabular,
    inputs: {{x: {{dtype: float32, shape: [{rows}, {width}], normal: [0, 1]}}}}}}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--orch", type=Path, default=Path("target/release/orch"))
    parser.add_argument("--env-dir", type=Path, default=Path("cache/envs"))
    parser.add_argument("--again", type=int, default=23, help="heads that are the base again (9 cases each)")
    parser.add_argument("--slower", type=int, default=6, help="heads for each share by which they are slower")
    parser.add_argument("--to", type=Path, help="also write what each comparison found, as JSON lines")
    parser.add_argument("--read", type=Path, nargs="+", help="measure nothing: only the table of such lines")
    # What this file does in the interpreter of an environment.
    parser.add_argument("--make", nargs=2, metavar=("FOLDER", "LAYERS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.make:
        for name, (rows, width) in MODELS.items():
            make(Path(args.make[0]) / f"{name}.onnx", rows, width, int(args.make[1]))
        return 0
    if args.read:
        lines = [json.loads(line) for path in args.read for line in path.read_text().splitlines()]
        print(table([(line["percent"], line["found"]) for line in lines]))
        return 0
    args.orch, args.env_dir = args.orch.resolve(), args.env_dir.resolve()
    args.to = args.to and args.to.resolve()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        gate = Gate(Path(folder), args)
        for number in range(max(args.again, args.slower)):
            for percent in (0, *SLOWER):
                if number < (args.slower if percent else args.again):
                    found.append((percent, gate.compare(percent)))
            print(f"{number + 1} of {max(args.again, args.slower)}", file=sys.stderr)
    print(table(found))
    return 0


def table(found: list[tuple[int, Found]]) -> str:
    """By how much slower a head is, and whether its target has one thread or several."""
    counts: dict[tuple[int, str], Counter[str]] = {}
    for percent, verdicts in found:
        for case, verdict in verdicts.items():
            threads = "several" if SEVERAL in case else "one"
            counts.setdefault((percent, threads), Counter())[verdict] += 1
    verdicts = ("same", "slower", "faster", "cannot tell")
    rows = ["| head | threads | comparisons | " + " | ".join(verdicts) + " |", "|---|---|--:|--:|--:|--:|--:|"]
    for (percent, threads), count in sorted(counts.items()):
        head = f"+{percent} %" if percent else "the base again"
        figures = [count.total(), *(count[verdict] for verdict in verdicts)]
        rows.append(f"| {head} | {threads} | {' | '.join(map(str, figures))} |")
    return "\n".join(rows)


class Gate:
    """A repository whose one commit is the base, with its report beside it."""

    def __init__(self, folder: Path, args: argparse.Namespace) -> None:
        self.args, self.repository, self.base = args, folder / "repository", folder / "base"
        self.command = [args.orch, "--cache-dir", folder / "cache", "--env-dir", args.env_dir]
        self.repository.mkdir()
        rows = "".join(ROW.format(name=name, rows=rows, width=width) for name, (rows, width) in MODELS.items())
        (self.repository / "spec.yaml").write_text(SPEC + rows)
        (self.repository / ".gitignore").write_text("orch-out/\n")
        self.write(0)
        self.call(["git", "init", "--quiet"])
        self.call(["git", "add", "."])
        self.call(["git", "-c", "user.name=gate", "-c", "user.email=gate@localhost", "commit", "-qm", "the base"])
        self.measure(self.base)

    def write(self, percent: int) -> None:
        layers = LAYERS * (100 + percent) // 100
        self.call([python(self.args, "torch"), Path(__file__).resolve(), "--make", self.repository, layers])

    def measure(self, out: Path) -> None:
        """As a user would before a gate: three processes for each case."""
        run = ["run", "spec.yaml", "--rounds", "3", "--rerun", "run", "--quiet", "--out-dir", out]
        self.call([*self.command, *run])

    def compare(self, percent: int) -> Found:
        """What the gate says of each case, for a head that is slower by so much."""
        self.write(percent)
        head = self.repository / "orch-out"
        self.measure(head)
        reports = [self.base / "report/matrix.json", head / "report/matrix.json"]
        told = self.call([*self.command, "compare", *reports, "--gate", "--confirm", "HEAD", "--json"], codes=(0, 1))
        cases = [case["case"] for case in json.loads(reports[0].read_text())["cases"]]
        comparison: dict[str, Any] = json.loads(told)
        found = dict.fromkeys(cases, "same")
        for change in comparison["changes"]:
            if change["kind"] in ("slower", "faster"):
                verdict = change["verdict"]
                found[change["case"]] = change["kind"] if verdict == "confirmed" else "cannot tell"
        if self.args.to:
            with self.args.to.open("a") as file:
                file.write(json.dumps({"percent": percent, "found": found, "comparison": comparison}) + "\n")
        return found

    def call(self, argv: list[Any], codes: tuple[int, ...] = (0,)) -> str:
        ended = subprocess.run(
            [str(word) for word in argv], cwd=self.repository, env=os.environ, capture_output=True, text=True
        )
        if ended.returncode not in codes:
            sys.exit(f"{argv} ended with {ended.returncode}\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
        return ended.stdout


if __name__ == "__main__":
    sys.exit(main())
