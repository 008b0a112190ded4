"""What rounding alone does to the outputs of a model, to be compared with what a case is off by.

The weights of the fp32 graph are shaken by what the precision rounds them by, with several seeds, and the graph is
computed without optimisers. An error of at most FACTOR times the largest that this makes is rounding's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from orch_py.blame import choices as choosing
from orch_py.blame import judged
from orch_py.blame.windows import Graph, Window, has_files, open_session, plain, shapes_of
from orch_py.judge import judge
from orch_py.worker.protocol import Refused, first_line
from orch_py.worker.trees import Tensors

# An error beyond so many times the noise is a fault. Of the zoo's cells on OpenVINO that rounding explains, the largest
# ratio is 1.07 (84 cells), and of those with a known fault the least is 3.4.
FACTOR = 2.0
SEEDS = 8
# The largest relative error of a weight by its precision: half a unit in the last place.
_RELATIVE = {"fp16": 2.0**-11, "bf16": 2.0**-9}
# The steps between the least and the greatest weight of a channel.
_STEPS = {"int8": 255}
# The input of an operator that is a table or a matrix of weights, and the axis of its channels.
_CHANNELS = {"Conv": (1, 0), "ConvTranspose": (1, 1), "Gather": (0, 0), "MatMul": (1, -1)}
# A chosen place, code or size: a shaken weight either changes it or does nothing to it.
_CHOICES = {"ArgMax": 0, "ArgMin": 0, "NonMaxSuppression": 0, "NonZero": 0, "TopK": 1}
# Values that rounding moves by less than this share of their scale say nothing about an operator that amplifies.
_TINY = 1e-7


# No right window of so few nodes is off by its own rounding beyond the bounds of a window.
_FEW_NODES = 8
# The relative error of inputs and weights that stands for the rounding of all nodes in single precision.
_SINGLE = np.float32(2.0**-22)
# An error of at most so many times the one that this makes is single precision's.
_SINGLE_FACTOR = 4.0


def is_single_precision(window: Window, ours: Tensors) -> bool:
    """Whether a window of many nodes amplifies the rounding of single precision to an error such as that of `ours`."""
    # Constants in files are those of a window that is too large to be moved.
    if len(window.nodes) <= _FEW_NODES or has_files(window.model):
        return False
    noises = []
    for seed in range(SEEDS):
        random = np.random.default_rng(seed)
        model = onnx.ModelProto()
        model.CopyFrom(window.model)
        for tensor in model.graph.initializer:
            if tensor.data_type == TensorProto.FLOAT:
                value = _moved_at_random(numpy_helper.to_array(tensor), random)
                tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
        feeds = {name: _moved_at_random(value, random) for name, value in window.feeds.items()}
        try:
            noises.append(judged.error(plain(model, feeds), window.expected))
        except Exception as error:  # noqa: BLE001 - ONNX Runtime raises errors of many types.
            print(f"a window does not run with moved values: {first_line(error)}", flush=True)
            return False
    return judged.error(ours, window.expected) <= _SINGLE_FACTOR * max(noises)


def _moved_at_random(value: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Values of single precision, more than one, each off by some units in the last place; all others as they are."""
    if value.dtype != np.float32 or value.size < 2:
        return value
    signs = random.choice(np.array([-1, 1], np.float32), value.shape)
    moved: np.ndarray = value * (1 + signs * _SINGLE)
    return moved


def is_known(precision: str) -> bool:
    return precision in _RELATIVE or precision in _STEPS


def compare(graph: Graph, precision: str, ours: Tensors, right: Tensors, tolerance: dict[str, float]) -> dict[str, Any]:
    """How the error of a case's outputs compares with what rounding makes of the same graph on the same inputs.

    `ours` are the outputs of the case, `right` those of the reference. The output that counts is the wrong one with the
    largest ratio. None stands for infinity: an error or a noise is that where a shape is another, and a ratio where
    rounding does nothing to the output.
    """
    choices = _choices(graph)
    noises: dict[str, float] = dict.fromkeys(graph.outputs, 0.0)
    margins: dict[str, float] = {}
    for seed in range(SEEDS):
        try:
            values = _values(_shaken(graph.model, precision, seed), graph.inputs, [*graph.outputs, *choices])
        except Exception as error:  # ONNX Runtime raises errors of many types.
            why = f"the graph does not run with rounded weights: {first_line(error)}"
            raise Refused("unsupported", why) from error
        for name in graph.outputs:
            noises[name] = max(noises[name], judged.error({name: values[name]}, {name: graph.values[name]}))
        for name, node in choices.items():
            if not np.array_equal(values[name], graph.values[name]):
                margins[name] = max(margins.get(name, 0.0), _margin(graph, node, values[name]))
    verdict = judge.verdict(ours, right, tolerance)
    wrong = [name for name, found in verdict["tensors"].items() if found["wrong"] and name in noises] or list(noises)
    errors = {name: judged.error({name: ours[name]}, {name: right[name]}) for name in wrong if name in ours}
    ratios = {name: _ratio(error, noises[name]) for name, error in errors.items()}
    output = max(ratios, key=ratios.__getitem__)
    found: dict[str, Any] = {
        "precision": precision,
        "output": output,
        "observed": _finite(errors[output]),
        "noise": _finite(noises[output]),
        "ratio": _finite(ratios[output]),
        "seeds": SEEDS,
    }
    if (amplifier := _amplifier(graph, precision)) is not None:
        found["amplifier"] = amplifier
    if margins:
        found["choices"] = [_named(node, margins[name]) for name, node in choices.items() if name in margins]
    return found


