"""The smallest window that is wrong, by halving and by leaving nodes out.

A window is fed with right values, so each answer speaks of its own nodes alone: what a fault upstream did to the
values does not reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

# A window is tried no more often than this in one search.
MAX_TRIES = 2000

IsWrong = Callable[[Sequence[int]], bool]


@dataclass
class Search:
    """A search among the nodes of one graph. It asks about no set of nodes twice."""

    is_wrong: IsWrong
    tries: int = 0
    _known: dict[tuple[int, ...], bool] = field(default_factory=dict)

    def asks(self, nodes: Sequence[int]) -> bool:
        key = tuple(nodes)
        if not key or self.tries >= MAX_TRIES:
            return False
        if key not in self._known:
            self.tries += 1
            self._known[key] = self.is_wrong(key)
        return self._known[key]

    def smallest(self, nodes: Sequence[int]) -> list[int] | None:
        """The least nodes of a range that are wrong together; None if the range is right."""
        found = list(nodes)
        if not self.asks(found):
            return None
        return self._without(self._halved(found))

    def _halved(self, nodes: list[int]) -> list[int]:
        """Halves the range while one half is wrong by itself, then takes nodes from its ends while it stays wrong."""
        while len(nodes) > 1:
            middle = len(nodes) // 2
            halves = (nodes[:middle], nodes[middle:])
            wrong = next((half for half in halves if self.asks(half)), None)
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
            if rest and self.asks(rest):
                nodes = rest
                size = min(size, len(nodes) // 2)
            else:
                size //= 2
        return nodes

    def _without(self, nodes: list[int]) -> list[int]:
        """Leaves out what the fault does not need, wherever it stands (delta debugging)."""
        size = max(1, len(nodes) // 2)
        while True:
            at, is_shorter = 0, False
            while at < len(nodes):
                rest = nodes[:at] + nodes[at + size :]
                if rest and self.asks(rest):
                    nodes, is_shorter = rest, True
                else:
                    at += size
            if size == 1 and not is_shorter:
                return nodes
            size = max(1, size // 2) if not is_shorter else min(size, max(1, len(nodes) // 2))

    def others(self, total: int, found: Sequence[int]) -> list[list[int]]:
        """Further wrong windows, before and behind one that was found."""
        places = []
        ranges = [list(range(found[0])), list(range(found[-1] + 1, total))]
        while ranges:
            nodes = ranges.pop()
            other = self.smallest(nodes)
            if other is None:
                continue
            places.append(other)
            ranges += [
                [at for at in nodes if at < other[0]],
                [at for at in nodes if at > other[-1]],
            ]
        return sorted(places)
