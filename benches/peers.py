#!/usr/bin/env python3
"""orch beside ninja, n2, DVC and Snakemake on the same graph: a Markdown table on stdout, progress on stderr.

    cargo build --release
    python3 benches/peers.py --steps 1000 10000
    python3 benches/peers.py --tools ~/.cache/orch-peers --install    # DVC and Snakemake from PyPI

What is built, and how each tool is told: benches/README.md. Everything happens in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from harness import table
from harness.graph import Graph
from harness.measure import FAILED, Options, Row, measure
from harness.ninja import N2, Ninja
from harness.orch import Orch
from harness.python_tools import Dvc, Snakemake
from harness.tool import Tool

NAMES = ["orch", "ninja", "n2", "snakemake", "dvc"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--orch", type=Path, default=Path("target/release/orch"))
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, help="these tools (default: all)")
    parser.add_argument("--steps", type=int, nargs="+", default=[1000], help="sizes of the graph (default: 1000)")
    parser.add_argument(
        "--max-steps",
        nargs="+",
        default=[],
        metavar="TOOL=N",
        help="do not run TOOL above N steps (default: snakemake=1000 dvc=1000)",
    )
    parser.add_argument(
        "--leaf",
        choices=Graph.LEAVES,
        default="words",
        help="what a leaf does: words of the shell's own, or `cp` (default: words)",
    )
    parser.add_argument("--runs", type=int, default=5, help="runs of each scenario but `run all` (default: 5)")
    parser.add_argument("--cold-runs", type=int, default=1, help="runs of `run all` (default: 1)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="default: the number of cores")
    parser.add_argument("--limit", type=float, default=600, help="seconds after which a run is ended (default: 600)")
    parser.add_argument("--dir", type=Path, help="make the temporary folder in this one, e.g. on another disk")
    parser.add_argument(
        "--tools",
        type=Path,
        default=Path("target/peers"),
        help="where `--install` puts DVC and Snakemake (default: target/peers)",
    )
    parser.add_argument("--install", action="store_true", help="install what is missing of DVC and Snakemake from PyPI")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every single run to FILE")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    for number in (signal.SIGINT, signal.SIGTERM):
        # Unwinds, so that what runs is ended and the temporary folder is removed.
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    about = table.machine()
    options = Options(args.jobs, args.runs, args.cold_runs, args.limit)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir=args.dir, ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        tools = find(args, folder)
        limits = {tool.name: tool.max_steps for tool in tools} | {
            name: int(steps) for name, _, steps in (words.partition("=") for words in args.max_steps)
        }
        for steps in args.steps:
            rows += compare(tools, Graph(folder / str(steps), steps, args.leaf), limits, options)
    print("\n".join(table.markdown(rows)), table.legend(rows, about, options), sep="\n\n")
    if args.json:
        args.json.write_text(json.dumps(table.document(rows, about), indent=1) + "\n")
    sys.exit(any(cell.why == FAILED for row in rows for cell in row.cells.values()))


def find(args: argparse.Namespace, folder: Path) -> list[Tool]:
    tools_at = args.tools.resolve()
    make: dict[str, Callable[[], Tool]] = {
        "orch": lambda: Orch(args.orch, folder),
        "ninja": Ninja,
        "n2": N2,
        "snakemake": lambda: Snakemake(tools_at, args.install),
        "dvc": lambda: Dvc(tools_at, args.install),
    }
    return [make[name]() for name in NAMES if name in args.only]


def compare(tools: list[Tool], graph: Graph, limits: dict[str, int | None], options: Options) -> list[Row]:
    """All tools on one size, one after the other in the same folder."""
    steps = graph.steps
    graph.folder.mkdir()
    print(f"writing {graph.leaves:,} sources", file=sys.stderr)
    graph.write_sources()
    rows = []
    for tool in tools:
        most = limits[tool.name]
        if why := tool.missing():
            rows.append(Row(steps, tool.name, why=f"not here: {why}"))
        elif most is not None and steps > most:
            rows.append(Row(steps, tool.name, why=f"not run above {most:,} steps (`--max-steps {tool.name}=…`)"))
        else:
            rows.append(measure(tool, graph, options))
        graph.clear()
    return rows


if __name__ == "__main__":
    main()
