"""The ways in which a graph fails: with wrong values, with an error, or by the end of its process.

A window of the graph is wrong only if it fails in the same way as the whole graph.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from orch_py.blame import judged
from orch_py.blame.search import Answer
from orch_py.worker.protocol import first_line
from orch_py.worker.trees import Tensors

Compute = Callable[[], Tensors]


class Died(RuntimeError):
    """The process of a runtime ended before it answered. `how` is a signal's name or an exit status."""

    def __init__(self, runtime: str, how: str) -> None:
        super().__init__(f"{runtime}'s process ended with {how}")
        self.how = how


class Fault(ABC):
    """A way in which a whole graph fails."""

    @abstractmethod
    def answer(self, compute: Compute, expected: Tensors) -> Answer:
        """Whether a computation fails in this way. `compute` is the computation, and `expected` its right outputs."""


class WrongValues(Fault):
    """Outputs beyond the bounds of a window. An error is no proof of wrong values."""

    def answer(self, compute: Compute, expected: Tensors) -> Answer:
        try:
            ours = compute()
        except Exception as error:  # noqa: BLE001 - runtimes raise errors of many types.
            print(f"a window does not run: {first_line(error)}", flush=True)
            return Answer.UNRESOLVED
        return Answer.RIGHT if judged.difference(ours, expected) is None else Answer.WRONG


@dataclass(frozen=True)
class Failure(Fault):
    """An error of the runtime, or the end of its process. Another error than this one gives no answer."""

    # `refused` or `crashed`.
    kind: str
    # The error without what differs from window to window; of a crash, how the process ended.
    error_class: str

    @classmethod
    def of(cls, error: Exception) -> Failure:
        if isinstance(error, Died):
            return cls("crashed", error.how)
        return cls("refused", error_class(str(error)))

    def answer(self, compute: Compute, expected: Tensors) -> Answer:
        try:
            compute()
        except Exception as error:  # noqa: BLE001 - runtimes raise errors of many types.
            return Answer.WRONG if Failure.of(error) == self else Answer.UNRESOLVED
        return Answer.RIGHT


def telling_line(text: str) -> str:
    """The first line of an error that does not end with a colon. OpenVINO begins with lines that do: the places in its
    source through which the error passed."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if not line.endswith(":")]
    return (telling or lines or [""])[0]


def error_class(text: str) -> str:
    """The telling line of an error, without its paths, quoted names, addresses and numbers."""
    line = telling_line(text)
    line = re.sub(r"0x[0-9a-fA-F]+", "#", line)
    line = re.sub(r"'[^']*'|`[^`]*`|\"[^\"]*\"", "'…'", line)
    line = re.sub(r"[\w.+:-]*(/[\w.+-]+)+(:\d+)?", "…", line)
    line = re.sub(r"\b\w+_\d+\b", "…", line)
    line = re.sub(r"-?\b\d+(\.\d+)?\b", "#", line)
    return re.sub(r"#(\s*[,x.]\s*#)+", "#", line)
