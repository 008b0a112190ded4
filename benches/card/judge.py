"""Judgements of recorded documents against `expected.json`; nothing here runs a child or reads a device."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from typing import Any

Interval = tuple[str, float, float]
"""A step, and the seconds of its begin and end since the epoch."""


def matrix(report: dict[str, Any], target: str, expected: dict[str, Any]) -> list[str]:
    """The cells of a column that are not as expected."""
    column = expected["columns"][target]
    cells = {cell["model"]: cell for cell in report["cases"] if cell["target"] == target}
    differences = [f"{model} on {target}: no cell" for model in expected["models"] if model not in cells]
    for model, cell in cells.items():
        differences += [f"{model} on {target}: {words}" for words in _cell(cell, column)]
    return differences


def _cell(cell: dict[str, Any], column: dict[str, Any]) -> list[str]:
    reason = cell.get("reason") or "no reason"
    if cell["status"] == "SKIP_UNAVAILABLE" and _may_be_absent(reason, column):
        return []
    if cell["status"] != column["status"]:
        return [f"{cell['status']} instead of {column['status']}: {reason}"]
    differences = []
    if cell["precision"] != column["precision"]:
        differences.append(f"{cell['precision']} instead of {column['precision']}")
    if not re.search(column["device"], cell.get("actual_device") or ""):
        differences.append(f"it ran on {cell.get('actual_device')}")
    metrics = cell.get("metrics") or {}
    if column["has_device_memory"] and not metrics.get("peak_device_bytes"):
        differences.append("its record has no peak_device_bytes")
    return differences


def _may_be_absent(reason: str, column: dict[str, Any]) -> bool:
    return any(words in reason for words in column["unavailable"])


def absent_library(report: dict[str, Any], target: str, expected: dict[str, Any]) -> str | None:
    """The reason why a whole column is unavailable, if expectations allow it; None if any cell ran."""
    column = expected["columns"][target]
    cells = [cell for cell in report["cases"] if cell["target"] == target]
    reasons = {cell.get("reason") or "" for cell in cells if cell["status"] == "SKIP_UNAVAILABLE"}
    is_whole = bool(cells) and all(cell["status"] == "SKIP_UNAVAILABLE" for cell in cells)
    if is_whole and all(_may_be_absent(reason, column) for reason in reasons):
        return min(reasons)
    return None


def counts(report: dict[str, Any], target: str) -> dict[str, int]:
    """How many cells of a column have each status."""
    found: dict[str, int] = {}
    for cell in report["cases"]:
        if cell["target"] == target:
            found[cell["status"]] = found.get(cell["status"], 0) + 1
    return found


def tf32(figures: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """With TF32 off the error must be that of fp32; with TF32 on it is only measured."""
    bound = min(expected["tf32"]["off_at_most"], expected["tf32"]["tolerance_fp32"])
    error = figures["relative_error"]["off"]
    return [] if error <= bound else [f"with TF32 off the relative error is {error:.2e}, above {bound:.0e}"]


def memory(figures: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """What NVML reports of an allocation, against torch's allocator; and whether the card is as before at the end."""
    slack = expected["memory"]["slack_bytes"]
    grown = figures["nvml_grown_bytes"]
    differences = []
    if figures["allocated_bytes"] < figures["wanted_bytes"]:
        differences.append(f"torch's allocator counts {figures['allocated_bytes']} of {figures['wanted_bytes']} bytes")
    if not figures["wanted_bytes"] - slack <= grown <= figures["reserved_bytes"] + slack:
        differences.append(f"NVML counts {grown} bytes more, torch reserved {figures['reserved_bytes']}")
    if figures["nvml_kept_bytes"] > slack:
        differences.append(f"{figures['nvml_kept_bytes']} bytes are still used after the process ended")
    return differences


def overhead(ratio: float, expected: dict[str, Any]) -> list[str]:
    """The least round's median of orch over that of torch."""
    bound = expected["overhead"]["ratio_at_most"]
    return [] if ratio <= bound else [f"orch's median is {ratio:.3f} of torch's own, above {bound}"]


