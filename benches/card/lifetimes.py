"""Parts about processes on a card: two at once, and what is left after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from card import judge, nvml
from card.figures import returned, used_bytes
from card.kit import Kit, Missing, Verdict, end, read_json, write_json

POLL_SECONDS = 0.2
BUSY_BYTES = 128 * 2**20
BEGIN_SECONDS = 40.0
Identity = tuple[int, str]
"""A process by its number and the time of its start, because numbers are used again."""


def exclusive(kit: Kit, folder: Path) -> Verdict:
    """Two orch processes, started at once, each with a model of its own on the same card."""
    target = kit.target("eager-cuda")
    models = kit.expected["exclusive"]["models"]
    warm = kit.orch_argv("run", kit.spec, "-t", target, "--json", "--out-dir", str(kit.work / "out-warm"))
    for model in models:
        warm += ["-m", model]
    kit.call(warm, folder, "warm")
    children = []
    for number, model in enumerate(models):
        argv = kit.orch_argv("run", kit.spec, "-m", model, "-t", target, "--json", "--rerun", "run")
        argv += [
            "--out-dir",
            str(kit.work / f"out-exclusive-{number}"),
            "--trace",
            str(folder / f"trace-{number}.json"),
        ]
        children.append(kit.start(argv, folder, f"run-{number}"))
    for number, child in enumerate(children):
        kit.wait(child, f"run-{number}")
    traces = [read_json(folder / f"trace-{number}.json") for number in range(len(models))]
    if None in traces:
        return ["a run wrote no trace"], {}
    first, second = (judge.run_intervals(trace, target) for trace in traces)
    figures = {"first": first, "second": second, "overlaps": judge.overlaps(first, second)}
    write_json(folder / "intervals.json", figures)
    return judge.exclusive(first, second, kit.expected), figures


def kill(kit: Kit, folder: Path) -> Verdict:
    """SIGKILL and SIGINT of an orch that has a run on the card."""
    differences = []
    figures = {}
    for number in (signal.SIGKILL, signal.SIGINT):
        found = _killed(kit, folder, number)
        figures[number.name] = found
        differences += judge.kill(found, kit.expected)
    write_json(folder / "kill.json", figures)
    return differences, figures


def _killed(kit: Kit, folder: Path, number: signal.Signals) -> dict[str, Any]:
    name = number.name.lower()
    target = kit.target("eager-cuda")
    model = kit.expected["kill"]["model"]
    argv = kit.orch_argv("run", kit.spec, "-m", model, "-t", target, "--json", "--rerun", "run", "-vv")
    # Several rounds, so that the run still lasts when the signal comes.
    argv += ["--out-dir", str(kit.work / f"out-{name}"), "--rounds", str(kit.expected["kill"]["rounds"])]
    start = None
    others: set[int] = set()
    if not kit.on_cpu:
        readings = nvml.read()
        if readings["error"] is not None:
            raise Missing(f"NVML: {readings['error']}")
        start = used_bytes(readings, None)
        others = card_processes(readings)
    child = kit.start(argv, folder, name)
    family: set[Identity] = set()
    try:
        _await_run(child, start, folder / f"{name}.stderr", f"run:{model}:{target}-")
        family = descendants(child.pid)
        child.send_signal(number)
        is_ended = _ends(child, kit.expected["kill"]["seconds_to_end"])
        left = _left(family, kit.expected["kill"]["seconds_to_end"])
        kept = None if start is None else returned(start, None, kit.expected["kill"]["slack_bytes"])
        return {
            "signal": number.name,
            "exit_code": child.returncode,
            "processes_before": len(family),
            "is_ended": is_ended,
            "processes_left": sorted(pid for pid, _ in left),
            "card_processes_left": [] if start is None else sorted(card_processes(nvml.read()) - others),
            "nvml_kept_bytes": kept,
        }
    finally:
        if child.poll() is None:
            end(child)
        for pid, _ in living(family):
            os.kill(pid, signal.SIGKILL)


def _await_run(child: subprocess.Popen[bytes], start: int | None, log: Path, step: str) -> None:
    """Waits until the card's memory is in use by the run; without a card, until orch prints that the step begins."""
    stop = time.monotonic() + BEGIN_SECONDS
    while time.monotonic() < stop:
        if child.poll() is not None:
            raise RuntimeError(f"orch ended with {child.returncode} before its run could be killed")
        if start is None:
            is_busy = step in log.read_text(errors="replace")
        else:
            is_busy = (used_bytes(nvml.read(), None) or 0) > start + BUSY_BYTES
        if is_busy:
            return
        time.sleep(POLL_SECONDS)
    raise RuntimeError(f"orch did not begin its run within {BEGIN_SECONDS:.0f} s")


def _ends(child: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _left(family: set[Identity], seconds: float) -> set[Identity]:
    """The processes that still live after at most `seconds`."""
    stop = time.monotonic() + seconds
    while (left := living(family)) and time.monotonic() < stop:
        time.sleep(POLL_SECONDS)
    return left


def card_processes(readings: dict[str, Any]) -> set[int]:
    """The processes that NVML lists; in a container their numbers may be those of the host."""
    return {process["pid"] for card in readings["cards"] for process in card.get("processes") or []}


def descendants(pid: int) -> set[Identity]:
    """A process and all that descend from it."""
    table = _processes()
    found = {pid}
    while more := {own for own, (parent, _) in table.items() if parent in found and own not in found}:
        found |= more
    return {(own, table[own][1]) for own in found if own in table}


def living(family: set[Identity]) -> set[Identity]:
    """The processes of a family that still live."""
    table = _processes()
    return {(pid, start) for pid, start in family if pid in table and table[pid][1] == start}


def _processes() -> dict[int, tuple[int, str]]:
    """Parent and time of start of each process, without those that ended and only wait for their parent."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] not in ("Z", "X"):
            found[int(path.parent.name)] = (int(fields[1]), fields[19])
    return found
