"""Makes the OpenVINO artefact (IR) from an ONNX artefact: fp32, weights of 16, 8 or 4 bits, or int8 throughout.

Imports openvino, and nncf for whole numbers of any kind; never torch. One conversion a process, because the second one
in a process numbers its nodes differently: the server forks for each job, so that holds.
"""

from __future__ import annotations

import math
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import openvino
from orch_py.export import decoder_tree
from orch_py.export.openvino_words import telling
from orch_py.inputs import calibration
from orch_py.worker import trees
from orch_py.worker.protocol import Job, Output, Refused, is_out_of_memory, listed

PRECISIONS = ("fp32", "fp16", "int8", "int8-static", "int4")
# How far int8 weights reach: nncf's word, and what is told of it.
_RANGES = {
    "reduced": ("ENABLE", " in a reduced range (±64: exact on every CPU)"),
    "full": ("DISABLE", " (CPUs without VNNI saturate)"),
}
_REDUCED = 64
_PRODUCTS = ("MatMul", "Convolution", "ConvolutionBackpropData", "GroupConvolution", "GroupConvolutionBackpropData")
# Of 4-bit weights, those that share a scale: the most, and the least where a width is no multiple of that.
_GROUP, _LEAST_GROUP = 32, 16
# The least share of the weights that must be of 4 bits: less is another precision under its name.
_LEAST_SHARE = 0.5
# What stands between stored weights and their product.
_BETWEEN = ("Convert", "Subtract", "Multiply", "Reshape", "Transpose", "Squeeze", "Unsqueeze")
_INT8_TYPES = ("i8", "u8")
_TYPES = {"i4": "int4", "u4": "int4", "i8": "int8", "u8": "int8", "f32": "fp32", "f16": "fp16"}
# How the text of an error begins that OpenVINO itself raised: a check in its sources, and the place.
_OWN_WORDS = ("Check '", "Exception from ")


def run(job: Job) -> Output:
    precision = job.required("precision")
    if precision not in PRECISIONS:
        raise Refused("unsupported", f"OpenVINO conversion to `{precision}` is not known; known: {listed(PRECISIONS)}")
    tree = job.tree("onnx")
    manifest = trees.read_manifest(tree)
    packages = ["openvino"]
    facts: dict[str, Any] = {"seconds": {}}

    started = time.perf_counter()
    shapes = trees.shapes(tree, trees.INPUTS)
    # The sizes of the inputs that there are: left open, they keep whole operators from being converted.
    given = {name: openvino.PartialShape(shapes[name]) for name in manifest["inputs"]}
    model = _converted(tree / "model.onnx", given)
    facts["seconds"]["convert"] = time.perf_counter() - started
    if precision in _COMPRESSED:
        packages.append("nncf")
        started = time.perf_counter()
        model = _COMPRESSED[precision](model, facts)
        facts["seconds"]["compress"] = time.perf_counter() - started
    if precision == "int8-static":
        packages.append("nncf")
        started = time.perf_counter()
        model = _calibrated(model, job, calibration.sets(job, tree, _taken(model, manifest["inputs"], shapes)), facts)
        facts["seconds"]["quantise"] = time.perf_counter() - started
    _save(model, job.out, precision)

    inputs = _taken(model, manifest["inputs"], shapes)
    _require_names(job.out / "model.xml", inputs, manifest["outputs"])

    def decoder(source: Path, target: Path, about: dict[str, Any]) -> dict[str, Any]:
        return _decoder(source, target, about, precision, shapes)

    why_not = "what ranges of activations are measured on has one length only" if precision == "int8-static" else None
    decoders = decoder_tree.converted(tree, job.out, manifest, decoder, why_not)
    trees.copy_inputs(tree, job.out, inputs)
    versions = trees.versions(*packages)
    trees.write_manifest(
        job.out,
        {
            "format": "openvino",
            "inputs": inputs,
            "outputs": manifest["outputs"],
            "route": manifest.get("route"),
            "opset": manifest.get("opset"),
            "precision": precision,
            **{key: facts[key] for key in ("scheme", "range") if key in facts},
            **decoders,
            "versions": manifest.get("versions", {}) | versions,
        },
    )
    facts["versions"] = versions | {"openvino_build": openvino.get_version()}
    return Output(facts=facts)


