#!/usr/bin/env python3
"""orch's figures of PyTorch beside PyTorch's own loops: the same TorchScript file, and the same class.

    cargo build --release
    python3 benches/torch_loop.py [--model opt] [--rounds 10] [--env-dir cache/envs]

Small models of `specs/all.yaml`, as many threads as PyTorch takes by itself. Each round is a process of its own, and
rounds follow each other in random order. What is compared is the median over rounds of their medians: of several
threads no single sample tells much. Wants a quiet machine. Ends with 1 if orch's figure is more than `--bound` percent
larger.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

SPEC = "specs/all.yaml"
# What an interpreter of the environment does: TorchScript by its file, or the class by the tree that orch made of it.
LOOP = """
import json, statistics, sys, time
from pathlib import Path
import torch
from orch_py.generate import torch_model
from orch_py.worker import trees
kind, path = sys.argv[1], Path(sys.argv[2])
loaded = torch_model.load_tree(path) if kind == "eager" else None
if loaded:
    infer = lambda: loaded.model(**loaded.inputs)
else:
    model = torch.jit.load(path / "model.pt")
    manifest, tensors = trees.read_manifest(path), trees.read_tensors(path, trees.INPUTS)
    given = [torch.from_numpy(tensors[name]) for name in manifest["inputs"]]
    infer = lambda: model(*given)
taken, end = [], time.perf_counter() + 1
# As orch has it. In `inference_mode` the same is a tenth faster.
with torch.no_grad():
    for _ in range(40):
        infer()
    while len(taken) < 30 or time.perf_counter() < end:
        begin = time.perf_counter_ns()
        infer()
        taken.append((time.perf_counter_ns() - begin) / 1e6)
print(json.dumps(statistics.median(taken)))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--orch", type=Path, default=Path("target/release/orch"))
    parser.add_argument("--env-dir", type=Path, default=Path("cache/envs"))
    parser.add_argument("--model", default="opt", help="of specs/all.yaml")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--bound", type=float, default=10.0, help="percent")
    parser.add_argument("--seed", type=int, default=0, help="of the order of rounds")
    args = parser.parse_args()
    interpreter = max(args.env_dir.glob("torch-*/bin/python"), key=lambda path: path.lstat().st_mtime).absolute()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        orch = [args.orch, "--cache-dir", folder / "cache", "--env-dir", args.env_dir]
        out = ["--out-dir", folder / "out"]
        call([*orch, "run", SPEC, "--model", args.model, "-t", "eager-cpu", "-t", "torch-cpu", *out])
        steps = {"eager": f"generate:{args.model}", "torchscript": f"convert:{args.model}:torchscript"}
        for name, step in steps.items():
            call([*orch, "output", step, "--spec", SPEC, "--to", folder / name])

        def by_orch(target: str) -> float:
            chosen = ["--model", args.model, "-t", target, "--rerun", "run", "--json"]
            found = json.loads(call([*orch, "run", SPEC, *chosen, *out]))
            return float(found["cases"][0]["metrics"]["median_ms"])

        def by_itself(kind: str) -> float:
            return float(call([interpreter, "-c", LOOP, kind, folder / kind], {"PYTHONPATH": "python"}))

        loops: dict[str, Callable[[], float]] = {
            "orch, eager": lambda: by_orch("eager-cpu"),
            "eager by itself": lambda: by_itself("eager"),
            "orch, TorchScript": lambda: by_orch("torch-cpu"),
            "TorchScript by itself": lambda: by_itself("torchscript"),
        }
        taken: dict[str, list[float]] = {name: [] for name in loops}
        order = random.Random(args.seed)
        for number in range(args.rounds):
            for name in order.sample(list(loops), len(loops)):
                taken[name].append(loops[name]())
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
    print("| loop | median, ms | least round | largest |\n|---|--:|--:|--:|")
    for name, times in taken.items():
        print(f"| {name} | {statistics.median(times):.3f} | {min(times):.3f} | {max(times):.3f} |")
    names = list(loops)
    more = [statistics.median(taken[a]) / statistics.median(taken[b]) - 1 for a, b in (names[:2], names[2:])]
    print(f"orch's figure is larger by {100 * more[0]:+.1f} % and {100 * more[1]:+.1f} %")
    return 0 if 100 * max(more) <= args.bound else 1


def call(argv: list[Any], variables: dict[str, str] | None = None) -> str:
    words = [str(word) for word in argv]
    ended = subprocess.run(words, env={**os.environ, **(variables or {})}, capture_output=True, text=True)
    if ended.returncode:
        sys.exit(f"{' '.join(words)}\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    return ended.stdout


if __name__ == "__main__":
    sys.exit(main())
