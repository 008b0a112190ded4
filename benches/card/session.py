"""Runs the parts within a budget, and writes the summary of the folder."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from card.kit import Kit, Missing, Part, write_json

SCHEMA_VERSION = 1
LARGEST_BYTES = 64 * 2**20
SUMMARIES = ("summary.json", "summary.md")
OK = "ok"
FAILED = "failed"
MISSING = "missing"
LEFT_OUT = "left out"
Entry = dict[str, Any]


def run_parts(parts: Sequence[Part], kit: Kit, out: Path, budget: float) -> list[Entry]:
    """Runs parts one after the other; each gets its own limit or the rest of the budget, whichever is less."""
    stop = time.monotonic() + budget
    entries = []
    for part in parts:
        begin = time.monotonic()
        try:
            entry = _run_part(part, kit, out, stop)
        except KeyboardInterrupt:
            entry = _entry(part, FAILED, begin, "interrupted", ["interrupted"])
            stop = begin
        entries.append(entry)
        print(
            f"{entry['status']:9} {part.name:18} {entry['seconds']:7.2f} s  {entry['reason'] or ''}".rstrip(),
            flush=True,
        )
    return entries


def _run_part(part: Part, kit: Kit, out: Path, stop: float) -> Entry:
    begin = time.monotonic()
    missing = part.missing(kit)
    if missing is not None:
        return _entry(part, MISSING, begin, f"missing: {missing}")
    left = stop - time.monotonic()
    if left < part.least:
        return _entry(
            part, LEFT_OUT, begin, f"left out: no time ({max(left, 0):.0f} s left, {part.least:.0f} s needed)"
        )
    folder = out / part.name
    folder.mkdir(parents=True, exist_ok=True)
    kit.ends = time.monotonic() + min(part.limit, left)
    kit.ended.clear()
    try:
        differences, figures = part.run(kit, folder)
    except Missing as absent:
        return _entry(part, MISSING, begin, f"missing: {absent}")
    except Exception as error:  # noqa: BLE001 - a part that breaks must not end the others
        (folder / "error.txt").write_text(traceback.format_exc())
        differences = [f"{type(error).__name__}: {error}"]
        figures = {}
    finally:
        kit.end_children()
    if kit.ended:
        differences = [*differences, f"ended at the time limit: {', '.join(kit.ended)}"]
    status = FAILED if differences else OK
    return _entry(part, status, begin, "; ".join(differences) or None, differences, figures)


def _entry(
    part: Part,
    status: str,
    begin: float,
    reason: str | None,
    differences: list[str] | None = None,
    figures: dict[str, Any] | None = None,
) -> Entry:
    return {
        "part": part.name,
        "shows": part.shows,
        "is_of_the_card": part.is_of_the_card,
        "status": status,
        "seconds": round(time.monotonic() - begin, 3),
        "reason": reason,
        "differences": differences or [],
        "figures": figures or {},
    }


def exit_code(entries: Sequence[Entry]) -> int:
    """1 if a part differs, 3 if no part of the card ran, else 0."""
    if any(entry["status"] == FAILED for entry in entries):
        return 1
    is_run = any(entry["status"] == OK and entry["is_of_the_card"] for entry in entries)
    return 0 if is_run else 3


def write_summary(entries: Sequence[Entry], kit: Kit, out: Path, seconds: float) -> None:
    """Writes `summary.json` and `summary.md`, after the folder was brought to its largest size."""
    removed = trim(out, LARGEST_BYTES)
    summary = {
        "version": SCHEMA_VERSION,
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "is_on_cpu": kit.on_cpu,
        "seconds": round(seconds, 1),
        "exit_code": exit_code(entries),
        "removed_files": removed,
        "parts": list(entries),
    }
    write_json(out / "summary.json", summary)
    (out / "summary.md").write_text(_page(entries, kit, seconds, removed))


def _page(entries: Sequence[Entry], kit: Kit, seconds: float, removed: list[str]) -> str:
    title = "# Parts tried on the CPU: no evidence from a card" if kit.on_cpu else "# Evidence from a card"
    lines = [title, "", f"{seconds:.0f} s, exit code {exit_code(entries)}", ""]
    lines += ["| part | status | seconds | must show | reason |", "|---|---|--:|---|---|"]
    for entry in entries:
        reason = (entry["reason"] or "").replace("|", "\\|").replace("\n", " ")
        lines.append(f"| {entry['part']} | {entry['status']} | {entry['seconds']:.1f} | {entry['shows']} | {reason} |")
    for entry in entries:
        named = entry["figures"].get("differ_from_locks")
        if named:
            lines += ["", f"{entry['part']}: packages differ from the locks: {', '.join(named)}."]
    if removed:
        lines += ["", f"Removed, because the folder was too large: {', '.join(removed)}."]
    return "\n".join(lines) + "\n"


def trim(out: Path, largest: int) -> list[str]:
    """Removes the largest files until the folder fits; gives their names."""
    sizes = {path: path.stat().st_size for path in out.rglob("*") if path.is_file() and path.name not in SUMMARIES}
    removed = []
    for path in sorted(sizes, key=lambda path: -sizes[path]):
        if sum(sizes.values()) <= largest:
            break
        path.unlink()
        del sizes[path]
        removed.append(path.relative_to(out).as_posix())
    return removed
