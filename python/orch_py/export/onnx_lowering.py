"""Operators of an ONNX graph in terms of others that more devices have.

Every rule keeps the function (one with a condition that it names), so there is one artefact for all runtimes and none
of them is worse off; who publishes a graph tells what was done to it. What only one vendor's compiler refuses is not
changed here (`src/runtime/ort/lowering` does that for the HTP). Knows nothing of models, exporters or devices. Needs
onnx.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from orch_py.export import onnx_weights

# From this version on the axes of a reduction are an input.
_AXES_ARE_AN_INPUT = 18
_PRODUCT = re.compile(
    r"(?P<stack>\.\.\.|[a-z]*)(?P<row>[a-z])(?P<both>[a-z]),(?P=stack)(?P=both)(?P<column>[a-z])"
    r"->(?P=stack)(?P=row)(?P=column)"
)


@dataclass
class _Graph:
    """What rules look up, and the constants that they add."""

    opset: int
    types: dict[str, tuple[int, list[int]]]
    constants: dict[str, TensorProto]
    outputs: set[str]
    # Where external constants lie.
    folder: Path | None
    added: list[TensorProto] = field(default_factory=list)

    def constant(self, name: str, value: np.ndarray) -> str:
        self.added.append(numpy_helper.from_array(value, name))
        return name


Rule = Callable[[_Graph, onnx.NodeProto], list[onnx.NodeProto] | None]


def _narrow_cumsum(graph: _Graph, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """Sums of int64 in int32, since shaders have no wider integers: equal as long as they stay below 2**31.

    Models count the places of a mask so, and no tensor has as many. Whoever sums other numbers is found out by the
    comparison with the reference.
    """
    if node.op_type != "CumSum" or graph.types.get(node.input[0], (None,))[0] != TensorProto.INT64:
        return None
    narrow, total = f"{node.output[0]}.int32", f"{node.output[0]}.sum"
    sums = onnx.NodeProto.FromString(node.SerializeToString())
    sums.input[0], sums.output[0] = narrow, total
    return [
        helper.make_node("Cast", [node.input[0]], [narrow], f"{node.name}/int32", to=TensorProto.INT32),
        sums,
        helper.make_node("Cast", [total], [node.output[0]], f"{node.name}/int64", to=TensorProto.INT64),
    ]


def _uniform_gather(graph: _Graph, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """A choice among equal values is that value: token types are looked up in a buffer of zeros."""
    if node.op_type != "GatherElements" or node.input[0] not in graph.constants:
        return None
    # A graph's output must be made by a node.
    if node.output[0] in graph.outputs:
        return None
    value = onnx_weights.array(graph.constants[node.input[0]], graph.folder)
    _, shape = graph.types.get(node.output[0], (0, [-1]))
    if value.size == 0 or min(shape, default=0) < 0 or not np.all(value == value.flat[0]):
        return None
    graph.constant(node.output[0], np.full(shape, value.flat[0], value.dtype))
    return []


def _mean_of_one_axis(graph: _Graph, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """The average of a pool over one axis is a mean: pools of most devices are over two axes."""
    if node.op_type != "GlobalAveragePool" or len(graph.types.get(node.input[0], (0, []))[1]) != 3:
        return None
    if graph.opset < _AXES_ARE_AN_INPUT:
        return [helper.make_node("ReduceMean", node.input, node.output, node.name, axes=[2], keepdims=1)]
    axes = graph.constant(f"{node.output[0]}.axes", np.array([2], np.int64))
    return [helper.make_node("ReduceMean", [*node.input, axes], node.output, node.name, keepdims=1)]


def _without_nothing(graph: _Graph, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """What is joined to nothing stays as it is: a rotary embedding of the whole head joins a rest of width zero, and
    compilers of fixed shapes refuse tensors without elements."""
    if node.op_type != "Concat" or len(shape := graph.types.get(node.output[0], (0, []))[1]) == 0:
        return None
    [axis] = [attribute.i % len(shape) for attribute in node.attribute if attribute.name == "axis"]

    def is_nothing(name: str) -> bool:
        sizes = graph.types.get(name, (0, []))[1]
        return len(sizes) == len(shape) and sizes[axis] == 0

    kept = [name for name in node.input if not is_nothing(name)]
    if len(kept) in (0, len(node.input)):
        return None
    if len(kept) == 1:
        return [helper.make_node("Identity", kept, node.output, node.name)]
    return [helper.make_node("Concat", kept, node.output, node.name, axis=axis)]


def _product_of_matrices(graph: _Graph, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """An `Einsum` of the last two axes of tensors of one rank: WebNN and QNN know no letters for the axes before."""
    ranks = {len(graph.types.get(name, (0, []))[1]) for name in node.input}
    if node.op_type != "Einsum" or len(ranks) != 1 or min(ranks) < 2:
        return None
    [equation] = [attribute.s.decode().replace(" ", "") for attribute in node.attribute]
    found = _PRODUCT.fullmatch(equation)
    letters = "".join(found.groups()).strip(".") if found else ""
    if not letters or len(set(letters)) < len(letters):
        return None
    return [helper.make_node("MatMul", node.input, node.output, node.name)]


# By the name under which a manifest counts how often each was applied.
RULES: dict[str, Rule] = {
    "cumsum-int32": _narrow_cumsum,
    "uniform-gather": _uniform_gather,
    "pool-mean": _mean_of_one_axis,
    "empty-concat": _without_nothing,
    "einsum-matmul": _product_of_matrices,
}


def lower(model: onnx.ModelProto, folder: Path | None = None) -> dict[str, int]:
    """Changes the graph itself, whose constants are folded and whose shapes are inferred; not what lies in branches and
    loops. Gives how often each rule changed it. External constants lie in `folder`."""
    graph = model.graph
    constants, outputs = {tensor.name: tensor for tensor in graph.initializer}, {value.name for value in graph.output}
    known = _Graph(_opset(model), _types(graph), constants, outputs, folder)
    done: Counter[str] = Counter()
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        made = None
        for name, rule in RULES.items() if node.domain in ("", "ai.onnx") else ():
            if (made := rule(known, node)) is not None:
                done[name] += 1
                break
        nodes.extend([node] if made is None else made)
    if done:
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)
        graph.initializer.extend(known.added)
    return dict(sorted(done.items()))


def look_up_masks(model: onnx.ModelProto, masks: list[str]) -> dict[str, int]:
    """Inputs of int64 that hold only 0 and 1 are looked up in a table of int32 where they would be cast.

    For runtimes without an int64 on the device, which take it only to look things up by it. Any other value would be a
    place that the table does not have.
    """
    graph = model.graph
    casts = [node for node in graph.node if node.op_type == "Cast" and node.input[0] in masks]
    looked_up = sorted({node.input[0] for node in casts})
    if not casts:
        return {}
    table = "mask.values"
    graph.initializer.append(numpy_helper.from_array(np.array([0, 1], np.int32), table))
    for node in casts:
        node.input[0] += ".int32"
    nodes = [helper.make_node("Gather", [table, name], [f"{name}.int32"], f"{name}/int32") for name in looked_up]
    nodes += [onnx.NodeProto.FromString(node.SerializeToString()) for node in graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    return {"mask-gather": len(looked_up)}


def _opset(model: onnx.ModelProto) -> int:
    return next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))


def _types(graph: onnx.GraphProto) -> dict[str, tuple[int, list[int]]]:
    """Element type and sizes of values by name; a size that is not known is -1."""
    types = {}
    for value in (*graph.value_info, *graph.input, *graph.output):
        tensor = value.type.tensor_type
        # A value without a shape is of no known rank, which is not rank 0.
        sizes = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim]
        types[value.name] = (tensor.elem_type, sizes if tensor.HasField("shape") else [-1])
    for constant in graph.initializer:
        types[constant.name] = (constant.data_type, list(constant.dims))
    return types
