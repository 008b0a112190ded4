"""The record of functions that orch puts in the place of a library's own while an exporter traces.

A file that was made with their help is not what a user's own `torch.onnx.export` gives, so which of them ran, and how
often, stands in the manifest and in the facts of the step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum


class Help(StrEnum):
    """Which functions may stand in for a library's own."""

    NONE = "none"
    # Those of functions that the exporter cannot export at all, so that it would refuse the model.
    LACKING = "lacking"
    ALL = "all"


_COUNTS: ContextVar[Counter[str] | None] = ContextVar("stand_ins", default=None)
_ALLOWED: ContextVar[Help] = ContextVar("stand_ins_allowed", default=Help.ALL)


@contextmanager
def recorded(allowed: Help = Help.ALL) -> Iterator[Counter[str]]:
    """Counts the stand-ins that run meanwhile, by name. Only those that are `allowed` do."""
    counts: Counter[str] = Counter()
    counting = _COUNTS.set(counts)
    permitting = _ALLOWED.set(allowed)
    try:
        yield counts
    finally:
        _COUNTS.reset(counting)
        _ALLOWED.reset(permitting)


def variants(routes: list[str], helped: bool) -> list[tuple[str, Help]]:
    """The routes in order, each with the stand-ins that are allowed.

    The plainest export that can succeed comes first, so that a file is what a user's own exporter gives wherever that
    is right. What the exporter lacks is replaced at once: it would refuse the model after seconds of tracing. Where
    nothing depends on such a value, its nodes are dropped, and the file is the plain one.
    """
    found = []
    for route in routes:
        if route == "legacy" and helped:
            found += [(route, Help.LACKING), (route, Help.ALL)]
        else:
            found.append((route, Help.NONE))
    return found


def allowed() -> Help:
    """The stand-ins that are allowed at this moment."""
    return _ALLOWED.get()


def are_allowed() -> bool:
    """Whether every stand-in is allowed."""
    return allowed() is Help.ALL


def note(name: str) -> None:
    """Counts one call that a stand-in answered."""
    counts = _COUNTS.get()
    if counts is not None:
        counts[name] += 1


def by_name(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items()))
