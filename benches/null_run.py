#!/usr/bin/env python3
"""What orch itself costs: a first run of N trivial `command` steps, and runs in which nothing changed.

    cargo build --release && python3 benches/null_run.py --orch target/release/orch --steps 1000

Prints wall seconds and peak memory; medians of 5. Everything happens in a temporary folder.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path


def timed(argv: list[str], cwd: str) -> tuple[float, int]:
    """Wall seconds, and the peak resident memory in bytes of the process itself."""
    start = time.perf_counter()
    with subprocess.Popen(argv, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"{argv} ended with {child.returncode}")
    return time.perf_counter() - start, usage.ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--orch", type=Path, default=Path("target/release/orch"))
    parser.add_argument("--steps", type=int, default=1000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [f"  c{i}: {{argv: [sh, -c, 'echo {i} > out'], outputs: [out]}}" for i in range(args.steps)]
        Path(folder, "all.yaml").write_text("version: 1\ncommands:\n" + "\n".join(rows) + "\n")
        argv = [str(args.orch.resolve()), "run", "all.yaml"]
        first, _ = timed(argv, folder)
        again = [timed(argv, folder) for _ in range(5)]
    seconds = statistics.median(wall for wall, _ in again)
    memory = max(rss for _, rss in again)
    print(f"{args.steps} steps: first run {first:.2f} s ({first / args.steps * 1e3:.2f} ms a step), "
          f"null run {seconds * 1e3:.0f} ms, {memory / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
