"""The ways in which a graph fails: with wrong values, with an error, or by the end of its process.

A window of the graph is wrong only if it fails in the same way as the whole graph.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from orch_py.blame import judged
from orch_py.blame.search import Answer
from orch_py.worker.protocol import first_line
from orch_py.worker.trees import Tensors

Compute = Callable[[], Tensors]


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
