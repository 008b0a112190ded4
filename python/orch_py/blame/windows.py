"""Windows: nodes of an ONNX graph as a graph of their own, fed with the values that they had in the whole one.

The values come from an oracle, ONNX Runtime node by node and without optimisers, which may show every value. The
runtime that is accused never shows one: an intermediate value that becomes an output may stop the very fusion that is
wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from orch_py.export import onnx_messages
from orch_py.worker.trees import Tensors

# The inputs of operators that say a shape, axes or places, by their numbers. Fed as values they would leave the shapes
# of a window open, which the whole graph did not.
SHAPES: dict[str, tuple[int, ...]] = {
    "ConstantOfShape": (0,),
    "CumSum": (1,),
    "Expand": (1,),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Unsqueeze": (1,),
    **dict.fromkeys(
        (
            *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin"),
            *("ReduceProd", "ReduceSum", "ReduceSumSquare"),
        ),
        (1,),
    ),
}

# Protobuf holds no longer message, and a window is one.
MAX_BYTES = 1 << 30


# Computes the outputs of a model by name, given its inputs.
Oracle = Callable[[onnx.ModelProto, Tensors], Tensors]


@dataclass(frozen=True)
class Window:
    """A part of a graph that runs on its own."""

    # Places of its nodes in the graph, ascending.
    nodes: tuple[int, ...]
    model: onnx.ModelProto
    # Its inputs, and the outputs that the oracle gave on them.
    feeds: Tensors
    expected: Tensors


class Graph:
    """A model and the value of each of its tensors on one set of inputs, which an oracle computes."""

    def __init__(self, model: onnx.ModelProto, inputs: Tensors, oracle: Oracle | None = None) -> None:
        """Without `oracle`, ONNX Runtime computes the values without optimisers."""
        self.model = model
        self.nodes = list(model.graph.node)
        self.inputs = inputs
        self._weights = {tensor.name: tensor for tensor in model.graph.initializer}
        self.outputs = [value.name for value in model.graph.output]
        self.oracle = oracle or plain
        self.values = {**inputs, **_values(model, inputs, self.oracle)}
        self._fixed = self._independent()

    def window(self, nodes: Iterable[int]) -> Window | None:
        """These nodes as a model; None where a value that it needs or gives is no tensor, or nothing is to be fed."""
        chosen = sorted(set(nodes))
        made = {name for at in chosen for name in self.nodes[at].output if name}
        shapes = {name for at in chosen for name in shapes_of(self.nodes[at])}
        weights, feeds = {}, {}
        for name in dict.fromkeys(name for at in chosen for name in _reads(self.nodes[at])):
            if name in made or not name:
                continue
            if name in self._weights:
                weights[name] = self._weights[name]
            elif name not in self.values:
                return None
            elif name in self._fixed or name in shapes:
                weights[name] = numpy_helper.from_array(self.values[name], name)
            else:
                feeds[name] = self.values[name]
        if not feeds:
            # All that it reads depends on no input. As constants the runtime would fold the window away.
            feeds = {name: numpy_helper.to_array(weight) for name, weight in weights.items() if name not in shapes}
            weights = {name: weight for name, weight in weights.items() if name in shapes}
        outputs = [name for name in self._given(chosen, made) if name in self.values]
        if not outputs or not feeds:
            return None
        graph = helper.make_graph(
            [self.nodes[at] for at in chosen],
            "window",
            [_info(name, value) for name, value in feeds.items()],
            [_info(name, self.values[name]) for name in outputs],
            list(weights.values()),
        )
        model = helper.make_model(
            graph,
            opset_imports=self.model.opset_import,
            ir_version=self.model.ir_version,
            functions=self.model.functions,
        )
        return Window(tuple(chosen), model, feeds, {name: self.values[name] for name in outputs})

    def rest(self, replaced: Tensors, without: Iterable[int]) -> Tensors:
        """The outputs of the graph, by the oracle, with these values in the place of what the nodes `without` give."""
        left_out = set(without)
        nodes = [node for at, node in enumerate(self.nodes) if at not in left_out]
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        onnx_messages.refill(model.graph.node, nodes)
        model.graph.input.extend(_info(name, value) for name, value in replaced.items())
        kept = [value for value in model.graph.output if value.name not in replaced]
        onnx_messages.refill(model.graph.output, kept)
        found = {name: value for name, value in replaced.items() if name in self.outputs}
        if kept:
            session = open_session(model, optimised=False)
            taken = {value.name for value in session.get_inputs()}
            given = {**self.inputs, **replaced}
            names = [value.name for value in kept]
            outputs = session.run(names, {name: value for name, value in given.items() if name in taken})
            found |= dict(zip(names, map(np.asarray, outputs), strict=True))
        return found

    def _given(self, chosen: list[int], made: set[str]) -> list[str]:
        """The values that a window must give: what other nodes read or the model gives; all, where that is nothing."""
        inside = set(chosen)
        read = {name for at, node in enumerate(self.nodes) if at not in inside for name in _reads(node)}
        needed = read | set(self.outputs)
        in_order = [name for at in chosen for name in self.nodes[at].output if name]
        return [name for name in in_order if name in needed and name in made] or in_order

    def _independent(self) -> set[str]:
        """The names of values that depend on no input."""
        known = set(self._weights)
        for node in self.nodes:
            if all(name in known for name in _reads(node) if name) and not node.op_type.startswith("Random"):
                known.update(name for name in node.output if name)
        return known


def open_session(
    model: onnx.ModelProto, optimised: bool = True, disabled: Iterable[str] = (), level: str | None = None
) -> onnxruntime.InferenceSession:
    """The model in ONNX Runtime on the CPU, as a run has it. `disabled`: optimisers that it leaves out; ONNX Runtime
    ignores names that it does not know. `level`: the last level of optimisation, instead of all."""
    options = onnxruntime.SessionOptions()
    if not optimised:
        options.intra_op_num_threads = 1
    options.log_severity_level = 4
    levels = onnxruntime.GraphOptimizationLevel
    if not optimised:
        options.graph_optimization_level = levels.ORT_DISABLE_ALL
    elif level is not None:
        options.graph_optimization_level = getattr(levels, level)
    names = sorted(disabled)
    return onnxruntime.InferenceSession(
        model.SerializeToString(),
        options,
        providers=["CPUExecutionProvider"],
        **({"disabled_optimizers": names} if names else {}),
    )


def run(session: onnxruntime.InferenceSession, feeds: Tensors) -> Tensors:
    """All outputs that are tensors, by name."""
    names = [value.name for value in session.get_outputs()]
    found = zip(names, session.run(names, feeds), strict=True)
    return {name: np.asarray(value) for name, value in found if not isinstance(value, (list, dict))}


def plain(model: onnx.ModelProto, feeds: Tensors) -> Tensors:
    """All outputs that are tensors, computed by ONNX Runtime without optimisers."""
    return run(open_session(model, optimised=False), feeds)


def by_reference(model: onnx.ModelProto, feeds: Tensors) -> Tensors:
    """All outputs that are tensors, computed by the reference implementation of ONNX, which is slow."""
    from onnx.reference import ReferenceEvaluator

    names = [value.name for value in model.graph.output]
    found = zip(names, ReferenceEvaluator(model).run(names, feeds), strict=True)
    return {name: value for name, value in found if isinstance(value, np.ndarray | np.generic)}


def _values(model: onnx.ModelProto, inputs: Tensors, oracle: Oracle) -> Tensors:
    """Every value of the graph that is a tensor, computed node by node."""
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    known = {value.name for value in shown.graph.output}
    for node in model.graph.node:
        for name in node.output:
            if name and name not in known:
                known.add(name)
                shown.graph.output.append(helper.make_empty_tensor_value_info(name))
    return oracle(shown, inputs)


def _reads(node: onnx.NodeProto) -> list[str]:
    """The names that a node reads, also in graphs of its own."""
    return [
        *node.input,
        *(name for below in onnx_messages.subgraphs(node) for name in onnx_messages.outer_names(below)),
    ]


def shapes_of(node: onnx.NodeProto) -> list[str]:
    """The inputs of a node that say a shape."""
    return [node.input[at] for at in SHAPES.get(node.op_type, ()) if at < len(node.input)]


def _info(name: str, value: np.ndarray) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
