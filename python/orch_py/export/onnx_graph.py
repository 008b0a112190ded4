"""Makes an exported ONNX graph fit to be published: fixed names, fixed shapes, no trace of where it was made.

Knows nothing of models or exporters. Needs onnx and onnxruntime.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from orch_py.export import onnx_fold, onnx_lowering, onnx_messages, onnx_weights
from orch_py.worker.protocol import listed
from orch_py.worker.trees import Tensors

MODEL = "model.onnx"
DATA = "model.onnx.data"
# Protobuf ends at 2 GiB, and readers need room beside the weights.
_EMBED_LIMIT = 1_500_000_000


class Wrong(Exception):
    """The graph is not what was asked for; the message says how."""


class OpenSizes(Wrong):
    """It gives outputs of as many values as it finds, and nothing else was wrong so far."""


@dataclass(frozen=True)
class Tidied:
    """A graph that is fit to be published, and what was rewritten in it.

    Its larger tensors may lie in files of the folder that `tidy` was given, and so may those of the graph before.
    """

    model: onnx.ModelProto
    # How often each rule of `onnx_lowering` changed it.
    rules: dict[str, int]
    # The same graph before its constants were folded and the rules applied; None where neither was done.
    before: onnx.ModelProto | None

    @property
    def folded(self) -> list[int] | None:
        """The number of nodes before and after; None where nothing was folded."""
        if self.before is None:
            return None
        return [len(self.before.graph.node), len(self.model.graph.node)]


def tidy(
    model: onnx.ModelProto,
    outputs: list[str],
    folder: Path | None = None,
    fixed: bool = True,
    of_any_length: bool = False,
    rewrites: bool = True,
) -> Tidied:
    """The same function with only `outputs`, in that order, and nothing that says how, when or where it was made.

    `folder` is where external tensors of the model lie, and where those of the tidied one will; None for a model that
    has none. Unless all sizes must be `fixed`, outputs may have open ones; so may inputs, where the model is one
    `of_any_length`. Without `rewrites` constants are not folded and no rule of `onnx_lowering` applies.
    """
    _keep_outputs(model.graph, outputs)
    _prune(model.graph)
    rules: dict[str, int] = {}
    before = None
    if rewrites:
        before = model
        # Mobile compilers cannot place a node whose shape they do not know, and tracing leaves many that compute
        # shapes.
        model = _inferred(onnx_fold.fold(model, folder))
        # The rules are for compilers that want fixed sizes.
        if rules := {} if of_any_length else onnx_lowering.lower(model, folder):
            # A rule may leave constants behind that fold further.
            _prune(model.graph)
            model = _inferred(onnx_fold.fold(model, folder))
        # An output that depends on no input has become a constant, and outputs are made by nodes.
        make_outputs(model.graph)
    else:
        # Sizes are known to be fixed only where shapes were inferred.
        model = _inferred(model)
    strip(model)
    if not of_any_length and (told := _open(model.graph.input)):
        raise Wrong(told)
    if fixed and (told := _open(model.graph.output)):
        raise OpenSizes(told)
    return Tidied(model, rules, before)


def _inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def is_large(model: onnx.ModelProto) -> bool:
    """Whether the weights need a file of their own."""
    return onnx_weights.size(model) >= _EMBED_LIMIT


def _keep_outputs(graph: onnx.GraphProto, names: list[str]) -> None:
    by_name = {value.name.removeprefix("output."): value for value in graph.output}
    missing = [name for name in names if name not in by_name]
    if missing:
        raise Wrong(f"the graph has no output {listed(missing)}; it has {listed(by_name)}")
    kept = [by_name[name] for name in names]
    for name, value in zip(names, kept, strict=True):
        if value.name != name:
            onnx_messages.rename(graph, value.name, name)
            value.name = name
    del graph.output[:]
    graph.output.extend(kept)


def _prune(graph: onnx.GraphProto) -> None:
    """Drops nodes, weights and remarks that no output needs any more."""
    needed = {value.name for value in graph.output}
    kept = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(node.input)
            for below in onnx_messages.subgraphs(node):
                needed.update(onnx_messages.outer_names(below))
    onnx_messages.refill(graph.node, list(reversed(kept)))
    onnx_messages.refill(graph.initializer, [tensor for tensor in graph.initializer if tensor.name in needed])
    onnx_messages.refill(graph.value_info, [])


def strip(model: onnx.ModelProto) -> None:
    """The dynamo exporters write stack traces, with paths and line numbers, into every node."""
    model.doc_string = ""
    # `2.13.0+cu130` says which build of torch a host happens to have.
    model.producer_version = model.producer_version.split("+")[0]
    model.ClearField("metadata_props")
    for function in model.functions:
        function.doc_string = ""
        function.ClearField("metadata_props")
        for node in function.node:
            _strip_node(node)
    _strip_graph(model.graph)


def _strip_graph(graph: onnx.GraphProto) -> None:
    # Some exporters name the graph after a class or a file.
    graph.name = "main"
    graph.doc_string = ""
    graph.ClearField("metadata_props")
    for values in (graph.input, graph.output, graph.value_info, graph.initializer):
        for value in values:
            value.doc_string = ""
            value.ClearField("metadata_props")
    for node in graph.node:
        _strip_node(node)


def _strip_node(node: onnx.NodeProto) -> None:
    node.doc_string = ""
    node.ClearField("metadata_props")
    for attribute in node.attribute:
        attribute.doc_string = ""
    for below in onnx_messages.subgraphs(node):
        _strip_graph(below)


def _open(values: Iterable[onnx.ValueInfoProto]) -> str | None:
    """Which of them has a size that is not fixed."""
    for value in values:
        shape = value.type.tensor_type.shape
        sizes = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in shape.dim]
        if any(isinstance(size, str) for size in sizes):
            return f"`{value.name}` has the shape {sizes}: sizes that are not fixed cannot be compiled for an NPU"
    return None


def open_sizes(model: onnx.ModelProto) -> list[str]:
    """The outputs of as many values as are found."""
    return [value.name for value in model.graph.output if _open([value])]


def save(model: onnx.ModelProto, folder: Path, source: Path | None = None) -> list[Path]:
    """Writes one file, or two when the weights are too large for one. Gives back what it wrote.

    `source` is the folder in which external tensors of the model lie; None for a model that has none.
    """
    path = folder / MODEL
    if source is None:
        if not is_large(model):
            onnx.checker.check_model(model)
            path.write_bytes(model.SerializeToString(deterministic=True))
            return [path]
        onnx.save_model(model, path, save_as_external_data=True, all_tensors_to_one_file=True, location=DATA)
        onnx.checker.check_model(path)
        return [path, folder / DATA]
    # Of external tensors the checker asks only whether they are there.
    onnx.checker.check_model(onnx_messages.write_graph(model, source, "checked.onnx"))
    if not is_large(model):
        onnx_weights.write(model, source, path)
        return [path]
    gathered = onnx.ModelProto()
    gathered.CopyFrom(model)
    onnx_weights.gather(gathered, source, folder / DATA)
    path.write_bytes(gathered.SerializeToString(deterministic=True))
    return [path, folder / DATA]


def load_typed(tree: Path) -> onnx.ModelProto:
    """The model of a tree with its weights, and with the type of every tensor that can be known."""
    with tempfile.TemporaryDirectory() as folder:
        typed = Path(folder) / MODEL
        # By path, because a large model fits into no message.
        onnx.shape_inference.infer_shapes_path(tree / MODEL, typed, data_prop=True)
        model = onnx.load(typed, load_external_data=False)
    onnx.external_data_helper.load_external_data_for_model(model, str(tree))
    return model


def make_outputs(graph: onnx.GraphProto) -> None:
    """Gives each output that is a constant a node that makes it."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for value in graph.output:
        if tensor := constants.get(value.name):
            tensor.name += ".constant"
            onnx_messages.rename(graph, value.name, tensor.name)
            graph.node.insert(0, onnx.helper.make_node("Identity", [tensor.name], [value.name], f"{value.name}/made"))


