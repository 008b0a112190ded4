"""The words of the job protocol: one job's order and its outcome.

Knows nothing of processes, pipes or models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

STATUSES = ("ok", "unsupported", "unavailable", "error", "numerics", "indecisive", "oom")

# The longest reason that is worth a line in a report; the log holds the rest.
MAX_REASON = 600


class Refused(Exception):
    """The job ends with `status` and `reason`; not a bug, so its traceback is of no use to the reader."""

    def __init__(self, status: str, reason: str, facts: dict[str, Any] | None = None) -> None:
        assert status in STATUSES and status != "ok", f"BUG: `{status}` is not a refusal"
        super().__init__(reason)
        self.status = status
        self.facts = facts or {}


@dataclass(frozen=True)
class Job:
    """One order, as an op sees it."""

    params: dict[str, Any]
    inputs: dict[str, Path]
    out: Path
    progress: Callable[[str], None]
    # Whether a download begins (or else ends).
    download: Callable[[bool], None] = lambda _: None

    @contextmanager
    def downloading(self) -> Iterator[None]:
        """While it is entered, the job's limit of time stands still, and that of downloads counts."""
        self.download(True)
        try:
            yield
        finally:
            self.download(False)

    def param(self, name: str, default: Any = None) -> Any:
        """The parameter `name`; `default` also stands in for an explicit null, which is how orch says "not given"."""
        value = self.params.get(name)
        return default if value is None else value

    def required(self, name: str) -> Any:
        value = self.params.get(name)
        if value is None:
            raise Refused("error", f"parameter `{name}` is missing; given: {listed(self.params)}")
        return value

    def tree(self, name: str) -> Path:
        path = self.inputs.get(name)
        if path is None:
            raise Refused("error", f"input tree `{name}` is missing; given: {listed(self.inputs)}")
        return path


@dataclass
class Output:
    """What a job says when it is done."""

    status: str = "ok"
    reason: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    measure: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        return {"status": self.status, "reason": self.reason, "facts": self.facts, "measure": self.measure}


Op = Callable[[Job], Output]


def listed(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def first_line(error: BaseException) -> str:
    """`ValueError: the first line of its message`, short enough for a table."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text if len(text) <= MAX_REASON else text[: MAX_REASON - 1] + "…"


# What allocators other than Python's say when memory is gone. They raise plain RuntimeErrors.
_OUT_OF_MEMORY = (
    "can't allocate memory",
    "Cannot allocate memory",
    "not enough memory",
    "std::bad_alloc",
    "bad allocation",
    "out of memory",
    "Failed to allocate memory",
    "STATUS_ALLOC_FAILED",
)


def outcome_of(error: BaseException) -> Output:
    """The outcome that an exception stands for."""
    if isinstance(error, Refused):
        return Output(error.status, str(error) or error.status, error.facts)
    return Output("oom" if is_out_of_memory(error) else "error", first_line(error))


def is_out_of_memory(error: BaseException | None) -> bool:
    """Of an error or one that it was raised from: exporters wrap whatever happens in errors of their own."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        if isinstance(error, MemoryError) or any(text in str(error) for text in _OUT_OF_MEMORY):
            return True
        seen.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False
