"""Makes an ONNX artefact of another precision from the fp32 one: fp16, int8 by dynamic or static quantisation, 16-bit
activations with int8 weights, or weights of 4 bits.

All are ONNX Runtime's own tools, which is what its users ship. Inputs and outputs keep their types, so that what is
given and what is compared is the same at every precision; casts stand at the borders. Never imports torch.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.transformers import float16

from orch_py.export import decoder_tree, onnx_graph, onnx_nbits, onnx_static
from orch_py.export.onnx_census import Census, graphs
from orch_py.inputs import calibration
from orch_py.worker import trees
from orch_py.worker.protocol import Job, Output, Refused, first_line, listed

# The least share of what could be of the precision that must be: less is another precision under its name.
_LEAST_SHARE = 0.5
# The greatest finite number of fp16: masks made of fp32's lowest number become this, and not an infinity.
_FP16_MAX = 65504.0
_QDQ = "activations {activations} by tensor; {calibrated}; QDQ around MatMul, Gemm and Conv"
_SCHEMES = {
    "fp16": "all operators but those without fp16 kernels; inputs and outputs fp32",
    "int8": "dynamic: weights int8 by channel{range}, activations uint8 by tensor as they come; stacks and vectors too",
    "int8-static": "static: weights int8 by channel{range}, " + _QDQ,
    "a16w8": "static: weights uint8 by tensor, " + _QDQ,
    "int4": "weights uint4 in groups of {group}, each with its scale and zero point; activations and products fp32; "
    "embeddings and vectors stay fp32",
}
# For Qualcomm's NPU, whose compiler reads the file.
_SCHEMES_FOR_QNN = {precision: _SCHEMES["a16w8"] for precision in onnx_static.ACTIVATIONS}
_RANGED = ("int8", "int8-static")
# How far int8 weights reach. x86 CPUs without VNNI add the products of a pair, of uint8 and int8, in 16 bits, which
# saturate: 255 x 64 x 2 is the most that fits.
_RANGES = {"reduced": " in a reduced range (±64: exact on every CPU)", "full": " (CPUs without VNNI saturate)"}
_REDUCED = 64


@dataclass(frozen=True)
class _Asked:
    """What is to be made of the model."""

    precision: str
    for_qnn: bool
    """For the compiler of Qualcomm's NPU; otherwise ONNX Runtime itself runs it."""
    range: str | None
    """How far int8 weights reach, where that is a choice."""
    sets: list[trees.Tensors]
    """What it is calibrated on."""
    group: int | None
    """Weights that share a scale, where they do."""

    @property
    def is_wide(self) -> bool:
        """Whether what is quantised is of the kind that QNN takes."""
        return self.for_qnn or self.precision == "a16w8"


def run(job: Job) -> Output:
    tree = job.tree("onnx")
    manifest = trees.read_manifest(tree)
    before = onnx_graph.load_typed(tree)
    asked = _asked(job, before, tree, manifest["inputs"])
    precision = asked.precision
    if not Census.of(before).weights["fp32"]:
        raise Refused("unsupported", f"the ONNX model holds no fp32 weights, so there is nothing to make {precision}")
    scheme = (_SCHEMES_FOR_QNN if asked.for_qnn else _SCHEMES)[precision].format(
        range=_RANGES.get(asked.range or ""),
        calibrated=calibration.told(job, len(asked.sets)),
        activations=onnx_static.activations(precision),
        group=asked.group,
    )
    facts: dict[str, Any] = {"scheme": scheme, "range": asked.range, "seconds": {}}
    model = _published(before, asked, job.out, facts)

    def decoder(source: Path, target: Path, _: dict[str, Any]) -> dict[str, Any]:
        _published(onnx_graph.load_typed(source), asked, target, {"seconds": {}})
        return {"precision": precision}

    is_static = precision in onnx_static.ACTIVATIONS
    why_not = "what ranges of activations are measured on has one length only" if is_static else None
    decoders = decoder_tree.converted(tree, job.out, manifest, decoder, why_not)
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
            "range": asked.range,
            **decoders,
            "versions": manifest.get("versions", {}) | versions,
        },
    )
    facts["versions"] = versions
    return Output(facts=facts)


def _published(before: onnx.ModelProto, asked: _Asked, out: Path, facts: dict[str, Any]) -> onnx.ModelProto:
    """Converts a graph and writes it, if it is what it is to be called."""
    ports, started = _ports(before), time.perf_counter()
    model = _made(before, asked)
    facts["seconds"]["convert"] = time.perf_counter() - started
    onnx_graph.strip(model)
    _require(model, before, asked, facts)
    if (now := _ports(model)) != ports:
        raise Refused("error", f"the converted model takes and gives {now}, the fp32 one {ports}", facts)
    path, *_ = onnx_graph.save(model, out)
    try:
        onnx_graph.open_session(path)
    except Exception as error:  # a converter's slip is any error of ONNX Runtime.
        raise Refused("error", f"the converted model does not load: {first_line(error)}", facts) from error
    return model


