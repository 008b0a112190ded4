"""What every change of an ONNX graph does with its messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx


def write_graph(model: onnx.ModelProto, folder: Path, name: str) -> Path:
    """Writes the model as it is into the folder in which its external tensors lie."""
    path = folder / name
    path.write_bytes(model.SerializeToString())
    return path


def rename(graph: onnx.GraphProto, old: str, new: str) -> None:
    for node in graph.node:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                if name == old:
                    names[place] = new


def refill(field, items) -> None:  # type: ignore[no-untyped-def]
    copies = [type(item).FromString(item.SerializeToString()) for item in items]
    del field[:]
    field.extend(copies)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def outer_names(graph: onnx.GraphProto) -> Iterator[str]:
    yield from (value.name for value in graph.output)
    for node in graph.node:
        yield from node.input
        for below in subgraphs(node):
            yield from outer_names(below)