def run_intervals(trace: dict[str, Any], target: str) -> list[Interval]:
    """The intervals in which a trace has runs on a target, each once: the row of the critical path repeats some."""
    begin = _epoch(trace["otherData"]["started"])
    found = set()
    for event in trace["traceEvents"]:
        if event.get("ph") == "X" and event.get("cat") == "run" and f":{target}-" in event["name"]:
            start = begin + event["ts"] / 1e6
            found.add((event["name"], start, start + event["dur"] / 1e6))
    return sorted(found, key=lambda interval: interval[1])


def _epoch(text: str) -> float:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def overlaps(first: Iterable[Interval], second: Iterable[Interval]) -> list[tuple[str, str, float]]:
    """Pairs of two processes' intervals that overlap, with the seconds in which both ran."""
    others = list(second)
    found = []
    for name, begin, end in first:
        for other, other_begin, other_end in others:
            seconds = min(end, other_end) - max(begin, other_begin)
            if seconds > 0:
                found.append((name, other, seconds))
    return found


def exclusive(first: list[Interval], second: list[Interval], expected: dict[str, Any]) -> list[str]:
    """Two processes must not measure on one card at once."""
    bound = expected["exclusive"]["overlap_at_most_ms"] / 1000
    absent = [
        f"the {name} run has no measured interval" for name, own in (("first", first), ("second", second)) if not own
    ]
    return absent + [
        f"{name} and {other} ran at once for {seconds:.2f} s"
        for name, other, seconds in overlaps(first, second)
        if seconds > bound
    ]


def kill(figures: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """After a signal nothing of the run may live, and the card's memory must be back."""
    slack = expected["kill"]["slack_bytes"]
    signal_name = figures["signal"]
    differences = []
    if not figures["is_ended"]:
        differences.append(f"{signal_name}: orch did not end within {expected['kill']['seconds_to_end']} s")
    if figures["processes_left"]:
        differences.append(f"{signal_name}: processes {figures['processes_left']} still live")
    if figures["card_processes_left"]:
        differences.append(f"{signal_name}: NVML still lists {figures['card_processes_left']}")
    kept = figures["nvml_kept_bytes"]
    if kept is not None and kept > slack:
        differences.append(f"{signal_name}: {kept} bytes of the card are still used")
    return differences


def devices(document: dict[str, Any], readings: dict[str, Any], nodes: list[str]) -> list[str]:
    """`orch devices` must list the cards that NVML lists, and none where there is no device node."""
    cuda = next((backend for backend in document["backends"] if backend["name"] == "cuda"), None)
    if cuda is None:
        return ["orch devices does not list the backend cuda"]
    if not nodes:
        return ["orch lists a card where there is no device node"] if cuda["available"] else []
    if not cuda["available"]:
        return [f"orch lists no card: {cuda['reason']}"]
    own = sorted(device["name"] for device in cuda["devices"])
    known = sorted(card["name"] for card in readings["cards"] if card.get("error") is None)
    return [] if own == known else [f"orch lists {own}, NVML lists {known}"]


def doctor(document: dict[str, Any], nodes: list[str]) -> list[str]:
    """`orch doctor` must find the backend cuda exactly where there is a device node, with a reason otherwise."""
    finding = next((each for each in document["findings"] if each["subject"] == "cuda"), None)
    if finding is None:
        return ["orch doctor has no finding on cuda"]
    if finding["ok"] != bool(nodes):
        return [f"orch doctor on cuda: {finding['what']}"]
    return [] if finding["what"] else ["orch doctor gives no reason on cuda"]


def column_versions(report: dict[str, Any], target: str, names: Iterable[str]) -> dict[str, str]:
    """The versions of some packages by the records of a column's steps."""
    cells = [cell for cell in report["cases"] if cell["target"] == target]
    steps = [step for cell in cells for step in cell.get("facts", {}).values() if isinstance(step, dict)]
    wanted = set(names)
    found: dict[str, str] = {}
    for step in steps:
        versions = step.get("versions")
        if isinstance(versions, dict):
            found.update({name: version for name, version in versions.items() if name in wanted})
    return found


def package_differences(versions: Mapping[str, str | None], locked: dict[str, str]) -> list[str]:
    """Packages whose version is not the locked one."""
    found = []
    for name, version in versions.items():
        lock = locked.get(name)
        if lock is not None and (version or "").partition("+")[0] != lock:
            found.append(f"{name} {version or 'absent'} (lock: {lock})")
    return found
