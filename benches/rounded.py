"""Whether rounding alone is why a cell is wrong: the same ONNX file on ONNX Runtime's CPU, with numbers of fewer bits.

    python benches/rounded.py fp16-weights orch-out MODEL…

`orch-out/artefacts` holds the ONNX files that a run kept, with their inputs and references. What is rounded:

    fp16-weights  weights to fp16; products and sums in fp32
    fp16          weights and the result of each node to fp16, sums within a node in fp32; beyond its range: its limits
    fp16-coarse   the same, but each result is off by 2.5 times what rounding does, as those of QNN's emulator are
    int8-weights  weights of products and tables to 256 steps a channel, as nncf does

Then what is chosen is compared: indices, codes, comparisons, whole numbers made of others. Where choices differ, the
model is computed once more, rounded, with the choices of fp32. If that is within the bounds, the choices are the cause.

Needs onnx, onnxruntime, numpy and safetensors, and the bounds from `python/orch_py`. Prints a Markdown table.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, shape_inference
from safetensors.numpy import load_file

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))
from orch_py.judge import judge

Tensors = dict[str, np.ndarray]

FP16_MAX = 65504.0
# What only passes values on, so that its results need no rounding.
MOVES = ("Concat", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose")
MOVES += ("Constant", "ConstantOfShape", "Shape", "Unsqueeze")
# What chooses, and which of its outputs says what.
CHOICES = {"TopK": 1, "Unique": 1, **dict.fromkeys(("ArgMax", "ArgMin", "NonZero", "NonMaxSuppression"), 0)}
CHOICES |= dict.fromkeys(("Round", "Floor", "Ceil", "Sign"), 0)
CHOICES |= dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), 0)
WHOLE = (TensorProto.BOOL, TensorProto.INT8, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8)


def main() -> None:
    kind, out, *names = sys.argv[1:]
    rounded, bounds = KINDS[kind]
    print("| model | inputs | rounded, of its bound | choices that differ | with those of fp32 | the cause |")
    print("|---|---|--:|---|--:|---|")
    for name in names:
        kept = Path(out) / "artefacts" / name
        model = onnx.load(str(kept / "onnx/model.onnx"))
        other = rounded(model)
        for prefix in ("", "control-"):
            given = load_file(kept / "onnx" / f"{prefix}inputs.safetensors")
            expected = load_file(kept / "model" / f"{prefix}reference.safetensors")
            told = row(model, other, given, expected, judge.TOLERANCES[bounds])
            print(f"| {name} | {prefix or 'given-'}inputs | {told} |", flush=True)


def row(model: onnx.ModelProto, other: onnx.ModelProto, given: Tensors, expected: Tensors, bounds: Any) -> str:
    chosen = dict(choices(model))
    exact, found = run(model, given, list(chosen)), run(other, given, list(chosen))
    agrees, far = judged(found, expected, bounds)
    differ = {name for name in chosen if not np.array_equal(exact[name], found[name])}
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(Counter(chosen[name] for name in differ).items()))
    if not differ:
        return f"{far:.2f} |  |  | {'none: it is right' if agrees else 'rounding'}"
    try:
        mended, still = judged(run(with_choices(other, exact, differ), given, []), expected, bounds)
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
        # A choice may be of a length.
        return f"{far:.2f} | {kinds} | other sizes | {'none: it is right' if agrees else 'the choices'}"
    cause = "none: it is right" if agrees else "the choices" if mended else "rounding"
    return f"{far:.2f} | {kinds} | {still:.2f} | {cause}"


def judged(outputs: Tensors, expected: Tensors, bounds: dict[str, float]) -> tuple[bool, float]:
    """Whether all is within the bounds, and the largest error in terms of its own."""
    found = judge.verdict({name: outputs[name] for name in expected}, expected, bounds)
    return found["agrees"], max((each["worst"] or 0.0 for each in found["tensors"].values()), default=0.0)


def run(model: onnx.ModelProto, given: Tensors, more: list[str]) -> Tensors:
    """The model's outputs and these intermediate results."""
    model = copied(model)
    known = {output.name for output in model.graph.output}
    model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in more if name not in known)
    options = onnxruntime.SessionOptions()
    # Otherwise a pair of casts, which is what rounds, is taken out.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    asked = {value.name for value in session.get_inputs()}
    return dict(zip(names, session.run(names, {name: given[name] for name in asked}), strict=True))


def choices(model: onnx.ModelProto) -> list[tuple[str, str]]:
    found = []
    for node in model.graph.node:
        place = CHOICES.get(node.op_type)
        if node.op_type == "Cast" and helper.get_node_attr_value(node, "to") in WHOLE:
            place = 0
        if place is not None and place < len(node.output) and node.output[place]:
            found.append((node.output[place], node.op_type))
    return found


