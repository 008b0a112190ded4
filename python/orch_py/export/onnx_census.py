"""What a graph holds in which type: the weights by number of values, the nodes by what they give.

A model is called by its precision only if this says so. Needs onnx alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import onnx
from onnx import TensorProto

from orch_py.export.onnx_messages import subgraphs

_TYPES = {
    TensorProto.FLOAT: "fp32",
    TensorProto.FLOAT16: "fp16",
    TensorProto.INT8: "int8",
    TensorProto.UINT8: "int8",
}
# They multiply integers; all that is quantised besides is only stored so.
_INTEGER = ("MatMulInteger", "ConvInteger", "QGemm", "QAttention", "DynamicQuantizeLSTM")
# It multiplies by weights of a few bits, in groups that share a scale.
_IN_GROUPS = "MatMulNBits"


@dataclass
class Census:
    weights: Counter[str] = field(default_factory=Counter)
    """Values of initializers and constants by type; integers of other widths (shapes, indices) are left out."""
    nodes: Counter[str] = field(default_factory=Counter)
    """Nodes by the type of what they give, where that is floating point and known; `integer` for integer products, and
    `int4` for those that multiply by weights of 4 bits."""
    casts: int = 0

    @classmethod
    def of(cls, model: onnx.ModelProto) -> Census:
        census = cls()
        for graph in graphs(model.graph):
            census._count(graph)
        return census

    def _count(self, graph: onnx.GraphProto) -> None:
        types = {value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *graph.output)}
        for tensor in (*graph.initializer, *(a.t for node in graph.node for a in node.attribute if a.HasField("t"))):
            if kind := _TYPES.get(tensor.data_type):
                self.weights[kind] += math.prod(tensor.dims)
        for node in graph.node:
            if node.op_type == "Cast":
                self.casts += 1
            elif node.op_type in _INTEGER:
                self.nodes["integer"] += 1
            elif node.op_type == _IN_GROUPS:
                self._count_in_groups(node, {tensor.name: math.prod(tensor.dims) for tensor in graph.initializer})
            elif (kind := _TYPES.get(types.get(next(iter(node.output), ""), 0))) in ("fp32", "fp16"):
                self.nodes[kind] += 1

    def _count_in_groups(self, node: onnx.NodeProto, sizes: dict[str, int]) -> None:
        """Its weights and zero points are stored as bytes, two to each."""
        told = {attribute.name: attribute.i for attribute in node.attribute}
        if told["bits"] == 4:
            self.nodes["int4"] += 1
            self.weights["int4"] += told["K"] * told["N"]
            self.weights["int8"] -= sum(sizes[name] for name in (node.input[1], *node.input[3:4]) if name)

    def facts(self) -> dict[str, Any]:
        return {"weights": dict(+self.weights), "nodes": dict(self.nodes), "casts": self.casts}

    def lacks(self, precision: str, share: float) -> str | None:
        """Why a model with this in it may not be called by that precision."""
        if not self.weights[precision]:
            return f"nothing in the model became {precision}, so it would be the fp32 one"
        if precision == "int8" and not self.nodes["integer"]:
            return "no product of the model is one of integers: only its stored weights became int8"
        if precision == "int4":
            return self._lacks_int4(share)
        counted = [("weights", self.weights)] + ([("nodes", self.nodes)] if precision == "fp16" else [])
        for what, held in counted:
            all_of_them = held[precision] + held["fp32"]
            if held[precision] < share * all_of_them:
                return f"only {held[precision]} of {all_of_them} {what} of the model became {precision}"
        return None

    def _lacks_int4(self, share: float) -> str | None:
        held, whole = self.weights["int4"], sum(self.weights.values())
        return f"only {held} of {whole} weights of the model became int4" if held < share * whole else None


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for below in subgraphs(node):
            yield from graphs(below)
