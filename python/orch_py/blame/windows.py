"""Windows: nodes of an ONNX graph as a graph of their own, fed with the values that they had in the whole one.

The values come from an oracle, ONNX Runtime node by node and without optimisers, which may show every value. The
runtime that is accused never shows one: an intermediate value that becomes an output may stop the very fusion that is
wrong.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from orch_py.blame.values import Values
from orch_py.export import onnx_messages, onnx_weights
from orch_py.worker.protocol import Refused
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

# The constants of a graph or window of no more bytes are in its message; those of a larger one stay in files.
HELD = 256 << 20
# The most nodes whose values are computed at a time where they go to files.
SEGMENT = 32
# The folder in which the constants of graphs and windows lie that are not in their messages.
_WEIGHTS: ContextVar[Path | None] = ContextVar("weights", default=None)


@contextmanager
def weights_in(folder: Path | None) -> Iterator[None]:
    """While it is entered, constants that are not in messages are read from files of the folder."""
    token = _WEIGHTS.set(folder)
    try:
        yield
    finally:
        _WEIGHTS.reset(token)


def weights_folder() -> Path | None:
    return _WEIGHTS.get()


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
        """Without `oracle`, ONNX Runtime computes the values without optimisers. Those of a model whose constants lie
        in files are computed some nodes at a time, and go to files, which last as long as the graph."""
        self.model = model
        self.nodes = list(model.graph.node)
        self.inputs = inputs
        self._weights = {tensor.name: tensor for tensor in model.graph.initializer}
        self.outputs = [value.name for value in model.graph.output]
        self.oracle = oracle or plain
        store = Path(tempfile.mkdtemp()) if has_files(model) else None
        if store is not None:
            weakref.finalize(self, shutil.rmtree, store, ignore_errors=True)
        self.values = Values(store)
        for name, value in inputs.items():
            self.values.add(name, value)
        self._fixed = self._independent()
        if store is None:
            for name, value in _values(model, inputs, self.oracle).items():
                self.values.add(name, value)
        else:
            self._compute_segments()

    def window(self, nodes: Iterable[int]) -> Window | None:
        """These nodes as a model; None where a value that it needs or gives is no tensor, or nothing is to be fed."""
        return self._cut(nodes, None)

    def _compute_segments(self) -> None:
        """Computes the values some nodes at a time."""
        for begin in range(0, len(self.nodes), SEGMENT):
            nodes = range(begin, min(begin + SEGMENT, len(self.nodes)))
            outputs = [name for at in nodes for name in self.nodes[at].output if name]
            segment = self._cut(nodes, outputs)
            if segment is None:
                raise Refused(
                    "unsupported", "a value of the graph is no tensor, so that it cannot be computed in parts"
                )
            for name, value in self.oracle(segment.model, segment.feeds).items():
                self.values.add(name, value)

    def _cut(self, nodes: Iterable[int], wanted: list[str] | None) -> Window | None:
        """These nodes as a model with the outputs `wanted`, which need not be known yet."""
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
            feeds = {
                name: onnx_weights.array(weight, weights_folder())
                for name, weight in weights.items()
                if name not in shapes
            }
            weights = {name: weight for name, weight in weights.items() if name in shapes}
        outputs = wanted or [name for name in self._given(chosen, made) if name in self.values]
        # What depends on constants of shapes alone needs no input, and is computed without any.
        if not outputs or (not feeds and wanted is None):
            return None
        graph = helper.make_graph(
            [self.nodes[at] for at in chosen],
            "window",
            [_info(name, value) for name, value in feeds.items()],
            [_info(name, self.values[name]) for name in outputs]
            if wanted is None
            else list(map(helper.make_empty_tensor_value_info, outputs)),
            list(weights.values()),
        )
        model = helper.make_model(
            graph,
            opset_imports=self.model.opset_import,
            ir_version=self.model.ir_version,
            functions=self.model.functions,
        )
        folder = weights_folder()
        if folder is not None and onnx_weights.size(model) <= HELD:
            onnx_weights.attach(model, folder)
        expected = {name: self.values[name] for name in outputs} if wanted is None else {}
        return Window(tuple(chosen), model, feeds, expected)

    def rest(self, replaced: Tensors, without: Iterable[int]) -> Tensors:
        """The outputs of the graph, by the oracle, with these values in the place of what the nodes `without` give."""
        left_out = set(without)
        nodes = [node for at, node in enumerate(self.nodes) if at not in left_out]
        return _resumed(self.model, nodes, self.inputs, replaced)

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


def resumed(model: onnx.ModelProto, feeds: Tensors, replaced: Tensors) -> Tensors:
    """The outputs of a model, without optimisers, with these values in the place of those that its nodes give."""
    nodes = [node for node in model.graph.node if not any(name in replaced for name in node.output)]
    return _resumed(model, nodes, feeds, replaced)


def _resumed(model: onnx.ModelProto, nodes: list[onnx.NodeProto], feeds: Tensors, replaced: Tensors) -> Tensors:
    """The outputs of these nodes of a model, and those outputs of the model that are replaced."""
    rest = onnx.ModelProto()
    rest.CopyFrom(model)
    onnx_messages.refill(rest.graph.node, nodes)
    rest.graph.input.extend(_info(name, value) for name, value in replaced.items())
    kept = [value for value in rest.graph.output if value.name not in replaced]
    found = {value.name: replaced[value.name] for value in rest.graph.output if value.name in replaced}
    onnx_messages.refill(rest.graph.output, kept)
    if kept:
        session = open_session(rest, optimised=False)
        taken = {value.name for value in session.get_inputs()}
        given = {**feeds, **replaced}
        names = [value.name for value in kept]
        outputs = session.run(names, {name: value for name, value in given.items() if name in taken})
        found |= dict(zip(names, map(np.asarray, outputs), strict=True))
    return found


def open_session(
    model: onnx.ModelProto, optimised: bool = True, disabled: Iterable[str] = (), level: str | None = None
) -> onnxruntime.InferenceSession:
    """The model in ONNX Runtime on the CPU, as a run has it. `disabled`: optimisers that it leaves out; ONNX Runtime
    ignores names that it does not know. `level`: the last level of optimisation, instead of all."""
    options = onnxruntime.SessionOptions()
    if not optimised:
        options.intra_op_num_threads = 1
    options.log_severity_level = 4
    refer(options)
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


def refer(options: onnxruntime.SessionOptions) -> None:
    """Lets a session read constants that are not in its model's message."""
    if (folder := weights_folder()) is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))


def has_files(model: onnx.ModelProto) -> bool:
    """Whether constants of a model are not in its message."""
    return any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in onnx_weights.tensors(model.graph))


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

    if has_files(model):
        held = onnx.ModelProto()
        held.CopyFrom(model)
        onnx_weights.attach(held, weights_folder() or Path())
        model = held
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
