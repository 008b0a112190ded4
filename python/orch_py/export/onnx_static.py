"""ONNX with int8 weights, and activations of 8 or 16 bits in ranges found beforehand, by ONNX Runtime's own tools.

Of the operators only those that multiply weights or attend: all others cost more exactness than they bring speed, and
what reads a mask of fp32's lowest number has no useful range. Needs onnx and onnxruntime.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize, quantize_static
from onnxruntime.quantization.execution_providers.qnn import get_qnn_qdq_config, qnn_preprocess_model
from onnxruntime.quantization.shape_inference import quant_pre_process

from orch_py.export import onnx_graph
from orch_py.worker.protocol import Refused, first_line
from orch_py.worker.trees import Tensors

OPERATORS = ("MatMul", "Gemm", "Conv")
# What ONNX Runtime's CPU kernels make of them between quantised tensors.
_INTEGER = ("QLinearMatMul", "MatMulIntegerToFloat", "QGemm", "QLinearConv", "MatMulInteger", "ConvInteger")

# What activations are held in, by the precision that is asked for.
ACTIVATIONS = {"int8-static": QuantType.QUInt8, "a16w8": QuantType.QUInt16}


def activations(precision: str) -> str | None:
    """For people: the type of activations."""
    kind = ACTIVATIONS.get(precision)
    return kind and kind.name.removeprefix("Q").lower()


class _Reader(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no types.
    def __init__(self, sets: list[Tensors]) -> None:
        self._rest: Iterator[Tensors] = iter(sets)

    def get_next(self) -> Tensors | None:
        return next(self._rest, None)


def quantised(model: onnx.ModelProto, sets: list[Tensors], reduced: bool) -> onnx.ModelProto:
    """Weights int8 by channel, activations uint8 by tensor; between them the graph stays in fp32."""
    large = onnx_graph.is_large(model)
    with tempfile.TemporaryDirectory() as folder:
        plain, made = Path(folder) / "plain.onnx", Path(folder) / "made.onnx"
        path, *_ = onnx_graph.save(model, Path(folder))
        # Sizes are fixed, so nothing is symbolic. ONNX Runtime's optimiser takes one message, and a large model is too
        # long for that.
        quant_pre_process(path, plain, skip_symbolic_shape=True, skip_optimization=large, save_as_external_data=large)
        quantize_static(
            plain,
            made,
            _Reader(sets),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=list(OPERATORS),
            per_channel=True,
            reduce_range=reduced,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            use_external_data_format=large,
            extra_options={"TensorQuantOverrides": _by_tensor(plain, reduced)},
        )
        return onnx.load(made)


def _by_tensor(path: Path, reduced: bool) -> dict[str, list[dict[str, Any]]]:
    """The constants of products that are no matrix: a stack of matrices or a vector has no channels of weights that
    ONNX Runtime's kernels know."""
    graph = onnx.load(path, load_external_data=False).graph
    ranks = {tensor.name: len(tensor.dims) for tensor in graph.initializer}
    read = {name for node in graph.node if node.op_type == "MatMul" for name in node.input}
    others = sorted(name for name in read if ranks.get(name, 2) != 2)
    return {name: [{"quant_type": QuantType.QInt8, "symmetric": True, "reduce_range": reduced}] for name in others}


def quantised_for_qnn(model: onnx.ModelProto, sets: list[Tensors], precision: str) -> onnx.ModelProto:
    """As Qualcomm's provider wants it: weights uint8 by tensor, for its products of matrices know no channels, and
    activations uint8 or uint16. Its arithmetic does not saturate, so all eight bits are used."""
    large = onnx_graph.is_large(model)
    with tempfile.TemporaryDirectory() as folder:
        plain, made = Path(folder) / "plain.onnx", Path(folder) / "made.onnx"
        path, *_ = onnx_graph.save(model, Path(folder))
        changed = qnn_preprocess_model(path, plain, save_as_external_data=large)
        model = onnx.load(plain if changed else path)
        _own_constants(model.graph)
        owned = Path(folder) / "owned"
        owned.mkdir()
        path, *_ = onnx_graph.save(model, owned)
        config = get_qnn_qdq_config(
            path,
            _Reader(sets),
            activation_type=ACTIVATIONS[precision],
            weight_type=QuantType.QUInt8,
            op_types_to_quantize=list(OPERATORS),
        )
        quantize(path, made, config)
        return onnx.load(made)


def _own_constants(graph: onnx.GraphProto) -> None:
    """Gives each product constants of its own: shared, a bias of zeros would be quantised for the normalisation that
    reads it too, and the provider has no code for that."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    readers = Counter(name for node in graph.node for name in node.input)
    for number, node in enumerate(graph.node):
        if node.op_type not in OPERATORS:
            continue
        for place, name in enumerate(node.input):
            if name in constants and readers[name] > 1:
                readers[name] -= 1
                own = graph.initializer.add()
                own.CopyFrom(constants[name])
                own.name = node.input[place] = f"{name}.{number}.{place}"


def quantised_products(model: onnx.ModelProto, precision: str) -> tuple[int, int]:
    """How many products of the file stand between dequantised and quantised tensors, with an activation of the
    precision's own type at one side or the other; and how many products there are."""
    graph = model.graph
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    made_by = {name: node for node in graph.node for name in node.output}
    read_by: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            read_by.setdefault(name, []).append(node)

    def held_in(node: onnx.NodeProto | None, kind: str) -> int | None:
        """The type of the integers of a node that quantises or dequantises; None for any other."""
        is_one = node is not None and node.op_type == kind and len(node.input) > 2
        return types.get(node.input[2]) if node and is_one else None

    wanted = ACTIVATIONS[precision].tensor_type
    products = [node for node in graph.node if node.op_type in OPERATORS]
    found = 0
    for node in products:
        given = [held_in(made_by.get(name), "DequantizeLinear") for name in node.input[:2]]
        taken = [held_in(reader, "QuantizeLinear") for reader in read_by.get(node.output[0], [])]
        if None not in (*given, *taken) and taken and wanted in given and set(taken) == {wanted}:
            found += 1
    return found, len(products)


def integer_products(model: onnx.ModelProto) -> int:
    """How many products ONNX Runtime's CPU provider computes in integers: it fuses what stands between quantised
    tensors, and computes in fp32 without a word what it cannot fuse."""
    with tempfile.TemporaryDirectory() as folder:
        path, *_ = onnx_graph.save(model, Path(folder))
        # Saved beside the model, large weights are gone from it.
        onnx.external_data_helper.load_external_data_for_model(model, folder)
        fused = Path(folder) / "fused.onnx"
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(fused)
        options.log_severity_level = 3
        try:
            onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # a converter's slip is any error of ONNX Runtime.
            raise Refused("error", f"the converted model does not load: {first_line(error)}") from error
        graph = onnx.load(fused, load_external_data=False).graph
    return sum(node.op_type in _INTEGER for node in graph.node)
