"""Rows of measurements as Markdown and as JSON."""

from __future__ import annotations

import dataclasses
import os
import platform
import statistics
import time
from collections.abc import Iterator
from typing import Any

from harness.measure import ALL, SCENARIOS, Cell, Options, Row

BASE = "orch"
MEMORY_OF = ["run all", "null run"]


def markdown(rows: list[Row]) -> Iterator[str]:
    heads = ["steps", "tool", *(scenario.name for scenario in SCENARIOS), *(f"memory, {name}" for name in MEMORY_OF)]
    yield f"| {' | '.join(heads)} |"
    yield f"|{'|'.join(['--:', '---'] + ['--:'] * (len(heads) - 2))}|"
    base = {row.steps: row for row in rows if row.tool == BASE}
    for row in rows:
        yield f"| {' | '.join(_cells(row, base.get(row.steps)))} |"


def _cells(row: Row, base: Row | None) -> Iterator[str]:
    yield f"{row.steps:,}"
    yield f"{row.tool} {row.version}".strip()
    if row.why:
        yield row.why
        yield from [""] * (len(SCENARIOS) + len(MEMORY_OF) - 1)
        return
    for scenario in SCENARIOS:
        cell = row.cells[scenario.name]
        other = base.cells.get(scenario.name) if base and base is not row else None
        yield cell.why or duration(cell.seconds()) + ratio(cell, other)
    for name in MEMORY_OF:
        yield _memory(row.cells[name])


def ratio(cell: Cell, base: Cell | None) -> str:
    if base is None or base.why:
        return ""
    times = cell.seconds() / base.seconds()
    return f" ({times:,.0f}x)" if times >= 10 else f" ({times:.2g}x)"


def duration(seconds: float) -> str:
    value, unit = (seconds, "s") if seconds >= 1 else (seconds * 1e3, "ms")
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def _memory(cell: Cell) -> str:
    if cell.why:
        return ""
    peak, drowned = cell.peak()
    return f"{'< ' if drowned else ''}{peak / 2**20:,.0f} MiB"


def machine() -> dict[str, Any]:
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "load_at_start": os.getloadavg()[0],
    }


def _cpu() -> str:
    with open("/proc/cpuinfo") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())


def where(about: dict[str, Any]) -> str:
    return (
        f"{about['date']}, {about['cpu']}, {about['cores']} cores, {about['memory_bytes'] / 2**30:.0f} GiB, "
        f"Linux {about['kernel']}, load {about['load_at_start']:.1f} before the start."
    )


def legend(rows: list[Row], about: dict[str, Any], options: Options) -> str:
    floors = [run.floor_seconds for row in rows for cell in row.cells.values() for run in cell.runs]
    start = f" Starting a process, {duration(statistics.median(floors))}, is in each figure." if floors else ""
    return (
        f"{where(about)} {options.jobs} jobs. Medians of {options.runs} ({ALL.name}: {options.cold_runs}), files in "
        f"the page cache. (nx): n times {BASE}'s figure of that size.{start} "
        "Memory: the highest peak of one process; `<` where it drowns in what any process is charged."
    )


def document(rows: list[Row], about: dict[str, Any]) -> dict[str, Any]:
    return {"machine": about, "rows": [dataclasses.asdict(row) for row in rows]}
