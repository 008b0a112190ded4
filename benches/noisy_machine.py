#!/usr/bin/env python3
"""Whether a latency without a mark may be read as it stands: on an idle machine, and with every core kept busy.

    cargo build --release
    python3 benches/noisy_machine.py [-m bert …] [-t cpu …] [--idle 10] [--env-dir cache/envs]

Wants a quiet machine: first `orch bench` finds what each cell of the spec takes there. Then as many processes as there
are cores compute, and one more run measures all cells: ends with 1 if one without a mark shows more than `--bound`
times what the quiet run found. With `--idle N`, N runs are made on the idle machine before that, and none of their
cells without a mark may be more than `--idle-bound` times off. Cells that the quiet run itself marks are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Never ends, and takes a core.
LOAD = "while True: pass"
# So long a load runs before anything is measured, seconds.
SETTLES = 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--orch", type=Path, default=Path("target/release/orch"))
    parser.add_argument("--env-dir", type=Path, default=Path("cache/envs"))
    parser.add_argument("--spec", default="specs/all.yaml")
    parser.add_argument("-m", "--model", action="append", default=[], help="only these models; may be repeated")
    parser.add_argument("-t", "--target", action="append", default=[], help="only these targets; may be repeated")
    parser.add_argument("--loads", type=int, default=os.cpu_count(), help="processes that compute beside the run")
    parser.add_argument("--bound", type=float, default=2.0, help="times the quiet figure, with the loads")
    parser.add_argument("--idle", type=int, default=0, help="runs on the idle machine")
    parser.add_argument("--idle-bound", type=float, default=1.3, help="times the quiet figure, on the idle machine")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return compared(args, Path(folder))


def compared(args: argparse.Namespace, folder: Path) -> int:
    document, seconds = measured(args, folder, "bench")
    cells = timed(document)
    quiet = {case: metrics["median_ms"] for case, metrics in cells.items() if not metrics.get("not_quiet")}
    print(f"quiet: {len(quiet)} of {len(cells)} cells are quiet in five rounds, {seconds:.0f} s")
    if not quiet:
        print("this machine is not quiet enough to tell anything")
        return 1
    wrong = 0
    for number in range(1, args.idle + 1):
        found = measured(args, folder, "run", "--rerun", "run")
        wrong += told(f"idle {number}", quiet, found, args.idle_bound)
    with loads(args.loads):
        found = measured(args, folder, "run", "--rerun", "run")
    wrong += told(f"{args.loads} loads", quiet, found, args.bound)
    return 1 if wrong else 0


def measured(args: argparse.Namespace, folder: Path, *command: str) -> tuple[dict[str, Any], float]:
    """The document of a run, and how many seconds it took."""
    line: list[str | Path] = [args.orch, "--cache-dir", folder / "cache", "--env-dir", args.env_dir.resolve()]
    line += [command[0], args.spec, *command[1:], "--json", "--quiet", "--no-remote", "--out-dir", folder / "out"]
    line += [word for model in args.model for word in ("-m", model)]
    line += [word for target in args.target for word in ("-t", target)]
    begin = time.monotonic()
    ran = subprocess.run(line, stdout=subprocess.PIPE, check=False)
    if not ran.stdout:
        raise SystemExit(f"`orch {command[0]}` gave no report")
    return json.loads(ran.stdout), time.monotonic() - begin


def timed(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The figures of cells that passed on hardware."""
    stands_in = {
        device["id"]
        for backend in document["backends"]
        for device in backend.get("devices", [])
        if device["kind"] != "hardware"
    }
    cases = (case for case in document["cases"] if case["metrics"] and case["status"] == "PASS")
    return {case["case"]: case["metrics"] for case in cases if case["actual_device"] not in stands_in}


def told(what: str, quiet: dict[str, float], found: tuple[dict[str, Any], float], bound: float) -> int:
    """Prints a line about a run and one for each cell that is off without a mark. Returns how many those are."""
    cells = {case: metrics for case, metrics in timed(found[0]).items() if case in quiet}
    ratio = {case: metrics["median_ms"] / quiet[case] for case, metrics in cells.items()}
    off = {case: max(times, 1 / times) for case, times in ratio.items()}
    plain = [case for case, metrics in cells.items() if not metrics.get("not_quiet")]
    marked = [case for case in cells if case not in plain]
    wrong = sorted((case for case in plain if off[case] > bound), key=lambda case: -off[case])
    worst = max((off[case] for case in plain), default=1.0)
    hidden = max((off[case] for case in marked), default=1.0)
    print(
        f"{what}: {len(marked)} of {len(cells)} cells are marked, at most {hidden:.1f} times off; the others at most"
        f" {worst:.2f} times; {len(wrong)} of them above {bound}; {found[1]:.0f} s"
    )
    for case in wrong:
        print(f"  {case}: {cells[case]['median_ms']:.3f} ms without a mark, {quiet[case]:.3f} ms when quiet")
    return len(wrong)


@contextmanager
def loads(count: int) -> Iterator[None]:
    """So many processes that compute, until the end of the block."""
    running = [subprocess.Popen([sys.executable, "-c", LOAD]) for _ in range(count)]
    try:
        time.sleep(SETTLES)
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
