"""The record of functions that orch puts in the place of a library's own while an exporter traces.

A file that was made with their help is not what a user's own `torch.onnx.export` gives, so which of them ran, and how
often, stands in the manifest and in the facts of the step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_COUNTS: ContextVar[Counter[str] | None] = ContextVar("stand_ins", default=None)
_ALLOWED: ContextVar[bool] = ContextVar("stand_ins_allowed", default=True)


@contextmanager
def recorded(allowed: bool = True) -> Iterator[Counter[str]]:
    """Counts the stand-ins that run meanwhile, by name. Without `allowed` none does."""
    counts: Counter[str] = Counter()
    counting, permitting = _COUNTS.set(counts), _ALLOWED.set(allowed)
    try:
        yield counts
    finally:
        _COUNTS.reset(counting)
        _ALLOWED.reset(permitting)


def variants(routes: list[str], helped: bool) -> list[tuple[str, bool]]:
    """The routes in order, each with whether stand-ins are allowed. A plain export comes before one that is helped, so
    that a file is what a user's own exporter gives wherever that is right."""
    found = []
    for route in routes:
        found.append((route, False))
        if route == "legacy" and helped:
            found.append((route, True))
    return found


def are_allowed() -> bool:
    return _ALLOWED.get()


def note(name: str) -> None:
    """Counts one call that a stand-in answered."""
    counts = _COUNTS.get()
    if counts is not None:
        counts[name] += 1


def by_name(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items()))