def _decoder(
    source: Path, target: Path, about: dict[str, Any], precision: str, given: dict[str, list[int]]
) -> dict[str, Any]:
    """The decoder with a cache, of any length of the ids and the past; or its encoder, of the shapes `given`."""
    if "cache" not in about:
        sizes = {name: given[name] for name in about["inputs"]}
        shapes = {name: openvino.PartialShape(size) for name, size in sizes.items()}
    else:
        past = {each["input"]: each["shape"] for each in about["cache"]}
        constants = {each["input"]: each["shape"] for each in about.get("constants", [])}
        rows = about["cache"][0]["shape"][0]
        sizes = {name: [rows, 1] for name in about["inputs"]} | past | constants
        shapes = {name: openvino.PartialShape([rows, -1]) for name in about["inputs"]}
        shapes |= {name: openvino.PartialShape([*shape[:2], -1, shape[3]]) for name, shape in past.items()}
        shapes |= {name: openvino.PartialShape(shape) for name, shape in constants.items()}
    model = _converted(source / "model.onnx", shapes)
    if precision in _COMPRESSED:
        model = _COMPRESSED[precision](model, {})
    _save(model, target, precision)
    inputs = _taken(model, about["inputs"], sizes)
    _require_names(target / "model.xml", inputs, about["outputs"])
    return {"format": "openvino", "inputs": inputs, "precision": precision}


def _save(model: openvino.Model, out: Path, precision: str) -> None:
    openvino.save_model(model, out / "model.xml", compress_to_fp16=precision == "fp16")
    _strip(out / "model.xml")


def _converted(path: Path, shapes: dict[str, openvino.PartialShape]) -> openvino.Model:
    """What OpenVINO says of a model that it does not take is its refusal; any other error is orch's own affair."""
    if not path.is_file():
        raise Refused("error", f"`{path}` is missing")
    try:
        return openvino.convert_model(path, input=shapes or None)
    except Exception as error:
        text = str(error)
        is_its_own = type(error).__module__.startswith("openvino") or text.startswith(_OWN_WORDS)
        if not is_its_own or is_out_of_memory(error):
            raise
        reason = f"OpenVINO {trees.versions('openvino')['openvino']} does not convert the model: {telling(text)}"
        raise Refused("unsupported", reason) from error


def _compress(model: openvino.Model, facts: dict[str, Any]) -> openvino.Model:
    import nncf

    before = _int8_constants(model)
    model = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_ASYM)
    facts["compressed_weights"] = _int8_constants(model) - before
    if facts["compressed_weights"] <= 0:
        raise Refused("unsupported", "nncf found no weight to compress, so the int8 model would be the fp32 one", facts)
    return model


def _in_four_bits(model: openvino.Model, facts: dict[str, Any]) -> openvino.Model:
    """Weights uint4 in groups; those of embeddings and of the last product, whose errors nothing evens out, uint8.
    Activations and products stay fp32."""
    import nncf
    from nncf.quantization.advanced_parameters import AdvancedCompressionParameters, GroupSizeFallbackMode

    fallback = AdvancedCompressionParameters(
        group_size_fallback_mode=GroupSizeFallbackMode.ADJUST, min_adjusted_group_size=_LEAST_GROUP
    )
    mode = nncf.CompressWeightsMode.INT4_ASYM
    model = nncf.compress_weights(model, mode=mode, group_size=_GROUP, advanced_parameters=fallback)
    facts["scheme"] = (
        f"weights uint4 in groups of {_GROUP}, or {_LEAST_GROUP} where that divides the width, each with its scale and "
        "zero point; of embeddings and the last product uint8; activations and products fp32"
    )
    weights: Counter[str] = Counter()
    products: Counter[str] = Counter()
    for constant in _multiplied(model):
        kind = _TYPES.get(constant.get_element_type().get_type_name(), "other")
        weights[kind] += math.prod(constant.get_output_shape(0))
        products[kind] += 1
    facts["weights"], facts["nodes"] = dict(weights), dict(products)
    if not weights["int4"] or weights["int4"] < _LEAST_SHARE * weights.total():
        reason = f"only {weights['int4']} of {weights.total()} weights that the model multiplies by became int4"
        raise Refused("unsupported", reason, facts)
    return model


# Precisions of weights alone, and what makes them.
_COMPRESSED = {"int8": _compress, "int4": _in_four_bits}


