"""One tool on one graph: every scenario, each run checked to have done what it should."""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.clock import Failed, Run, TooLong, timed
from harness.graph import Graph
from harness.tool import Tool, environment

FAILED = "failed"


@dataclass(frozen=True)
class Scenario:
    name: str
    before: Callable[[Tool, Graph], None]
    """Makes it so, before the clock starts."""
    executes: Callable[[Graph], int]
    """How many steps must be executed."""


def _afresh(tool: Tool, graph: Graph) -> None:
    graph.clear()
    tool.seen = None
    tool.write(graph)


ALL = Scenario("run all", _afresh, lambda graph: graph.steps)
SCENARIOS = [
    ALL,
    Scenario("null run", lambda _tool, _graph: None, lambda _: 0),
    Scenario("one leaf changed", lambda _tool, graph: graph.change_leaf(), lambda _: 3),
    Scenario("comment added", lambda tool, graph: tool.comment(graph), lambda _: 0),
]


@dataclass
class Cell:
    """The runs of one scenario, or why there are none."""

    runs: list[Run] = field(default_factory=list)
    why: str = ""

    def seconds(self) -> float:
        return statistics.median(run.seconds for run in self.runs)

    def peak(self) -> tuple[int, bool]:
        """The highest peak memory, and whether it is no more than what any process is charged."""
        top = max(self.runs, key=lambda run: run.peak_bytes)
        return top.peak_bytes, top.peak_bytes < top.floor_bytes * 1.1


@dataclass
class Row:
    steps: int
    tool: str
    version: str = ""
    why: str = ""
    """Why nothing was measured."""
    cells: dict[str, Cell] = field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    jobs: int
    runs: int
    cold_runs: int
    limit: float


def measure(tool: Tool, graph: Graph, options: Options) -> Row:
    row = Row(graph.steps, tool.name, tool.version())
    for scenario in SCENARIOS:
        cell = row.cells[scenario.name] = Cell()
        if row.cells[ALL.name].why:
            cell.why = "not run"
            continue
        where = f"{tool.name}, {graph.steps:,} steps, {scenario.name}"
        for number in range(options.cold_runs if scenario is ALL else options.runs):
            try:
                cell.runs.append(_once(tool, graph, scenario, options))
            except TooLong:
                cell.why = f"over {options.limit:g} s"
                break
            except Failed as e:
                cell.why = FAILED
                print(f"{where}: {e}", file=sys.stderr)
                break
            seconds = cell.runs[-1].seconds
            print(f"{where}, run {number + 1}: {seconds:.3f} s", file=sys.stderr)
    return row


def _once(tool: Tool, graph: Graph, scenario: Scenario, options: Options) -> Run:
    scenario.before(tool, graph)
    # What the preparation wrote is not to be paid for by the run.
    os.sync()
    log = graph.folder.parent / "log"
    argv = tool.argv(options.jobs)
    run = timed(argv, cwd=graph.folder, env=environment(graph.folder), log=log, limit=options.limit)
    tool.verify(graph, scenario.executes(graph), log)
    return run
