"""Folds the constants of an ONNX graph. ONNX Runtime computes them, at the level that keeps to standard operators: the
folder of onnxscript leaves references to values that it removed.

ONNX Runtime reads every weight of a graph and writes it again, folded or not. So weights of which folding needs nothing
but the type are left out meanwhile: of 2 GB, what is read and written is a few shapes and axes.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path

import onnx
import onnxruntime
from onnx import NodeProto, TensorProto

from orch_py.export import onnx_messages, onnx_weights

# Bytes from which it pays to leave a weight out.
_LEAST = 1 << 20
# Operators of which no optimiser at the level that folds constants reads the values of a weight. Those that do merge
# a normalisation into the matrix before it.
_ONLY_COMPUTED = {"Gather", "MatMul", "Gemm"}
_MERGED = {"BatchNormalization"}


def fold(model: onnx.ModelProto, folder: Path | None) -> onnx.ModelProto:
    """The graph in which everything that does not depend on the inputs is a constant.

    `folder` is where external tensors of the model lie; None for a model that has none.
    """
    inputs = [value.name for value in model.graph.input]
    lean = onnx.ModelProto()
    lean.CopyFrom(model)
    left_out = _leave_out(lean)
    with tempfile.TemporaryDirectory() as own:
        there = folder or Path(own)
        # Each fold reads what the one before it wrote.
        data = next(name for number in range(9) if not (there / (name := f"folded-{number}.data")).exists())
        options = session_options()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(there / "folded.onnx")
        if folder is not None:
            options.add_session_config_entry("session.optimized_model_external_initializers_file_name", data)
            least = str(onnx_weights.LEAST)
            options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", least)
        # Nothing is computed with this session, so that no kernel needs its weights in an order of its own.
        options.add_session_config_entry("session.disable_prepacking", "1")
        # Merging a product and a sum into one Gemm suits some devices and not others: left to their own runtimes.
        # ONNX Runtime 1.31 merges a padding with 0 into the MaxPool behind it, whose own padding is the lowest number.
        onnxruntime.InferenceSession(
            onnx_messages.write_graph(lean, there, "unfolded.onnx"),
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=["MatMulAddFusion", "Pad_Fusion"],
        )
        folded = onnx.load(there / "folded.onnx", load_external_data=False)
    _put_back(folded, left_out, inputs)
    used = {node.domain for node in folded.graph.node}
    onnx_messages.refill(folded.opset_import, [entry for entry in folded.opset_import if entry.domain in used])
    onnx_messages.refill(folded.graph.value_info, [])
    # A runtime that folds again would make up the same names for its own constants, and fail on finding them taken.
    known = {value.name for value in (*model.graph.initializer, *model.graph.output)}
    for number, tensor in enumerate(folded.graph.initializer):
        if tensor.name not in known:
            name = f"folded.{number}"
            while name in known:
                name += ".again"
            onnx_messages.rename(folded.graph, tensor.name, name)
            tensor.name = name
    return folded


def _leave_out(model: onnx.ModelProto) -> list[TensorProto]:
    """Turns weights into inputs of the graph, and gives them back.

    Those are external, and the nodes that read them are of `_ONLY_COMPUTED` alone and depend on an input, so that none
    of them folds.
    """
    graph = model.graph
    if any(node.op_type in _MERGED for node in graph.node):
        return []
    readers: dict[str, list[NodeProto]] = defaultdict(list)
    read_below = {value.name for value in graph.output}
    constants = {tensor.name for tensor in graph.initializer}
    computed = {value.name for value in graph.input} - constants
    for node in graph.node:
        for name in node.input:
            readers[name].append(node)
        for below in onnx_messages.subgraphs(node):
            read_below.update(onnx_messages.outer_names(below))
        if computed.intersection(node.input):
            computed.update(node.output)

    def is_left_out(tensor: TensorProto) -> bool:
        return (
            tensor.data_location == TensorProto.EXTERNAL
            and onnx_weights.bytes_of(tensor) >= _LEAST
            and tensor.name not in read_below
            and all(
                node.op_type in _ONLY_COMPUTED and computed.intersection(node.input) for node in readers[tensor.name]
            )
        )

    left_out = [tensor for tensor in graph.initializer if is_left_out(tensor)]
    names = {tensor.name for tensor in left_out}
    kept = [tensor for tensor in graph.initializer if tensor.name not in names]
    onnx_messages.refill(graph.initializer, kept)
    known = {value.name for value in graph.input}
    for tensor in left_out:
        if tensor.name not in known:
            dims = list(tensor.dims)
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, dims))
    return left_out


def _put_back(model: onnx.ModelProto, left_out: list[TensorProto], inputs: list[str]) -> None:
    """Undoes `_leave_out` in a graph that ONNX Runtime made of it; `inputs` are those that the graph had before."""
    graph = model.graph
    onnx_messages.refill(graph.input, [value for value in graph.input if value.name in inputs])
    read = {name for node in graph.node for name in node.input}
    graph.initializer.extend(tensor for tensor in left_out if tensor.name in read)


def session_options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return options
