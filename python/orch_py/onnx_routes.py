"""The exporters that can turn a model into ONNX. Each takes the model and its named inputs, and gives the graph back
with the inputs that it takes. Whether the graph is right, they do not know.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
import torch

from orch_py.torch_model import Named, Positional, traceable

# Graph, and the values of its inputs by the graph's own names.
Exported = tuple[onnx.ModelProto, Named]
Route = Callable[[Any, Named, list[str], int], Exported]


def legacy(model: Any, inputs: Named, outputs: list[str], opset: int) -> Exported:
    """`torch.onnx.export(dynamo=False)`: traces; fast; bakes in every branch that Python took."""

    def trace(tensors: Named, fixed: dict[str, Any]) -> onnx.ModelProto:
        with tempfile.TemporaryDirectory() as folder, _fixed_shapes():
            path = Path(folder) / "model.onnx"
            torch.onnx.export(
                Positional(model, list(tensors), outputs, fixed).eval(),
                tuple(tensors.values()),
                str(path),
                dynamo=False,
                input_names=list(tensors),
                output_names=outputs,
                opset_version=opset,
                do_constant_folding=True,
            )
            # Read whole while the folder lives: a large model's weights lie in files beside it.
            return onnx.load(path)

    return traceable(model, inputs, trace)


@contextmanager
def _fixed_shapes() -> Iterator[None]:
    """Replaces `masked_scatter`, which puts an image's features in the place of its tokens: the legacy exporter makes
    it of NonZero, whose output has no fixed shape, and no NPU compiles that."""
    original = torch.Tensor.masked_scatter

    def masked_scatter(self: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        mask = mask.expand(self.shape)
        place = mask.reshape(-1).to(torch.int64).cumsum(0) - 1
        return torch.where(mask, source.reshape(-1)[place.clamp(min=0)].reshape(self.shape), self)

    torch.Tensor.masked_scatter = masked_scatter  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        torch.Tensor.masked_scatter = original  # type: ignore[method-assign]


def dynamo(model: Any, inputs: Named, outputs: list[str], opset: int) -> Exported:
    """`torch.onnx.export(dynamo=True)`: goes by `torch.export`."""
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
    return program.model_proto, inputs


def transformers(model: Any, inputs: Named, outputs: list[str], opset: int) -> Exported:
    """`transformers.exporters.OnnxExporter`: `torch.export` with patches for many models; may add inputs of its own."""
    from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter
    from transformers.exporters.utils import get_leaf_tensors, prepare_for_export

    # The exporter prepares a copy and keeps it to itself, but the values it adds are needed here.
    model, prepared, _ = prepare_for_export(model, dict(copy.deepcopy(inputs)))
    program = OnnxExporter().export(model, prepared, OnnxConfig(opset_version=opset, optimize=True)).program

    import onnx_ir

    proto = onnx_ir.to_proto(program)
    leaves = get_leaf_tensors(prepared)
    given = {}
    for value in proto.graph.input:
        # An input that has an output's name comes out with this prefix.
        name = value.name.removeprefix("input.")
        if name not in leaves:
            raise RuntimeError(f"the graph takes `{value.name}`, for which the exporter shows no value")
        given[value.name] = leaves[name]
    return proto, given


ROUTES: dict[str, Route] = {"legacy": legacy, "dynamo": dynamo, "transformers": transformers}