def drop_repeated(graph: onnx.GraphProto) -> None:
    """Drops nodes that give what an equal node gives already, under the same names."""
    known: set[tuple[str, ...]] = set()
    kept = []
    for node in graph.node:
        names = (node.op_type, *node.input, *node.output)
        if names not in known:
            kept.append(node)
            known.add(names)
    onnx_messages.refill(graph.node, kept)


def sort(graph: onnx.GraphProto) -> None:
    """Puts each node after those whose outputs it reads, also where it reads them in a graph of its own."""
    makers = {name: place for place, node in enumerate(graph.node) for name in node.output if name}

    def ahead(place: int, node: onnx.NodeProto) -> list[int]:
        reads = [
            *node.input,
            *(name for below in onnx_messages.subgraphs(node) for name in onnx_messages.outer_names(below)),
        ]
        return sorted({makers[name] for name in reads if name in makers} - {place})

    order = TopologicalSorter({place: ahead(place, node) for place, node in enumerate(graph.node)}).static_order()
    onnx_messages.refill(graph.node, [graph.node[place] for place in order])


def sized_by_values(graph: onnx.GraphProto) -> set[str]:
    """Operators whose outputs have as many values as their inputs say, which compilers for accelerators refuse."""
    found = {node.op_type for node in graph.node} & {"NonZero", "Unique", "Compress"}
    below = (inner for node in graph.node for inner in onnx_messages.subgraphs(node))
    return found.union(*map(sized_by_values, below))


def open_session(path: Path, optimised: bool = True, threads: int = 1) -> onnxruntime.InferenceSession:
    """The file in ONNX Runtime on the CPU: node by node as written, unless `optimised`."""
    options = onnx_fold.session_options()
    options.intra_op_num_threads = threads
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def execute(path: Path, inputs: Tensors, optimised: bool = True) -> Tensors:
    """Runs the file in ONNX Runtime: CPU, one thread; node by node as written, unless `optimised`."""
    return run(open_session(path, optimised), inputs)


def run(session: onnxruntime.InferenceSession, inputs: Tensors) -> Tensors:
    """All outputs by name."""
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, (np.asarray(value) for value in session.run(names, inputs)), strict=True))
