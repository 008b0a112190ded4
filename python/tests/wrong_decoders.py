"""Changes that make an exported decoder wrong: what its cache holds, or one of its layers. `python FILE CHANGE MODEL`
makes one, for the tests of orch itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


def zeroed(model: onnx.ModelProto) -> None:
    """The past is there, and all zeros."""

    def nodes(name: str, made: str) -> list[Any]:
        return [helper.make_node("Mul", [name, "wrong.zero"], [made])]

    _change_past(model, nodes, {"wrong.zero": np.zeros((), np.float32)})


def shifted(model: onnx.ModelProto) -> None:
    """Each place holds what belongs to the one before."""

    def nodes(name: str, made: str) -> list[Any]:
        longer = helper.make_node("Pad", [name, "wrong.pads"], [made + ".longer"])
        cut = helper.make_node("Slice", [made + ".longer", "wrong.first", "wrong.last", "wrong.axis"], [made])
        return [longer, cut]

    one = {"wrong.pads": [0, 0, 1, 0, 0, 0, 0, 0], "wrong.first": [0], "wrong.last": [-1], "wrong.axis": [2]}
    _change_past(model, nodes, {name: np.array(value, np.int64) for name, value in one.items()})


def without_a_layer(model: onnx.ModelProto) -> None:
    """All matrices of the second half are zeros."""
    matrices = [tensor for tensor in model.graph.initializer if len(tensor.dims) == 2]
    for tensor in matrices[len(matrices) // 2 :]:
        tensor.CopyFrom(numpy_helper.from_array(np.zeros_like(numpy_helper.to_array(tensor)), tensor.name))


def unseen(model: onnx.ModelProto) -> None:
    """What the encoder made is there, and all zeros."""

    def nodes(name: str, made: str) -> list[Any]:
        return [helper.make_node("Mul", [name, "wrong.zero"], [made])]

    _change_past(model, nodes, {"wrong.zero": np.zeros((), np.float32)}, "crossed_key_values.")


def _change_past(
    model: onnx.ModelProto,
    nodes: Callable[[str, str], list[Any]],
    constants: dict[str, Any],
    prefix: str = "past_key_values.",
) -> None:
    """Puts nodes, which are made from the names of their input and output, behind each input with this prefix."""
    graph, first = model.graph, []
    for name in [value.name for value in graph.input if value.name.startswith(prefix)]:
        for node in graph.node:
            node.input[:] = [f"{name}.wrong" if each == name else each for each in node.input]
        first += nodes(name, f"{name}.wrong")
    rest = list(graph.node)
    del graph.node[:]
    graph.node.extend([*first, *rest])
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())


def _changed(change: Callable[[onnx.ModelProto], None]) -> Callable[[Path], None]:
    def changed(path: Path) -> None:
        model = onnx.load(path)
        change(model)
        onnx.save(model, path)

    return changed


CHANGES = {change.__name__: _changed(change) for change in (zeroed, shifted, without_a_layer)}
# Those of a decoder that has an encoder besides.
CHANGES_OF_ENCODER_DECODERS = CHANGES | {"unseen": _changed(unseen)}

if __name__ == "__main__":
    CHANGES_OF_ENCODER_DECODERS[sys.argv[1]](Path(sys.argv[2]))
