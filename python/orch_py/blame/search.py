"""The smallest window that is wrong, by halving and by leaving nodes out.

A window is fed with right values, so each answer speaks of its own nodes alone: what a fault upstream did to the
values does not reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

# The most windows that one search tries.
MAX_TRIES = 2000


class Answer(Enum):
    """What a window shows about its nodes."""

    RIGHT = "right"
    WRONG = "wrong"
    # The window cannot be cut, or fails in another way than the whole graph.
    UNRESOLVED = "unresolved"


@dataclass
class Search:
    """A search among the nodes of one graph. It tries no set of nodes twice."""

    answer: Callable[[Sequence[int]], Answer]
    max_tries: int = MAX_TRIES
    tries: int = 0
    # Whether a window was left untried because `max_tries` windows had been tried before it.
    is_stopped: bool = False
    _known: dict[tuple[int, ...], Answer] = field(default_factory=dict)

    @property
    def unresolved(self) -> int:
        """The number of tried windows that gave no answer."""
        return sum(answer is Answer.UNRESOLVED for answer in self._known.values())

    def is_wrong(self, nodes: Sequence[int]) -> bool:
        """Whether these nodes are wrong together; False for a window that is left untried."""
        key = tuple(nodes)
        if not key:
            return False
        if key not in self._known:
            if self.tries >= self.max_tries:
                self.is_stopped = True
                return False
            self.tries += 1
            self._known[key] = self.answer(key)
        return self._known[key] is Answer.WRONG

    def smallest(self, nodes: Sequence[int]) -> list[int] | None:
        """The least nodes of a range that are wrong together; None if the range is not wrong."""
        found = list(nodes)
        if not self.is_wrong(found):
            return None
        return self._part(self._without(self._halved(found)))

    def others(self, total: int, found: Sequence[int]) -> list[list[int]]:
        """Further wrong windows among the nodes of a graph of `total` nodes, beside one that was found."""
        places: list[list[int]] = []
        left = [at for at in range(total) if at not in set(found)]
        while (place := self.smallest(left)) is not None:
            places.append(place)
            left = [at for at in left if at not in set(place)]
        return sorted(places)

    def _halved(self, nodes: list[int]) -> list[int]:
        """Halves the range while one half is wrong by itself, then takes nodes from its ends while it stays wrong."""
        while len(nodes) > 1:
            middle = len(nodes) // 2
            halves = (nodes[:middle], nodes[middle:])
            wrong = next((half for half in halves if self.is_wrong(half)), None)
            if wrong is None:
                break
            nodes = wrong
        nodes = self._trimmed(nodes, lambda kept, size: kept[: len(kept) - size])
        return self._trimmed(nodes, lambda kept, size: kept[size:])

    def _trimmed(self, nodes: list[int], shorter: Callable[[list[int], int], list[int]]) -> list[int]:
        """Takes nodes from one end, as many as possible at a time."""
        size = len(nodes) // 2
        while size > 0:
            rest = shorter(nodes, size)
            if rest and self.is_wrong(rest):
                nodes = rest
                size = min(size, len(nodes) // 2)
            else:
                size //= 2
        return nodes

    def _without(self, nodes: list[int]) -> list[int]:
        """Leaves out what the fault does not need, wherever it stands (delta debugging)."""
        size = max(1, len(nodes) // 2)
        while True:
            at = 0
            is_shorter = False
            while at < len(nodes):
                rest = nodes[:at] + nodes[at + size :]
                if rest and self.is_wrong(rest):
                    nodes = rest
                    is_shorter = True
                else:
                    at += size
            if size == 1 and not is_shorter:
                return nodes
            size = max(1, size // 2) if not is_shorter else min(size, max(1, len(nodes) // 2))

    def _part(self, nodes: list[int]) -> list[int]:
        """Tries parts of the window on their own, where windows without an answer stopped halving and leaving out."""
        if not self.unresolved:
            return nodes
        size = len(nodes) // 2
        while size > 0:
            starts = range(0, len(nodes), size)
            parts = (nodes[at : at + size] for at in starts)
            wrong = next((part for part in parts if self.is_wrong(part)), None)
            if wrong is not None:
                return self._part(self._without(wrong))
            size //= 2
        return nodes
