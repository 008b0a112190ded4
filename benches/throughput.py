#!/usr/bin/env python3
"""How fast orch reads: the digest of one large file beside b3sum, and a large spec by `orch plan`.

    cargo build --release
    python3 benches/throughput.py                  # b3sum from PATH: `cargo install b3sum`

A Markdown table on stdout; everything happens in a temporary folder.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from harness.clock import timed
from harness.table import duration, machine, where
from harness.tool import environment

HEAD = "version: 1\ncommands:\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--orch", type=Path, default=Path("target/release/orch"))
    parser.add_argument("--mib", type=int, default=2048, help="size of the large file (default: 2048)")
    parser.add_argument("--steps", type=int, default=100_000, help="steps of the large spec (default: 100000)")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--dir", type=Path, help="make the temporary folder in this one, e.g. on another disk")
    args = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        # Unwinds, so that what runs is ended and the temporary folder is removed.
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    about = machine()
    print("| what | size | time | throughput |\n|---|--:|--:|--:|")
    with tempfile.TemporaryDirectory(dir=args.dir) as name:
        bench = Bench(args.orch.resolve(), Path(name), args.runs)
        bench.hashing(args.mib)
        bench.reading(args.steps)
    print(f"\n{where(about)} Medians of {args.runs}, files in the page cache.")


class Bench:
    def __init__(self, orch: Path, folder: Path, runs: int) -> None:
        self.orch = str(orch)
        self.folder = folder
        self.runs = runs

    def hashing(self, mib: int) -> None:
        """orch by difference: `orch explain` of a step that reads the large file, less the same with a small one."""
        large, small = self.folder / "large", self.folder / "small"
        with large.open("wb") as file:
            for _ in range(mib):
                file.write(os.urandom(2**20))
        small.write_text("small")
        # Written back now, so that the disk is at rest when the clock runs.
        os.sync()
        seconds = {}
        for path in (large, small):
            spec = self.folder / f"{path.name}.yaml"
            spec.write_text(f"{HEAD}  c: {{argv: ['true'], inputs: {{in: {{file: {path.name}}}}}, outputs: [out]}}\n")
            argv = [self.orch, "explain", "command:c", "--spec", spec.name]
            # A new mtime, so that a digest known from before is not taken.
            seconds[path.name] = self.median(argv, path.touch)
        row("orch: digest of one file", large, seconds["large"] - seconds["small"])
        if b3sum := shutil.which("b3sum"):
            row("b3sum", large, self.median([b3sum, large.name], large.touch))
        else:
            print("| b3sum | not here: no `b3sum` on PATH | | |")
        large.unlink()

    def reading(self, steps: int) -> None:
        spec = self.folder / "many.yaml"
        with spec.open("w") as file:
            file.write(HEAD)
            for i in range(steps):
                file.write(f"  c{i}: {{argv: [/bin/sh, -c, 'echo {i} > out'], outputs: [out]}}\n")

        def comment() -> None:
            # So that a plan known from before is not taken.
            with spec.open("a") as file:
                file.write("# one more comment\n")

        row(f"`orch plan` of {steps:,} steps", spec, self.median([self.orch, "plan", spec.name], comment))

    def median(self, argv: list[str], before: Callable[[], None]) -> float:
        seconds = []
        for _ in range(self.runs):
            before()
            run = timed(argv, cwd=self.folder, env=environment(self.folder), log=self.folder / "log")
            print(f"{' '.join(argv)}: {run.seconds:.3f} s", file=sys.stderr)
            seconds.append(run.seconds)
        return statistics.median(seconds)


def row(what: str, file: Path, seconds: float) -> None:
    size = file.stat().st_size / 2**20
    print(f"| {what} | {size:,.1f} MiB | {duration(seconds)} | {size / seconds:,.0f} MiB/s |")


if __name__ == "__main__":
    main()
