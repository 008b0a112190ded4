"""The parts of a finding that all searches have in common."""

from __future__ import annotations

from typing import Any

from orch_py.blame.search import Search
from orch_py.blame.windows import Graph, Window

# The file of a finding.
FILE = "finding.json"


def node(graph: Graph, at: int) -> dict[str, Any]:
    found = graph.nodes[at]
    return {"place": at, "operator": found.op_type, "name": found.name, "outputs": list(found.output)}


def operators(graph: Graph, window: Window) -> list[str]:
    return [graph.nodes[at].op_type for at in window.nodes]


def extent(search: Search, left: int, is_smallest: bool) -> dict[str, Any]:
    """How far a search went. `left` is the number of nodes of its window, and `is_smallest` whether the search for that
    window came to its end."""
    found: dict[str, Any] = {"tries": search.tries}
    if search.unresolved:
        found["unresolved"] = search.unresolved
    if search.is_stopped:
        missing = "" if not is_smallest else "; other wrong windows may be missing"
        found["stopped"] = f"stopped after {search.tries} windows; {left} nodes left{missing}"
    return found


def of_choice(runtime: str, choices: list[dict[str, Any]]) -> str:
    """What cases have in common in which the same operators chose otherwise."""
    return f"{runtime} | choice | {'>'.join(choice['operator'] for choice in choices)}"


def signature(runtime: str, by: str, nodes: list[dict[str, Any]], window: Window) -> str:
    """What cases with the same cause have in common. `by` names the pass, the stage or the error."""
    names = ">".join(each["operator"] for each in nodes)
    types = sorted({str(value.dtype) for value in window.feeds.values()})
    return f"{runtime} | {by} | {names} | {', '.join(types)}"