def _calibrated(model: openvino.Model, job: Job, sets: list[trees.Tensors], facts: dict[str, Any]) -> openvino.Model:
    """Weights and activations int8, around products alone: of a sum with a mask of fp32's lowest number, nothing is
    left in 8 bits. Without VNNI the CPU's sums of products saturate in 16 bits, so in the reduced range the weights
    take half of what they could."""
    import nncf
    from nncf.quantization.advanced_parameters import AdvancedQuantizationParameters, OverflowFix

    range_ = job.param("range", "reduced")
    if range_ not in _RANGES:
        raise Refused("error", f"the range of int8 weights `{range_}` is not known; known: {listed(_RANGES)}")
    fix, told = _RANGES[range_]
    others = {node.get_type_name() for node in model.get_ops()} - {*_PRODUCTS, "Constant", "Parameter", "Result"}
    model = nncf.quantize(
        model,
        # By place, because an input may have lost its name.
        nncf.Dataset([list(tensors.values()) for tensors in sets]),
        subset_size=len(sets),
        ignored_scope=nncf.IgnoredScope(types=sorted(others), validate=False),
        advanced_parameters=AdvancedQuantizationParameters(overflow_fix=OverflowFix[fix]),
    )
    facts["scheme"] = (
        f"static: weights int8{told}, activations int8 by tensor; {calibration.told(job, len(sets))}; products alone"
    )
    facts["range"] = range_
    facts["quantised_weights"] = _int8_constants(model)
    facts["quantised_activations"] = sum(node.get_type_name() == "FakeQuantize" for node in model.get_ops())
    if range_ == "reduced" and (far := _reach(model)) > _REDUCED:
        # Seen of Bamba; why is not known. Where the CPU has VNNI, the full range is right.
        remedy = "`int8_range: full` is for CPUs with VNNI"
        reason = f"nncf was asked for weights within ±{_REDUCED} and made one of {far}; {remedy}"
        raise Refused("unsupported", reason, facts)
    if not facts["quantised_weights"] or not facts["quantised_activations"]:
        raise Refused("unsupported", "nncf found nothing to quantise, so the int8 model would be the fp32 one", facts)
    return model


def _reach(model: openvino.Model) -> int:
    """The largest magnitude among the int8 weights that are multiplied; a table that is only looked up is not."""
    weights = [node.data for node in _multiplied(model) if node.get_element_type().get_type_name() == "i8"]
    return max((int(np.abs(values.astype(np.int16)).max(initial=0)) for values in weights), default=0)


def _multiplied(model: openvino.Model) -> Iterator[Any]:
    """The constants that products multiply by, once for each product."""
    for product in (node for node in model.get_ops() if node.get_type_name() in _PRODUCTS):
        for place in (0, 1):
            node = product.input_value(place).get_node()
            while node.get_type_name() in _BETWEEN:
                node = node.input_value(0).get_node()
            if node.get_type_name() == "Constant":
                yield node


def _int8_constants(model: openvino.Model) -> int:
    """Weight matrices held in 8 bits; zero points are 8-bit constants too, but hold one value a channel."""
    return sum(
        1
        for node in model.get_ops()
        if node.get_type_name() == "Constant"
        and node.get_element_type().get_type_name() in _INT8_TYPES
        and sum(size > 1 for size in node.get_output_shape(0)) > 1
    )


def _strip(path: Path) -> None:
    """Removes the notes on build, options and file names; what is left is the network."""
    document = ElementTree.parse(path)
    root = document.getroot()
    for note in [child for child in root if child.tag in ("rt_info", "meta_data")]:
        root.remove(note)
    root.set("name", "main")
    document.write(path, encoding="utf-8", xml_declaration=True)


def _taken(model: openvino.Model, names: list[str], shapes: dict[str, list[int]]) -> list[str]:
    """The names of the inputs that the model takes, in its own order.

    An input that nothing depends on is gone from it. One that is an output too has only the output's name left.
    """

    def own(port: Any) -> str | None:
        return next((name for name in names if name in port.get_names()), None)

    ports = [own(port) for port in model.inputs]
    rest = [name for name in names if name not in ports]
    if len(rest) == ports.count(None):
        ports = [port or rest.pop(0) for port in ports]
    unknown = [sorted(port.get_names()) for port, name in zip(model.inputs, ports, strict=True) if not name]
    if unknown:
        raise Refused("error", f"the converted model has the inputs {unknown}, and the ONNX model names {names}")
    found = [name for name in ports if name]
    for name, port in zip(found, model.inputs, strict=True):
        if not port.get_partial_shape().compatible(openvino.PartialShape(shapes[name])):
            shape = port.get_partial_shape()
            raise Refused("error", f"the input `{name}` is {shapes[name]}, and the converted model takes {shape}")
    return found


def _require_names(path: Path, inputs: list[str], outputs: list[str]) -> None:
    """A runtime finds tensors by name, so a conversion that lost one must not be published."""
    model = openvino.Core().read_model(path)
    for kind, ports, names in (("inputs", model.inputs, inputs), ("outputs", model.outputs, outputs)):
        found = [port.get_names() for port in ports]
        # An input without its own name is found by its place, if it bears no other input's.
        lost = [
            name
            for name, known in zip(names, found, strict=False)
            if name not in known and (kind == "outputs" or known.intersection(names))
        ]
        if lost or len(found) != len(names):
            raise Refused("error", f"the converted model has the {kind} {found}, the ONNX model {names}")
