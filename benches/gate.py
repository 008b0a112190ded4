#!/usr/bin/env python3
"""How often `orch compare --gate --confirm` errs: heads that are the base again, and heads that are slower by so much.

    cargo build --release
    python3 benches/gate.py [--one-thread] [--again N] [--slower 6] [--env-dir cache/envs] [--to results.jsonl]
    python3 benches/gate.py --read results.jsonl others.jsonl     # the tables of pieces, also of several machines

Each model is a chain of layers that cost the same; a head that is 10 % slower has as many more of them as take 10 % of
the time, which is calibrated first: the time of 100 and of 200 layers gives what a layer takes and what does not depend
on layers. So nothing is pretended: the model's file is another one, as after a change that a user makes. Base and head
are revisions of a git repository, each comparison is a call of `orch compare`, and the machine may be as busy as it is.

Prints how many cases came to what, for targets of one thread and for those of several; the share of false alarms and
that of the 10 % found, with 95 % bounds; and how many calls closed the gate. Each line of `--to` holds the whole
comparison with all rounds, so that another rule can be tried on them. Needs git and orch's environments `ort`,
`openvino` and `torch` (for the package onnx).
"""

from __future__ import annotations

import argparse
import json
import math
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
# So many cases whose head is the base again, at least.
UNCHANGED = 200
SLOWER = (3, 5, 10, 20)
TARGETS = {
    "ort-1": "{runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32], options: {threads: 1}}",
    "openvino-1": "{runtime: openvino, backend: openvino, device: CPU, artefact: openvino, precisions: [fp32], "
    "options: {threads: 1}}",
    "ort-all": "{runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32]}",
}
# It has as many threads as its runtime chooses.
SEVERAL = "ort-all"
# Each target has files of its own, because as many layers are not as much slower on each.
SPEC = """version: 1
pipelines: {{tabular: {{description: numbers to numbers, tasks: [regression], template: text}}}}
targets:
{targets}
models:
{models}
matrix:
  exclude: [{{model: "*", target: "*", reason: each target has models of its own}}]
  include:
{pairs}
"""
ROW = """  {name}: {{onnx: {name}.onnx, task: regression, pipeline: tabular,
    inputs: {{x: {{dtype: float32, shape: [{rows}, {width}], normal: [0, 1]}}}}}}"""