def with_choices(model: onnx.ModelProto, values: Tensors, names: set[str]) -> onnx.ModelProto:
    """These results as constants; the largest values are those at the given indices."""
    model = copied(model)
    nodes = []
    for node in model.graph.node:
        name = next((name for name in node.output if name in names), None)
        if name is None:
            nodes.append(node)
            continue
        model.graph.initializer.append(numpy_helper.from_array(values[name], name))
        if node.op_type == "TopK" and node.output[0]:
            axis = next((each.i for each in node.attribute if each.name == "axis"), -1)
            nodes.append(helper.make_node("GatherElements", [node.input[0], name], [node.output[0]], axis=axis))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def fp16_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    return with_weights(model, lambda _, value: np.where(np.abs(value) > FP16_MAX, value, halved(value)))


def int8_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    axes = channels(model)
    return with_weights(model, lambda name, value: eight_bits(value, axes[name]) if name in axes else value)


def fp16_coarse(model: onnx.ModelProto) -> onnx.ModelProto:
    return fp16(model, 2.5)


def fp16(model: onnx.ModelProto, times: float = 1.0) -> onnx.ModelProto:
    model = with_weights(model, lambda _, value: halved(np.clip(value, -FP16_MAX, FP16_MAX)))
    graph = model.graph
    known = [*shape_inference.infer_shapes(model).graph.value_info, *graph.input, *graph.output]
    floats = {value.name for value in known if value.type.tensor_type.elem_type == TensorProto.FLOAT}
    nodes: list[onnx.NodeProto] = []

    def cast(source: str, target: str) -> None:
        nodes.append(helper.make_node("Cast", [source], [f"{target}:half"], to=TensorProto.FLOAT16))
        rounded = target if times == 1 else f"{target}:rounded"
        nodes.append(helper.make_node("Cast", [f"{target}:half"], [rounded], to=TensorProto.FLOAT))
        if times != 1:
            nodes.append(helper.make_node("Sub", [rounded, source], [f"{target}:error"]))
            nodes.append(helper.make_node("Mul", [f"{target}:error", "times"], [f"{target}:off"]))
            nodes.append(helper.make_node("Add", [source, f"{target}:off"], [target]))

    if times != 1:
        graph.initializer.append(numpy_helper.from_array(np.float32(times), "times"))

    given = {value.name: f"{value.name}:given" for value in graph.input if value.name in floats}
    for name, target in given.items():
        cast(name, target)
    for node in graph.node:
        node = copied(node)
        node.input[:] = [given.get(name, name) for name in node.input]
        made = [] if node.op_type in MOVES else [name for name in node.output if name in floats]
        node.output[:] = [f"{name}:exact" if name in made else name for name in node.output]
        nodes.append(node)
        for name in made:
            cast(f"{name}:exact", name)
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def with_weights(model: onnx.ModelProto, change: Callable[[str, np.ndarray], np.ndarray]) -> onnx.ModelProto:
    model = copied(model)
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            value = change(tensor.name, numpy_helper.to_array(tensor)).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    return model


def halved(value: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return value.astype(np.float16).astype(np.float32)


def eight_bits(value: np.ndarray, axis: int) -> np.ndarray:
    """Each channel in 256 steps from its least value, or 0, to its greatest, or 0."""
    others = tuple(place for place in range(value.ndim) if place != axis)
    low = np.minimum(value.min(axis=others, keepdims=True), 0)
    high = np.maximum(value.max(axis=others, keepdims=True), 0)
    scale = np.where(high > low, (high - low) / 255, 1).astype(np.float32)
    zero = np.clip(np.round(-low / scale), 0, 255)
    return (np.clip(np.round(value / scale) + zero, 0, 255) - zero) * scale


def channels(model: onnx.ModelProto) -> dict[str, int]:
    """Weights of products and tables, and along which axis each has a scale of its own."""
    weights = {tensor.name: tensor for tensor in model.graph.initializer if tensor.data_type == TensorProto.FLOAT}
    made_by = {name: node for node in model.graph.node for name in node.output}
    found: dict[str, int] = {}
    for node in model.graph.node:
        sides = {"MatMul": ((1, -1), (0, -2)), "Conv": ((1, 0),), "ConvTranspose": ((1, 1),), "Gather": ((0, 0),)}
        if node.op_type == "Gemm":
            is_turned = any(each.name == "transB" and each.i for each in node.attribute)
            sides["Gemm"] = ((1, 0 if is_turned else 1),)
        for place, axis in sides.get(node.op_type, ()):
            name, turns = node.input[place], []
            while (source := made_by.get(name)) is not None and source.op_type in ("Transpose", "Identity"):
                turns += [list(each.ints) for each in source.attribute if each.name == "perm"]
                name = source.input[0]
            if name not in weights or len(weights[name].dims) < 2:
                continue
            axis %= len(weights[name].dims)
            for turn in reversed(turns):
                axis = turn[axis]
            if np.abs(numpy_helper.to_array(weights[name])).max(initial=0) < 1e30:
                found.setdefault(name, axis)
    return found


def copied(message: Any) -> Any:
    other = type(message)()
    other.CopyFrom(message)
    return other


# What rounds, and whose bounds hold.
KINDS = {
    "fp16-weights": (fp16_weights, "fp16"),
    "fp16": (fp16, "fp16"),
    "fp16-coarse": (fp16_coarse, "fp16"),
    "int8-weights": (int8_weights, "int8"),
}

if __name__ == "__main__":
    main()