def _asked(job: Job, model: onnx.ModelProto, tree: Path, inputs: list[str]) -> _Asked:
    precision, for_qnn = job.required("precision"), job.param("for") == "qnn"
    known = _SCHEMES_FOR_QNN if for_qnn else _SCHEMES
    if precision not in known:
        raise Refused("unsupported", f"ONNX conversion to `{precision}` is not known; known: {listed(known)}")
    range_ = job.param("range", "reduced") if precision in _RANGED and not for_qnn else None
    if range_ and range_ not in _RANGES:
        raise Refused("error", f"the range of int8 weights `{range_}` is not known; known: {listed(_RANGES)}")
    sets = calibration.sets(job, tree, inputs) if precision in onnx_static.ACTIVATIONS else []
    group = onnx_nbits.group(model) if precision == "int4" else None
    return _Asked(precision, for_qnn, range_, sets, group)


def _made(model: onnx.ModelProto, asked: _Asked) -> onnx.ModelProto:
    # Before this version each weight had to be an input too, and those that a conversion adds are none.
    model.ir_version = max(model.ir_version, 4)
    if asked.precision == "fp16":
        return _to_fp16(model)
    if asked.group:
        return onnx_nbits.quantised(model, asked.group)
    if asked.is_wide:
        return onnx_static.quantised_for_qnn(model, asked.sets, asked.precision)
    reduced = asked.range == "reduced"
    return onnx_static.quantised(model, asked.sets, reduced) if asked.sets else _to_int8(model, reduced)


def _require(model: onnx.ModelProto, before: onnx.ModelProto, asked: _Asked, facts: dict[str, Any]) -> None:
    """Counts what became of the model, and refuses one that is not of the precision by whose name it would go."""
    precision, census = asked.precision, Census.of(model)
    if asked.is_wide:
        quantised, products = onnx_static.quantised_products(model, precision)
        facts["quantised_products"], facts["products"] = quantised, products
        if not quantised or quantised < _LEAST_SHARE * products:
            reason = f"only {quantised} of the model's {products} products became {precision}"
            raise Refused("unsupported", reason, facts)
    if precision in onnx_static.ACTIVATIONS:
        census.nodes["integer"] = quantised if asked.for_qnn else onnx_static.integer_products(model)
    facts |= census.facts()
    if asked.range == "reduced" and (far := _reach(model, before)) > _REDUCED:
        raise Refused("error", f"BUG: asked for weights within ±{_REDUCED}, ONNX Runtime made one of {far}", facts)
    if precision == "a16w8" and not census.nodes["integer"]:
        version = trees.versions("onnxruntime")["onnxruntime"]
        reason = (
            f"ONNX Runtime {version} has no kernels for 16-bit activations on the CPU: it computes all "
            f"{products} products in fp32, between tensors that are only rounded to 16 bits"
        )
        raise Refused("unsupported", reason, facts)
    held = "int8" if precision in (*_RANGED, "a16w8") else precision
    if wrong := census.lacks(held, _LEAST_SHARE):
        raise Refused("unsupported", wrong, facts)


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
        made = onnx.load(path)
    # What replaces a product within a loop or a branch stands behind what reads it.
    for graph in graphs(made.graph):
        onnx_graph.sort(graph)
    return made


def _reach(model: onnx.ModelProto, before: onnx.ModelProto) -> int:
    """The largest magnitude among the weights that became int8."""

    def weights(of: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
        tensors = (tensor for graph in graphs(of.graph) for tensor in graph.initializer)
        return {tensor.name: tensor for tensor in tensors if tensor.data_type == TensorProto.INT8}

    known = weights(before)
    made = (numpy_helper.to_array(tensor) for name, tensor in weights(model).items() if name not in known)
    return max((int(np.abs(values.astype(np.int16)).max(initial=0)) for values in made), default=0)


def _ports(model: onnx.ModelProto) -> dict[str, list[Any]]:
    """The inputs and outputs of a graph by name and type. Weights that old files list among the inputs are none."""
    weights = {tensor.name for tensor in model.graph.initializer}

    def told(values: Any) -> list[Any]:
        return [(value.name, TensorProto.DataType.Name(value.type.tensor_type.elem_type)) for value in values]

    inputs = [value for value in model.graph.input if value.name not in weights]
    return {"inputs": told(inputs), "outputs": told(model.graph.output)}
