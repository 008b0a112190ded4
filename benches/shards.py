#!/usr/bin/env python3
"""What parts of a spec cost, each on a machine of its own, beside one machine that does all of it.

    cargo build --release
    python3 benches/shards.py [--parts 4] [--method model] [-t cpu …] [--env-dir cache/envs]

One run of the spec in an empty store is the base. Then each part runs in an empty store of its own, one after the
other, with the base's durations. Work is the time that steps took, in all parts together; the longest part is what a
user waits for. Ends with 1 if the parts together lack a case.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--orch", type=Path, default=Path("target/release/orch"))
    parser.add_argument("--env-dir", type=Path, default=Path("cache/envs"))
    parser.add_argument("--spec", default="specs/all.yaml")
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--method", action="append", default=[], help="model, hash or slice; may be repeated")
    parser.add_argument("-m", "--model", action="append", default=[], help="only these models; may be repeated")
    parser.add_argument("-t", "--target", action="append", default=[], help="only these targets; may be repeated")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return compared(args, Path(folder))


def compared(args: argparse.Namespace, folder: Path) -> int:
    base, wall = ran(args, folder / "whole")
    work = base["summary"]["executed_seconds"]
    cases = {case["case"] for case in base["cases"]}
    report = folder / "base.json"
    report.write_text(json.dumps(base))
    print("| parts | longest part | faster | work | times the work | steps executed |")
    print("|---|---|---|---|---|---|")
    print(f"| the whole | {wall:.1f} s | 1.0 | {work:.1f} s | 1.00 | {base['summary']['executed']} |", flush=True)
    is_complete = True
    for method in args.method or ["model"]:
        walls, works, steps, found = [], 0.0, 0, set()
        for part in range(1, args.parts + 1):
            more = ["--partition", f"{method}:{part}/{args.parts}"]
            if method == "model":
                more += ["--durations", str(report)]
            document, took = ran(args, folder / f"{method}-{part}", *more)
            walls.append(took)
            works += document["summary"]["executed_seconds"]
            steps += document["summary"]["executed"]
            found |= {case["case"] for case in document["cases"]}
        longest = max(walls)
        each = ", ".join(f"{took:.0f}" for took in walls)
        print(
            f"| {args.parts} by {method} ({each} s) | {longest:.1f} s | {wall / longest:.1f} "
            f"| {works:.1f} s | {works / work:.2f} | {steps} |",
            flush=True,
        )
        is_complete &= found == cases
    return 0 if is_complete else 1


def ran(args: argparse.Namespace, store: Path, *more: str) -> tuple[dict[str, Any], float]:
    """The document of a run in an empty store, and how many seconds it took."""
    line: list[str | Path] = [args.orch, "--cache-dir", store / "cache", "--env-dir", args.env_dir.resolve()]
    line += ["run", args.spec, *more, "--json", "--quiet", "--no-remote", "--allow-none", "--out-dir", store / "out"]
    line += [word for model in args.model for word in ("-m", model)]
    line += [word for target in args.target for word in ("-t", target)]
    begin = time.monotonic()
    finished = subprocess.run(line, stdout=subprocess.PIPE, check=False)
    if not finished.stdout:
        raise SystemExit(f"`orch run` gave no report (code {finished.returncode})")
    return json.loads(finished.stdout), time.monotonic() - begin


if __name__ == "__main__":
    raise SystemExit(main())
