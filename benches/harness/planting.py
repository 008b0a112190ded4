"""A runtime with planted faults: one operator of one node, or of a fused chain of nodes, computes wrongly.

The stand-in runs a window by ONNX Runtime with all optimisers, whose rounding is its own, after it has changed the
nodes that are at fault. A fused fault shows only in a window that has all nodes of its chain and gives none of the
values between them, as a faulty fusion of a real runtime does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from orch_py.blame.accused import Accused
from orch_py.blame.faults import Fault
from orch_py.blame.passes import Pass
from orch_py.blame.windows import Graph, Window, open_session, run
from orch_py.export import onnx_messages
from orch_py.worker.trees import Tensors

# The longest chain of nodes of a fused fault.
LONGEST_CHAIN = 3
# Operators whose operands have an order.
ORDERED = ("Concat", "Div", "MatMul", "Pow", "Sub", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
LAST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Planted:
    """One fault: the places of its nodes in the graph, and how the last of them computes."""

    places: tuple[int, ...]
    kind: str
    # The first output of each node.
    outputs: tuple[str, ...]


@dataclass
class Wrong:
    """The nodes and constants that stand for a node that computes wrongly."""

    nodes: list[onnx.NodeProto]
    constants: list[onnx.TensorProto]


class StandIn(Accused):
    """ONNX Runtime with all optimisers, with planted faults."""

    name = "stand-in"
    version = "1"

    def __init__(self, faults: list[Planted]) -> None:
        self._faults = faults

    def run(self, model: onnx.ModelProto, feeds: Tensors, times: int = 1) -> list[Tensors]:
        spoilt = model
        for fault in self._faults:
            spoilt = with_fault(spoilt, fault)
        session = open_session(spoilt)
        return [run(session, feeds) for _ in range(times)]

    def guilty(self, window: Window, fault: Fault) -> Pass | None:
        return None

    def close(self) -> None:
        # It runs in this process.
        pass


def with_fault(model: onnx.ModelProto, fault: Planted) -> onnx.ModelProto:
    """The model with a fault, or as it is where the fault does not show."""
    by_output = {node.output[0]: node for node in model.graph.node if node.output}
    given = {value.name for value in model.graph.output}
    between = fault.outputs[:-1]
    if any(name not in by_output for name in fault.outputs) or any(name in given for name in between):
        return model
    last = by_output[fault.outputs[-1]]
    wrong = KINDS[fault.kind](last)
    if wrong is None:
        return model
    spoilt = onnx.ModelProto()
    spoilt.CopyFrom(model)
    at = next(at for at, node in enumerate(model.graph.node) if node is last)
    nodes = list(model.graph.node)
    onnx_messages.refill(spoilt.graph.node, [*nodes[:at], *wrong.nodes, *nodes[at + 1 :]])
    spoilt.graph.initializer.extend(wrong.constants)
    return spoilt


def swapped(node: onnx.NodeProto) -> Wrong | None:
    """The first two operands in the wrong order."""
    if node.op_type not in ORDERED or len(node.input) < 2 or node.input[0] == node.input[1]:
        return None
    changed = _copy(node)
    changed.input[0] = node.input[1]
    changed.input[1] = node.input[0]
    return Wrong([changed], [])


def wrong_axis(node: onnx.NodeProto) -> Wrong | None:
    """The axis before the right one, or the last two axes of a permutation in the wrong order."""
    changed = _copy(node)
    for attribute in changed.attribute:
        if attribute.name == "axis":
            attribute.i = attribute.i - 1
            return Wrong([changed], [])
        if attribute.name == "axes" and len(attribute.ints) == 1:
            attribute.ints[0] = attribute.ints[0] - 1
            return Wrong([changed], [])
        if attribute.name == "perm" and len(attribute.ints) > 1:
            right = list(attribute.ints)
            attribute.ints[:] = [*right[:-2], right[-1], right[-2]]
            return Wrong([changed], [])
    return None


def shifted(node: onnx.NodeProto) -> Wrong:
    """Each value at the place after its own along the last axis."""
    return _after(
        node,
        lambda right, wrong: [
            helper.make_node("Slice", [right, f"{wrong}:last", f"{wrong}:end", f"{wrong}:axis"], [f"{wrong}:tail"]),
            helper.make_node("Slice", [right, f"{wrong}:zero", f"{wrong}:last", f"{wrong}:axis"], [f"{wrong}:head"]),
            helper.make_node("Concat", [f"{wrong}:tail", f"{wrong}:head"], [wrong], axis=-1),
        ],
        {"last": -1, "end": LAST, "zero": 0, "axis": -1},
    )


def halved(node: onnx.NodeProto) -> Wrong:
    """The result rounded to half precision."""
    return _after(
        node,
        lambda right, wrong: [
            helper.make_node("Cast", [right], [f"{wrong}:half"], to=TensorProto.FLOAT16),
            helper.make_node("Cast", [f"{wrong}:half"], [wrong], to=TensorProto.FLOAT),
        ],
        {},
    )


def negated(node: onnx.NodeProto) -> Wrong:
    """The result with the other sign."""
    return _after(node, lambda right, wrong: [helper.make_node("Neg", [right], [wrong])], {})


def broadcast(node: onnx.NodeProto) -> Wrong:
    """The first value along the last axis at all places of that axis."""
    return _after(
        node,
        lambda right, wrong: [
            helper.make_node("Slice", [right, f"{wrong}:zero", f"{wrong}:one", f"{wrong}:axis"], [f"{wrong}:first"]),
            helper.make_node("Shape", [right], [f"{wrong}:shape"]),
            helper.make_node("Expand", [f"{wrong}:first", f"{wrong}:shape"], [wrong]),
        ],
        {"zero": 0, "one": 1, "axis": -1},
    )


# What makes the nodes that stand for a node at fault; None where the kind does not fit the node.
KINDS: dict[str, Callable[[onnx.NodeProto], Wrong | None]] = {
    "swapped operands": swapped,
    "wrong axis": wrong_axis,
    "off by one": shifted,
    "rounded to fp16": halved,
    "sign": negated,
    "broadcasting": broadcast,
}
# Kinds that change a result of 32-bit floats with at least two values along its last axis.
OF_RESULTS = ("off by one", "rounded to fp16", "sign", "broadcasting")


def candidates(graph: Graph, length: int) -> Iterator[Planted]:
    """The faults that may be planted in a graph, in chains of `length` nodes."""
    readers = _readers(graph)
    for at, node in enumerate(graph.nodes):
        chain = _chain(graph, readers, at, length)
        if chain is None or not node.output:
            continue
        last = graph.nodes[chain[-1]]
        outputs = tuple(graph.nodes[each].output[0] for each in chain)
        for kind, make in KINDS.items():
            if make(last) is None or (kind in OF_RESULTS and not _is_rewarding(graph, outputs[-1])):
                continue
            yield Planted(tuple(chain), kind, outputs)


def _readers(graph: Graph) -> dict[str, list[int]]:
    """The places of the nodes that read each value; a graph's output has a reader at -1."""
    readers: dict[str, list[int]] = {name: [-1] for name in graph.outputs}
    for at, node in enumerate(graph.nodes):
        below = [name for each in onnx_messages.subgraphs(node) for name in onnx_messages.outer_names(each)]
        for name in {*node.input, *below}:
            readers.setdefault(name, []).append(at)
    return readers


def _chain(graph: Graph, readers: dict[str, list[int]], start: int, length: int) -> list[int] | None:
    """A chain from a node on, each of which alone reads the one output of the node before it."""
    chain = [start]
    while len(chain) < length:
        node = graph.nodes[chain[-1]]
        places = readers.get(node.output[0], []) if len(node.output) == 1 else []
        if len(places) != 1 or places[0] < 0:
            return None
        chain.append(places[0])
    return chain


def _is_rewarding(graph: Graph, name: str) -> bool:
    value = graph.values.get(name)
    return value is not None and value.dtype == np.float32 and value.ndim > 0 and value.shape[-1] > 1


def _after(node: onnx.NodeProto, make: Callable[[str, str], list[onnx.NodeProto]], numbers: dict[str, int]) -> Wrong:
    """The node, and nodes behind it that make a wrong value of its first output. `numbers` are constants of one value,
    by the ends of their names."""
    changed = _copy(node)
    wrong = node.output[0]
    right = f"{wrong}:right"
    changed.output[0] = right
    constants = [
        numpy_helper.from_array(np.array([number], np.int64), f"{wrong}:{end}") for end, number in numbers.items()
    ]
    return Wrong([changed, *make(right, wrong)], constants)


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    return copy