def _ratio(error: float, noise: float) -> float:
    if np.isinf(noise):
        # Rounding changes a shape, or makes what is no number.
        return 1.0 if np.isinf(error) else 0.0
    return error / noise if noise > 0 else float("inf")


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return float(value) if np.isfinite(value) else None


def ratio(found: dict[str, Any]) -> float:
    """The error of a case by what rounding makes; infinite where rounding does nothing to the output."""
    return float("inf") if found["ratio"] is None else float(found["ratio"])


def is_rounding(found: dict[str, Any]) -> bool:
    return ratio(found) <= FACTOR


def _margin(graph: Graph, node: onnx.NodeProto, other: np.ndarray) -> float:
    """The largest gap between the right scores of two choices, as a share of their scale; 0 where none is known."""
    scores, places = graph.values.get(node.input[0]), choosing.places_of(node)
    if scores is None or places is None:
        return 0.0
    margin = choosing.margin_of(node, scores, graph.values[places], other)
    return 0.0 if margin is None else margin.gap


def _named(node: onnx.NodeProto, margin: float) -> str:
    by = f" by a margin of {margin:.1e} of the scores' scale" if margin > 0 else ""
    return f"{node.op_type} {node.name}{by}"


def _choices(graph: Graph) -> dict[str, onnx.NodeProto]:
    """The values that are choices, each with its node."""
    found = {}
    for node in graph.nodes:
        place = _CHOICES.get(node.op_type)
        if place is not None and place < len(node.output) and node.output[place] in graph.values:
            found[node.output[place]] = node
    return found


def _values(model: onnx.ModelProto, inputs: Tensors, names: list[str]) -> Tensors:
    """These values of a graph, which need not be outputs of it."""
    known = {value.name for value in model.graph.output}
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names if name not in known)
    session = open_session(model, optimised=False)
    taken = {value.name for value in session.get_inputs()}
    values = session.run(names, {name: value for name, value in inputs.items() if name in taken})
    return dict(zip(names, map(np.asarray, values), strict=True))


def _amplifier(graph: Graph, precision: str) -> dict[str, Any] | None:
    """The node whose output rounding moves most, compared with its inputs; None where none amplifies."""
    shaken = Graph(_shaken(graph.model, precision, 0), graph.inputs)
    moved = {name: _moved(value, shaken.values.get(name)) for name, value in graph.values.items()}
    worst, times = None, 1.0
    for node in graph.nodes:
        before = max((moved.get(name) or 0.0 for name in node.input), default=0.0)
        after = max((moved.get(name) or 0.0 for name in node.output), default=0.0)
        if before > _TINY and np.isfinite(after) and after / before > times:
            worst, times = node, after / before
    return None if worst is None else {"operator": worst.op_type, "name": worst.name, "times": times}


def _moved(value: np.ndarray, other: np.ndarray | None) -> float | None:
    """By which share of its scale a value has moved; infinite if its shape has; None of what is no number."""
    if other is None or value.dtype.kind not in "fiub" or not value.size:
        return None
    if value.shape != other.shape:
        return float("inf")
    finite = np.abs(value.astype(np.float64))
    finite = finite[np.isfinite(finite)]
    scale = float(finite.max()) if finite.size else 0.0
    error = judged.error({"": other.astype(np.float64)}, {"": value.astype(np.float64)})
    return error / scale if scale > 0 else None


def _shaken(model: onnx.ModelProto, precision: str, seed: int) -> onnx.ModelProto:
    """The model with weights that are off by the rounding of the precision.

    Single numbers stay, since they are constants of formulas, which a runtime keeps, and so do sizes.
    """
    random = np.random.default_rng(seed)
    other = onnx.ModelProto()
    other.CopyFrom(model)
    sizes = {name for node in other.graph.node for name in shapes_of(node)}
    by = _by_relative(precision) if precision in _RELATIVE else _by_steps(other, _STEPS[precision])
    for tensor in other.graph.initializer:
        if tensor.data_type != TensorProto.FLOAT:
            continue
        value = numpy_helper.to_array(tensor)
        error = by(tensor.name, value) if value.size > 1 and tensor.name not in sizes else None
        if error is not None:
            signs = random.choice(np.array([-1, 1], np.float32), value.shape)
            tensor.CopyFrom(numpy_helper.from_array((value + signs * error).astype(np.float32), tensor.name))
    return other


def _by_relative(precision: str) -> Callable[[str, np.ndarray], np.ndarray | None]:
    kept = 11 if precision == "fp16" else 8

    def by(_: str, value: np.ndarray) -> np.ndarray:
        # What the precision holds exactly, such as places and other small whole numbers, is not rounded.
        mantissa = np.ldexp(np.frexp(value)[0], kept)
        error: np.ndarray = np.where(mantissa == np.rint(mantissa), 0, np.abs(value) * np.float32(_RELATIVE[precision]))
        return error

    return by


def _by_steps(model: onnx.ModelProto, steps: int) -> Callable[[str, np.ndarray], np.ndarray | None]:
    axes: dict[str, int] = {}
    for node in model.graph.node:
        place, axis = _CHANNELS.get(node.op_type, (1, -1) if node.op_type == "Gemm" else (None, 0))
        if place is None or place >= len(node.input):
            continue
        if node.op_type == "Gemm" and any(each.name == "transB" and each.i for each in node.attribute):
            axis = 0
        axes[node.input[place]] = axis

    def by(name: str, value: np.ndarray) -> np.ndarray | None:
        if name not in axes or value.ndim < 2:
            return None
        channel = axes[name] % value.ndim
        others = tuple(place for place in range(value.ndim) if place != channel)
        low = np.minimum(value.min(axis=others, keepdims=True), 0)
        high = np.maximum(value.max(axis=others, keepdims=True), 0)
        return np.broadcast_to((high - low) / np.float32(2 * steps), value.shape)

    return by
