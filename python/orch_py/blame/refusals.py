"""Which nodes a runtime refuses, or which end its process: the smallest window that fails as the whole graph does.

The values that feed a window come from ONNX Runtime without optimisers. Where ONNX Runtime itself is accused, it runs
in a process of its own, and ONNX's reference implementation computes a graph that it refuses without optimisers too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx

from orch_py.blame import finding as findings
from orch_py.blame import shown
from orch_py.blame.accused import Accused, SeparateOnnxRuntime
from orch_py.blame.faults import Failure
from orch_py.blame.reduce import Reduction
from orch_py.blame.search import Search
from orch_py.blame.windows import Graph, Oracle, by_reference, plain
from orch_py.worker.protocol import MAX_REASON, Refused, first_line
from orch_py.worker.trees import Tensors


def of_graph(
    model: onnx.ModelProto, inputs: Tensors, accused: Accused, max_tries: int, progress: Callable[[str], None]
) -> dict[str, Any] | None:
    """The finding on a graph that the runtime does not run on these inputs; None if it runs."""
    try:
        accused.run(model, inputs)
    except Exception as error:  # noqa: BLE001 - runtimes raise errors of many types.
        fault = Failure.of(error)
        message = str(error).strip()[:MAX_REASON]
    else:
        return None
    progress(f"computing every value of {len(model.graph.node)} nodes without optimisers")
    graph = _computed(model, inputs, accused)
    search = Search(lambda nodes: accused.answer(graph.window(nodes), fault), max_tries)
    first = search.smallest(range(len(graph.nodes)))
    found: dict[str, Any] = {"verdict": fault.kind, "error": {"class": fault.error_class, "message": message}}
    if first is None:
        return found | {"places": []} | findings.extent(search, len(graph.nodes), False)
    progress(f"found {len(first)} nodes after {search.tries} windows; looking beside them")
    is_smallest = not search.is_stopped
    places = sorted([first, *search.others(len(graph.nodes), first)])
    windows = [window for place in places if (window := graph.window(place)) is not None]
    window = min(windows, key=lambda window: len(window.nodes))
    guilty = accused.guilty(window, fault)
    nodes = [findings.node(graph, at) for at in window.nodes]
    by = f"{fault.kind}: {fault.error_class}"
    return found | {
        "nodes": nodes,
        "places": [findings.operators(graph, each) for each in windows],
        "pass": None if guilty is None else {"stage": guilty.stage, "name": guilty.name},
        "signature": findings.signature(f"{accused.name} {accused.version}", by, nodes, window),
        "reduction": Reduction(window, graph.oracle, shown.fails_alike(accused, window, fault, guilty)),
        **findings.extent(search, len(window.nodes), is_smallest),
    }


def _computed(model: onnx.ModelProto, inputs: Tensors, accused: Accused) -> Graph:
    """The graph with the values of the first oracle that computes it."""
    first: Oracle = accused.oracle if isinstance(accused, SeparateOnnxRuntime) else plain
    why = ""
    for oracle in (first, by_reference):
        try:
            return Graph(model, inputs, oracle)
        except Exception as error:  # noqa: BLE001 - both raise errors of many types.
            why = first_line(error)
    raise Refused("unsupported", f"neither ONNX Runtime without optimisers nor ONNX's reference runs the graph: {why}")
