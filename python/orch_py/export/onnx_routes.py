"""The exporters that can turn a model into ONNX. Each takes the model and its named inputs, and gives the graph back
with the inputs that it takes. Whether the graph is right, they do not know.

Weights lie in files of a folder that each is given, and not in the graph (`onnx_weights`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import torch

from orch_py.export import onnx_weights
from orch_py.generate.torch_model import Named, Positional, Traced, require_alike, traceable
from orch_py.stand_ins.onnx_equals import Equals

# Model, inputs, the control's inputs, outputs, opset and the folder for weights; what is made is a graph
# (`onnx.ModelProto`), and its inputs have the graph's own names.
Route = Callable[[Any, Named, Named | None, list[str], int, Path], Traced]
# What an exporter writes, and where `onnx_weights.detach` puts what the exporter left in messages.
EXPORTED = "exported.onnx"
_DETACHED = "detached.data"


def legacy(model: Any, inputs: Named, control: Named | None, outputs: list[str], opset: int, folder: Path) -> Traced:
    """`torch.onnx.export(dynamo=False)`: traces; fast; bakes in every branch that Python took."""

    def taken(name: str) -> str:
        """The exporter would number an input that has an output's name."""
        return f"input.{name}" if name in outputs else name

    def trace(tensors: Named, fixed: dict[str, Any]) -> onnx.ModelProto:
        with Equals():
            torch.onnx.export(
                Positional(model, list(tensors), outputs, fixed).eval(),
                tuple(tensors.values()),
                str(folder / EXPORTED),
                dynamo=False,
                input_names=[taken(name) for name in tensors],
                output_names=outputs,
                opset_version=opset,
                do_constant_folding=True,
            )
        return read_exported(folder)

    traced = traceable(model, inputs, control, trace)
    given = {taken(name): value for name, value in traced.inputs.items()}
    other = traced.control and {taken(name): value for name, value in traced.control.items()}
    return replace(traced, inputs=given, control=other)


def read_exported(folder: Path) -> onnx.ModelProto:
    """The graph that an exporter wrote into the folder, with its weights in files there."""
    return onnx_weights.detach(onnx_weights.load(folder / EXPORTED), folder / _DETACHED)


def dynamo(model: Any, inputs: Named, control: Named | None, outputs: list[str], opset: int, folder: Path) -> Traced:
    """`torch.onnx.export(dynamo=True)`, which is based on `torch.export`."""
    program = torch.onnx.export(
        Positional(model, list(inputs), outputs).eval(),
        tuple(inputs.values()),
        dynamo=True,
        input_names=list(inputs),
        output_names=outputs,
        opset_version=opset,
        optimize=True,
        verbose=False,
    )
    assert program is not None, "BUG: a dynamo export without a program"
    program.save(folder / EXPORTED, external_data=True)
    return Traced(read_exported(folder), inputs, control)


def transformers(
    model: Any, inputs: Named, control: Named | None, outputs: list[str], opset: int, folder: Path
) -> Traced:
    """`transformers.exporters.OnnxExporter`: `torch.export` with patches for many models; may add inputs of its own."""
    from transformers.exporters.exporter_onnx import (  # type: ignore[attr-defined]
        OnnxConfig,
        OnnxExporter,
    )
    from transformers.exporters.utils import get_leaf_tensors, prepare_for_export

    # The exporter prepares a copy and keeps it to itself, but the values it adds are needed here.
    model, prepared, _ = prepare_for_export(model, dict(copy.deepcopy(inputs)))
    others = None
    if control is not None:
        others = get_leaf_tensors(prepare_for_export(model, dict(copy.deepcopy(control)))[1])
    program = OnnxExporter().export(model, prepared, OnnxConfig(opset_version=opset, optimize=True)).program

    import onnx_ir

    onnx_ir.save(program, folder / EXPORTED, external_data=f"{EXPORTED}.data")
    proto = read_exported(folder)
    leaves = get_leaf_tensors(prepared)
    names = {}
    for value in proto.graph.input:
        # An input that has an output's name comes out with this prefix.
        name = value.name.removeprefix("input.")
        if name not in leaves:
            raise RuntimeError(f"the graph takes `{value.name}`, for which the exporter shows no value")
        names[value.name] = name
    given = {graph_name: leaves[name] for graph_name, name in names.items()}
    if others is None:
        return Traced(proto, given, None)
    require_alike({name: leaves[name] for name in names.values()}, others)
    return Traced(proto, given, {graph_name: others[name] for graph_name, name in names.items()})


ROUTES: dict[str, Route] = {"legacy": legacy, "dynamo": dynamo, "transformers": transformers}