Line = dict[str, Any]
# What the gate says of how many cases, by how much slower their head is, and whether they have one thread or several.
Counts = dict[tuple[int, str], Counter[str]]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--orch", type=Path, default=Path("target/release/orch"))
    parser.add_argument("--env-dir", type=Path, default=Path("cache/envs"))
    parser.add_argument("--one-thread", action="store_true", help="leave out the target of several threads")
    parser.add_argument("--again", type=int, help="heads that are the base again [default: as many as make 200 cases]")
    parser.add_argument("--slower", type=int, default=6, help="heads for each share by which they are slower")
    parser.add_argument("--by", type=int, nargs="+", default=SLOWER, help="percent by which they are slower")
    parser.add_argument("--to", type=Path, help="also write what each comparison found, as JSON lines")
    parser.add_argument("--read", type=Path, nargs="+", help="measure nothing: only the tables of such lines")
    # What this file does in the interpreter of an environment: a file for each name and number of layers.
    parser.add_argument("--make", nargs=2, metavar=("FOLDER", "LAYERS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.make:
        for name, layers in json.loads(args.make[1]).items():
            make(Path(args.make[0]) / f"{name}.onnx", *MODELS[name.partition("-")[0]], layers)
        return 0
    if args.read:
        told([json.loads(line) for path in args.read for line in path.read_text().splitlines()])
        return 0
    args.orch, args.env_dir = args.orch.resolve(), args.env_dir.resolve()
    args.to = args.to and args.to.resolve()
    if args.again is None:
        args.again = math.ceil(UNCHANGED / len(MODELS) / len(targets(args.one_thread)))
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        gate = Gate(Path(folder), args)
        for number in range(max(args.again, args.slower)):
            for percent in (0, *args.by):
                if number < (args.slower if percent else args.again):
                    lines.append(gate.compare(percent))
            print(f"{number + 1} of {max(args.again, args.slower)}", file=sys.stderr)
    told(lines)
    return 0


def targets(one_thread: bool) -> dict[str, str]:
    return {name: row for name, row in TARGETS.items() if not (one_thread and name == SEVERAL)}


def told(lines: list[Line]) -> None:
    machines = Counter(line["comparison"]["head"]["machines"][0]["cpu"] for line in lines)
    print(f"{len(lines)} comparisons: " + ", ".join(f"{count} on {cpu}" for cpu, count in machines.items()) + "\n")
    counts = counted(lines)
    print(table(counts))
    print("\n" + rates(counts))
    print("\n" + gates(lines))


def gates(lines: list[Line]) -> str:
    """How many calls ended with 1: a gate is closed by any one of its cases."""
    counts: dict[int, Counter[int]] = {}
    for line in lines:
        counts.setdefault(line["percent"], Counter())[line["code"]] += 1
    rows = ["| head | calls | gate closed |", "|---|--:|--:|"]
    for percent, count in sorted(counts.items()):
        rows.append(f"| {head_of(percent)} | {count.total()} | {count[1]} |")
    return "\n".join(rows)


def head_of(percent: int) -> str:
    return f"+{percent} %" if percent else "the base again"


def counted(lines: list[Line]) -> Counts:
    counts: Counts = {}
    for line in lines:
        for case, verdict in line["found"].items():
            threads = "several" if f":{SEVERAL}-" in case else "one"
            counts.setdefault((line["percent"], threads), Counter())[verdict] += 1
    return counts


def rates(counts: Counts) -> str:
    """What is claimed of the gate. *Cannot tell* is neither an alarm nor found."""
    rows = ["| what | threads | cases | share | with 95 % confidence |", "|---|---|--:|--:|---|"]
    for (percent, threads), count in sorted(counts.items()):
        cases = count.total()
        if percent == 0:
            what, hits = "false alarms: slower or faster", count["slower"] + count["faster"]
            worst = f"at most {100 * at_most(hits, cases):.1f} %"
        elif percent == 10:
            what, hits = "+10 % found: slower", count["slower"]
            worst = f"at least {100 * (1 - at_most(cases - hits, cases)):.1f} %"
        else:
            continue
        rows.append(f"| {what} | {threads} | {hits} of {cases} | {100 * hits / cases:.1f} % | {worst} |")
    return "\n".join(rows)


def at_most(hits: int, cases: int) -> float:
    """The share at which so few hits or fewer have a chance of 5 %: the exact binomial bound, which takes cases to be
    independent of each other. Of no hit it is some 3 / cases."""

    def chance(share: float) -> float:
        def of(count: int) -> float:
            ways = math.lgamma(cases + 1) - math.lgamma(count + 1) - math.lgamma(cases - count + 1)
            return math.exp(ways + count * math.log(share) + (cases - count) * math.log1p(-share))

        return math.fsum(of(count) for count in range(hits + 1))

    if hits == cases:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) > 0.05 else (low, middle)
    return high


def table(counts: Counts) -> str:
    """By how much slower a head is, and whether its target has one thread or several."""
    verdicts = ("same", "slower", "faster", "cannot tell")
    rows = ["| head | threads | cases | " + " | ".join(verdicts) + " |", "|---|---|--:|--:|--:|--:|--:|"]
    for (percent, threads), count in sorted(counts.items()):
        figures = [count.total(), *(count[verdict] for verdict in verdicts)]
        rows.append(f"| {head_of(percent)} | {threads} | {' | '.join(map(str, figures))} |")
    return "\n".join(rows)


class Gate:
    """A repository whose one commit is the base, with its report beside it."""

    def __init__(self, folder: Path, args: argparse.Namespace) -> None:
        self.args, self.repository, self.base = args, folder / "repository", folder / "base"
        self.command = [args.orch, "--cache-dir", folder / "cache", "--env-dir", args.env_dir]
        self.repository.mkdir()
        rows = targets(args.one_thread)
        self.pairs = {f"{size}-{target}": target for size in MODELS for target in rows}
        self.write_spec(rows)
        self.layers = {0: dict.fromkeys(self.pairs, LAYERS)}
        self.calibrate()
        self.write(0)
        self.call(["git", "init", "--quiet"])
        self.call(["git", "add", "."])
        self.call(["git", "-c", "user.name=gate", "-c", "user.email=gate@localhost", "commit", "-qm", "the base"])
        self.measure(self.base)

    def write_spec(self, targets: dict[str, str]) -> None:
        shapes = {name: MODELS[name.partition("-")[0]] for name in self.pairs}
        rows = [ROW.format(name=name, rows=rows, width=width) for name, (rows, width) in shapes.items()]
        pairs = [f"    - {{model: {name}, target: {target}}}" for name, target in self.pairs.items()]
        named = [f"  {name}: {row}" for name, row in targets.items()]
        parts = {"targets": named, "models": rows, "pairs": pairs}
        spec = SPEC.format(**{name: "\n".join(lines) for name, lines in parts.items()})
        (self.repository / "spec.yaml").write_text(spec)
        (self.repository / ".gitignore").write_text("orch-out/\n")

    def calibrate(self) -> None:
        """How many layers take how much longer. Each figure is the lowest of nine processes."""
        times = []
        for layers in (LAYERS, 2 * LAYERS):
            self.layers[0] = dict.fromkeys(self.pairs, layers)
            self.write(0)
            out = self.repository.parent / f"calibrated-{layers}"
            self.measure(out, rounds=9)
            cases = json.loads((out / "report/matrix.json").read_text())["cases"]
            times.append({case["case"].partition(":")[0]: case["metrics"]["statistic"]["ms"] for case in cases})
        self.layers = {0: dict.fromkeys(self.pairs, LAYERS)}
        for name in self.pairs:
            once, twice = (of[name] for of in times)
            each = (twice - once) / LAYERS
            print(f"{name}: {once:.4f} ms, {each:.5f} ms a layer", file=sys.stderr)
            for percent in self.args.by:
                more = max(1, round(percent / 100 * once / each))
                self.layers.setdefault(percent, {})[name] = LAYERS + more

    def write(self, percent: int) -> None:
        layers = json.dumps(self.layers[percent])
        self.call([python(self.args, "torch"), Path(__file__).resolve(), "--make", self.repository, layers])

    def measure(self, out: Path, rounds: int = 3) -> None:
        """As a user would before a gate: three processes for each case."""
        run = ["run", "spec.yaml", "--rounds", rounds, "--rerun", "run", "--quiet", "--out-dir", out]
        self.call([*self.command, *run])

    def compare(self, percent: int) -> Line:
        """What the gate says of each case, for a head that is slower by so much."""
        self.write(percent)
        head = self.repository / "orch-out"
        self.measure(head)
        reports = [self.base / "report/matrix.json", head / "report/matrix.json"]
        argv = [*self.command, "compare", *reports, "--gate", "--confirm", "HEAD", "--json"]
        ended = self.ended(argv, codes=(0, 1))
        cases = [case["case"] for case in json.loads(reports[0].read_text())["cases"]]
        comparison: dict[str, Any] = json.loads(ended.stdout)
        found = dict.fromkeys(cases, "same")
        for change in comparison["changes"]:
            if change["kind"] in ("slower", "faster", "cannot_tell"):
                found[change["case"]] = change["kind"].replace("_", " ")
        line = {"percent": percent, "code": ended.returncode, "found": found}
        line |= {"layers": self.layers[percent], "comparison": comparison}
        if self.args.to:
            with self.args.to.open("a") as file:
                file.write(json.dumps(line) + "\n")
        return line

    def call(self, argv: list[Any]) -> str:
        return self.ended(argv, codes=(0,)).stdout

    def ended(self, argv: list[Any], codes: tuple[int, ...]) -> subprocess.CompletedProcess[str]:
        words = [str(word) for word in argv]
        ended = subprocess.run(words, cwd=self.repository, env=os.environ, capture_output=True, text=True)
        if ended.returncode not in codes:
            sys.exit(f"{argv} ended with {ended.returncode}\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
        return ended


if __name__ == "__main__":
    sys.exit(main())
