"""Whether another expert, box or code was chosen: a node that looks for the largest or the least of scores that agree
with the right ones, and takes another place, because two of them are nearer to each other than rounding.

All that follows from such a choice is another answer, and no fault of an operator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from orch_py.blame import judged
from orch_py.blame.accused import Accused
from orch_py.blame.windows import plain, resumed
from orch_py.judge import judge
from orch_py.worker.protocol import first_line
from orch_py.worker.trees import Tensors

# Operators that give places of scores, and the number of the output that has them.
PLACES = {"ArgMax": 0, "ArgMin": 0, "TopK": 1}


@dataclass(frozen=True)
class Margin:
    """How two choices of one node differ."""

    changed: int
    of: int
    # The largest gap between the right scores of both choices, as a share of their scale.
    gap: float
    # Whether scores that are off by no more than the bounds of a window may change all these choices.
    is_rounding: bool


@dataclass(frozen=True)
class Explained:
    """The choices by which outputs differ, and the outputs of a right run that takes these choices."""

    choices: list[dict[str, Any]]
    outputs: Tensors


def explained(model: onnx.ModelProto, feeds: Tensors, expected: Tensors, accused: Accused) -> Explained | None:
    """The choices that alone make the accused's outputs of a model what they are; None where they do not, or where the
    outputs are right if the scores and the choices are outputs as well."""
    nodes = [node for node in model.graph.node if places_of(node) is not None]
    if not nodes:
        return None
    names = [name for node in nodes for name in (node.input[0], *node.output) if name and name not in feeds]
    try:
        ours = accused.run(_marked(model, names), feeds)[0]
        if judged.difference(ours, expected) is None:
            return None
        return _followed(model, feeds, ours, nodes)
    except Exception as error:  # noqa: BLE001 - runtimes raise errors of many types.
        print(f"the choices cannot be looked at: {first_line(error)}", flush=True)
        return None


def _followed(model: onnx.ModelProto, feeds: Tensors, ours: Tensors, nodes: list[onnx.NodeProto]) -> Explained | None:
    """Takes the accused's choices one after the other in a right run, while each is by less than rounding."""
    found: list[dict[str, Any]] = []
    replaced: Tensors = {}
    marked = _marked(model, [name for node in nodes for name in (node.input[0], *node.output) if name])
    right = plain(marked, feeds)
    for node in nodes:
        places = places_of(node)
        assert places is not None, "BUG: a node without places"
        scores = feeds.get(node.input[0], right.get(node.input[0]))
        if scores is None:
            return None
        if np.array_equal(right[places], ours[places]):
            continue
        given = feeds.get(node.input[0], ours.get(node.input[0]))
        if given is None or judged.difference({"": given}, {"": scores}) is not None:
            return None
        margin = margin_of(node, scores, right[places], ours[places])
        if margin is None or not margin.is_rounding:
            return None
        found.append(
            {
                "operator": node.op_type,
                "name": node.name,
                "changed": margin.changed,
                "of": margin.of,
                "margin": margin.gap,
            }
        )
        replaced[places] = ours[places]
        if node.op_type == "TopK" and node.output[0]:
            replaced[node.output[0]] = np.take_along_axis(scores, ours[places], _axis(node, -1))
        right = {**right, **resumed(marked, feeds, replaced)}
    outputs = {name.name: right[name.name] for name in model.graph.output if name.name in right}
    if not found or judged.difference(ours, outputs) is not None:
        return None
    return Explained(found, outputs)


def places_of(node: onnx.NodeProto) -> str | None:
    """The output of a node that has places of its scores; None of other nodes."""
    at = PLACES.get(node.op_type)
    return node.output[at] if at is not None and at < len(node.output) and node.output[at] else None


def margin_of(node: onnx.NodeProto, scores: np.ndarray, right: np.ndarray, other: np.ndarray) -> Margin | None:
    """How another choice of a node differs from the right one; None where it has another shape."""
    if right.shape != other.shape or scores.dtype.kind != "f" or not right.size:
        return None
    axis = _axis(node, -1 if node.op_type == "TopK" else 0)
    keeps = node.op_type == "TopK" or _attribute(node, "keepdims", 1)
    one, two = (places if keeps else np.expand_dims(places, axis) for places in (right, other))
    of_right = np.take_along_axis(scores, one, axis).astype(np.float64)
    of_other = np.take_along_axis(scores, two, axis).astype(np.float64)
    is_same = one == two
    with np.errstate(invalid="ignore"):
        gaps = np.where(is_same | (of_right == of_other), 0.0, np.abs(of_right - of_other))
    finite = scores[np.isfinite(scores)].astype(np.float64)
    scale = judge.scale_of(np.abs(finite)) if finite.size else 1.0
    bounds = judged.HALF if scores.dtype == np.float16 else judged.SINGLE
    # Both scores may be off by the bounds.
    may_be = 2 * (bounds["atol"] * scale + bounds["rtol"] * np.abs(of_right))
    return Margin(int((~is_same).sum()), right.size, float(gaps.max() / scale), bool((gaps <= may_be).all()))


def _axis(node: onnx.NodeProto, default: int) -> int:
    return _attribute(node, "axis", default)


def _attribute(node: onnx.NodeProto, name: str, default: int) -> int:
    return next((each.i for each in node.attribute if each.name == name), default)


def _marked(model: onnx.ModelProto, names: list[str]) -> onnx.ModelProto:
    """The model with these values as outputs too."""
    marked = onnx.ModelProto()
    marked.CopyFrom(model)
    known = {value.name for value in (*marked.graph.output, *marked.graph.input, *marked.graph.initializer)}
    for name in dict.fromkeys(names):
        if name not in known:
            marked.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    return marked
