"""Makes an ONNX artefact of another precision from the fp32 one: fp16, or int8 by dynamic or static quantisation.

Both are ONNX Runtime's own tools, which is what its users ship. Inputs and outputs keep their types, so that what is
given and what is compared is the same at every precision; casts stand at the borders. Never imports torch.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.transformers import float16

from orch_py import calibration, onnx_graph, onnx_static, trees
from orch_py.onnx_census import Census, graphs
from orch_py.protocol import Job, Output, Refused, first_line, listed

# The least share of what could be of the precision that must be: less is another precision under its name.
_LEAST_SHARE = 0.5
# The greatest finite number of fp16: masks made of fp32's lowest number become this, and not an infinity.
_FP16_MAX = 65504.0
_SCHEMES = {
    "fp16": "all operators but those without fp16 kernels; inputs and outputs fp32",
    "int8": "dynamic: weights int8 by channel{range}, activations uint8 by tensor as they come; stacks and vectors too",
    "int8-static": "static: weights int8 by channel{range}, activations uint8 by tensor; {calibrated}; "
    "QDQ around MatMul, Gemm and Conv",
}
_INTEGER = ("int8", "int8-static")
# How far int8 weights reach. x86 CPUs without VNNI add the products of a pair, of uint8 and int8, in 16 bits, which
# saturate: 255 x 64 x 2 is the most that fits.
_RANGES = {"reduced": " in a reduced range (±64: exact on every CPU)", "full": " (CPUs without VNNI saturate)"}
_REDUCED = 64


def run(job: Job) -> Output:
    precision = job.required("precision")
    if precision not in _SCHEMES:
        raise Refused("unsupported", f"ONNX conversion to `{precision}` is not known; known: {listed(_SCHEMES)}")
    range_ = None
    if precision in _INTEGER:
        range_ = job.param("range", "reduced")
        if range_ not in _RANGES:
            raise Refused("error", f"the range of int8 weights `{range_}` is not known; known: {listed(_RANGES)}")
    tree = job.tree("onnx")
    manifest = trees.read_manifest(tree)
    sets = calibration.sets(job, tree, manifest["inputs"]) if precision == "int8-static" else []
    scheme = _SCHEMES[precision].format(range=_RANGES.get(range_ or ""), calibrated=calibration.told(job, len(sets)))
    before = onnx_graph.load_typed(tree)
    if not Census.of(before).weights["fp32"]:
        raise Refused("unsupported", f"the ONNX model holds no fp32 weights, so there is nothing to make {precision}")
    ports = _ports(before)

    started = time.perf_counter()
    model = _made(before, precision, range_ == "reduced", sets)
    seconds = time.perf_counter() - started
    onnx_graph.strip(model)
    census = Census.of(model)
    if sets:
        census.nodes["integer"] = onnx_static.integer_products(model)
    facts = {"scheme": scheme, "range": range_, **census.facts(), "seconds": {"convert": seconds}}
    if range_ == "reduced" and (far := _reach(model, before)) > _REDUCED:
        raise Refused("error", f"BUG: asked for weights within ±{_REDUCED}, ONNX Runtime made one of {far}", facts)
    if wrong := census.lacks("int8" if precision in _INTEGER else precision, _LEAST_SHARE):
        raise Refused("unsupported", wrong, facts)
    if (now := _ports(model)) != ports:
        raise Refused("error", f"the converted model takes and gives {now}, the fp32 one {ports}", facts)
    path, *_ = onnx_graph.save(model, job.out)
    try:
        onnx_graph.open_session(path)
    except Exception as error:  # a converter's slip is any error of ONNX Runtime.
        raise Refused("error", f"the converted model does not load: {first_line(error)}", facts) from error

    trees.copy_inputs(tree, job.out)
    versions = trees.versions("onnx", "onnxruntime")
    trees.write_manifest(
        job.out,
        {
            "format": "onnx",
            "inputs": manifest["inputs"],
            "outputs": manifest["outputs"],
            "route": manifest.get("route"),
            "opset": next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")),
            "precision": precision,
            "scheme": scheme,
            "range": range_,
            "versions": manifest.get("versions", {}) | versions,
        },
    )
    facts["versions"] = versions
    return Output(facts=facts)


def _made(model: onnx.ModelProto, precision: str, reduced: bool, sets: list[trees.Tensors]) -> onnx.ModelProto:
    if precision == "fp16":
        return _to_fp16(model)
    return onnx_static.quantised(model, sets, reduced) if sets else _to_int8(model, reduced)


def _to_fp16(model: onnx.ModelProto) -> onnx.ModelProto:
    # The converter names an output anew where a node makes it, and forgets the constants.
    onnx_graph.make_outputs(model.graph)
    model = float16.convert_float_to_float16(
        model,
        keep_io_types=True,
        # Types are known already; inferring them once more would pass the whole model through one message.
        disable_shape_infer=True,
        max_finite_val=_FP16_MAX,
        op_block_list=float16.DEFAULT_OP_BLOCK_LIST,
    )
    # Two operators that stay in fp32 and read the same tensor get a cast each, under one name.
    onnx_graph.drop_repeated(model.graph)
    # The casts stand at the end, after what reads them.
    onnx_graph.sort(model.graph)
    return model


def _to_int8(model: onnx.ModelProto, reduced: bool) -> onnx.ModelProto:
    by_tensor = _by_tensor(model)
    model = _quantised(model, reduced, per_channel=True, nodes_to_exclude=by_tensor)
    # No names at all would mean every node.
    return _quantised(model, reduced, per_channel=False, nodes_to_quantize=by_tensor) if by_tensor else model


def _by_tensor(model: onnx.ModelProto) -> list[str]:
    """The products with a constant that is no matrix, by name. The tool would give a stack of matrices a zero point for
    each column, and ONNX Runtime's kernel wants one for each matrix as well, or a single one; a vector one for each of
    its values."""
    ranks = {tensor.name: len(tensor.dims) for graph in graphs(model.graph) for tensor in graph.initializer}
    products = [node for graph in graphs(model.graph) for node in graph.node if node.op_type == "MatMul"]
    for number, node in enumerate(products):
        node.name = node.name or f"product.{number}"
    return [node.name for node in products if ranks.get(node.input[1], 2) != 2]


def _quantised(model: onnx.ModelProto, reduced: bool, **how: Any) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / onnx_graph.MODEL
        quantize_dynamic(
            model,
            path,
            reduce_range=reduced,
            weight_type=QuantType.QInt8,
            use_external_data_format=onnx_graph.is_large(model),
            extra_options={"EnableSubgraph": True},
            **how,
        )
        return onnx.load(path)


def _reach(model: onnx.ModelProto, before: onnx.ModelProto) -> int:
    """The largest magnitude among the weights that became int8."""

    def weights(of: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
        tensors = (tensor for graph in graphs(of.graph) for tensor in graph.initializer)
        return {tensor.name: tensor for tensor in tensors if tensor.data_type == TensorProto.INT8}

    known = weights(before)
    made = (numpy_helper.to_array(tensor) for name, tensor in weights(model).items() if name not in known)
    return max((int(np.abs(values.astype(np.int16)).max(initial=0)) for values in made), default=0)


def _ports(model: onnx.ModelProto) -> dict[str, list[Any]]:
    def told(values: Any) -> list[Any]:
        return [(value.name, TensorProto.DataType.Name(value.type.tensor_type.elem_type)) for value in values]

    return {"inputs": told(model.graph.input), "outputs": told(model.graph.output)}
