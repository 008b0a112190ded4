"""Weights of an ONNX model in files beside its graph, and in no Protobuf message.

A message is copied as a whole by each library that takes one, and none is longer than 2 GiB. So a graph is read,
changed and checked while its larger tensors are references into files of one folder, and its weights are written once,
when it is published. Format of such references: https://onnx.ai/onnx/repo-docs/ExternalData.html. Needs onnx.
"""

from __future__ import annotations

import io
import math
import mmap
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

# Bytes from which a tensor lies in a file. Smaller ones are shapes and axes, which shape inference reads.
LEAST = 1024
# Where larger tensors begin in a file, so that they can be mapped into memory.
_ALIGNMENT = 4096

# Numbers of fields: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3
_GRAPH_OF_MODEL = 7
_INITIALIZER_OF_GRAPH = 5
_RAW_DATA_OF_TENSOR = 9
# How the wire format encodes a field: https://protobuf.dev/programming-guides/encoding/
_VARINT, _FIXED_64, _DELIMITED, _FIXED_32 = 0, 1, 2, 5


@dataclass(frozen=True)
class _Field:
    """A field of a message by its number, with the places where it, its value and the next field begin."""

    number: int
    begin: int
    value: int
    end: int


def tensors(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    """All constants of a graph, those of its nodes and of graphs within them included."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for below in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
                yield from tensors(below)


def size(model: onnx.ModelProto) -> int:
    """Bytes of all constants, wherever they lie. No message is made for it, as `ByteSize` would."""
    return sum(bytes_of(tensor) for tensor in tensors(model.graph))


def bytes_of(tensor: TensorProto) -> int:
    if tensor.HasField("raw_data"):
        return len(tensor.raw_data)
    if (length := _entries(tensor).get("length")) is not None:
        return int(length)
    if tensor.data_type in (TensorProto.UNDEFINED, TensorProto.STRING):
        return sum(map(len, tensor.string_data))
    # Types below a byte are counted as a byte a value, so that nothing is thought smaller than it is.
    return math.prod(tensor.dims) * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize


def _entries(tensor: TensorProto) -> dict[str, str]:
    is_external = tensor.data_location == TensorProto.EXTERNAL
    return {entry.key: entry.value for entry in tensor.external_data} if is_external else {}


def _refer(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "external_data"):
        tensor.ClearField(field)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)


def load(path: Path) -> onnx.ModelProto:
    """The model of a file, with references to its larger tensors: into this file, or into those that it names itself.

    The file is scanned and not parsed, so that its weights are never in memory.
    """
    model = onnx.ModelProto()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        initializers, others = [], []
        for field in _fields(data, 0, len(data)):
            if field.number != _GRAPH_OF_MODEL:
                model.MergeFromString(data[field.begin : field.end])
                continue
            for part in _fields(data, field.value, field.end):
                if part.number == _INITIALIZER_OF_GRAPH:
                    initializers.append(_tensor(data, part, path.name))
                else:
                    others.append(data[part.begin : part.end])
    model.graph.MergeFromString(b"".join(others))
    model.graph.initializer.extend(initializers)
    return model


def _tensor(data: mmap.mmap, field: _Field, location: str) -> TensorProto:
    kept, raw = [], None
    for part in _fields(data, field.value, field.end):
        if part.number == _RAW_DATA_OF_TENSOR and part.end - part.value >= LEAST:
            raw = part
        else:
            kept.append(data[part.begin : part.end])
    tensor: TensorProto = TensorProto.FromString(b"".join(kept))
    if raw is not None:
        _refer(tensor, location, raw.value, raw.end - raw.value)
    return tensor


def _fields(data: mmap.mmap, begin: int, end: int) -> Iterator[_Field]:
    while begin < end:
        key, value = _varint(data, begin)
        number, kind = key >> 3, key & 7
        if kind == _DELIMITED:
            length, value = _varint(data, value)
            after = value + length
        elif kind == _VARINT:
            _, after = _varint(data, value)
        elif kind in (_FIXED_32, _FIXED_64):
            after = value + (4 if kind == _FIXED_32 else 8)
        else:
            raise ValueError(f"field {number} at byte {begin} is of the kind {kind}, which ONNX files have none of")
        if after > end:
            raise ValueError(f"field {number} at byte {begin} ends behind what it is part of")
        yield _Field(number, begin, value, after)
        begin = after


def _varint(data: mmap.mmap, at: int) -> tuple[int, int]:
    """The number that begins there, and the place behind it."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


def locations(model: onnx.ModelProto) -> set[str]:
    """The names of the files in which larger tensors of the model lie."""
    return {entries["location"] for tensor in tensors(model.graph) if (entries := _entries(tensor))}


def detach(model: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """The model with its larger tensors in the file `path`, which is written to if it has such tensors in its messages.

    Values of Constant nodes become initializers, which every runtime maps from files.
    """
    _hoist(model.graph)
    in_messages = [tensor for tensor in tensors(model.graph) if bytes_of(tensor) >= LEAST and not _entries(tensor)]
    if not in_messages:
        return model
    with path.open("wb") as file:
        for tensor in in_messages:
            if tensor.data_type != TensorProto.STRING:
                data = tensor.raw_data or numpy_helper.to_array(tensor).tobytes()
                begin = _aligned(file, len(data))
                file.write(data)
                _refer(tensor, path.name, begin, len(data))
    # Protobuf keeps the memory of what was cleared as long as the message lives.
    return onnx.ModelProto.FromString(model.SerializeToString())


def _hoist(graph: onnx.GraphProto) -> None:
    """Makes initializers of the graph's own Constant nodes with a larger tensor."""
    taken = {value.name for value in graph.output}
    kept = []
    for node in graph.node:
        value = [each.t for each in node.attribute if each.name == "value" and each.HasField("t")]
        if node.op_type == "Constant" and value and bytes_of(value[0]) >= LEAST and node.output[0] not in taken:
            graph.initializer.add().CopyFrom(value[0])
            graph.initializer[-1].name = node.output[0]
        else:
            kept.append(node)
    if len(kept) < len(graph.node):
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
        del graph.node[:]
        graph.node.extend(copies)


def _aligned(file: BinaryIO, length: int) -> int:
    """Where `length` bytes begin in the file, behind what it has."""
    if length >= _ALIGNMENT and (over := file.tell() % _ALIGNMENT):
        file.write(bytes(_ALIGNMENT - over))
    return file.tell()


def attach(model: onnx.ModelProto, folder: Path) -> None:
    """Brings the tensors that lie in files of `folder` into the model's messages.

    The library's own function refuses files with several hard links, as those of the store are.
    """
    with ExitStack() as stack:
        files = _Files(folder, stack)
        for tensor in tensors(model.graph):
            _bring(tensor, files)


def array(tensor: TensorProto, folder: Path | None) -> np.ndarray:
    """The values of a tensor, which may lie in a file of `folder`."""
    with ExitStack() as stack:
        whole = TensorProto()
        whole.CopyFrom(tensor)
        _bring(whole, _Files(folder or Path(), stack))
        return np.asarray(numpy_helper.to_array(whole))


def _bring(tensor: TensorProto, files: _Files) -> None:
    """Puts the bytes of a tensor that lies in a file into its message."""
    if _entries(tensor):
        raw = io.BytesIO()
        files.copy(tensor, raw)
        tensor.ClearField("external_data")
        tensor.data_location = TensorProto.DEFAULT
        tensor.raw_data = raw.getvalue()


class _Files:
    """The files of a folder, mapped into memory when they are first read."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._mapped: dict[str, mmap.mmap] = {}

    def copy(self, tensor: TensorProto, out: BinaryIO) -> None:
        """Writes the bytes of an external tensor to `out`."""
        entries = _entries(tensor)
        location = entries["location"]
        if location not in self._mapped:
            file = self._stack.enter_context((self._folder / location).open("rb"))
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._mapped[location] = self._stack.enter_context(mapped)
        begin = int(entries.get("offset", 0))
        end = begin + int(entries["length"]) if "length" in entries else len(self._mapped[location])
        with memoryview(self._mapped[location]) as data, data[begin:end] as part:
            out.write(part)


def write(model: onnx.ModelProto, folder: Path, path: Path) -> None:
    """Writes one file with all weights, those in files of `folder` included: the bytes of `SerializeToString`.

    Only a graph's own initializers stay outside of messages on the way.
    """
    small = onnx.ModelProto()
    small.CopyFrom(model)
    initializers = list(model.graph.initializer)
    del small.graph.initializer[:]
    attach(small, folder)
    before, after = _parts(small.graph, _INITIALIZER_OF_GRAPH)
    heads = [_head(tensor) for tensor in initializers]
    outside = [bytes_of(tensor) if _entries(tensor) else 0 for tensor in initializers]
    lengths = [len(head) + more for head, more in zip(heads, outside, strict=True)]
    tags = [_tag(_INITIALIZER_OF_GRAPH, length) for length in lengths]
    graph_length = len(before) + sum(map(len, tags)) + sum(lengths) + len(after)
    model_before, model_after = _parts(small, _GRAPH_OF_MODEL)
    with ExitStack() as stack, path.open("wb") as out:
        files = _Files(folder, stack)
        out.write(model_before + _tag(_GRAPH_OF_MODEL, graph_length) + before)
        for tensor, tag, head in zip(initializers, tags, heads, strict=True):
            out.write(tag + head)
            if _entries(tensor):
                files.copy(tensor, out)
        out.write(after + model_after)


def _head(tensor: TensorProto) -> bytes:
    """The message of a tensor, up to the bytes of one that lies in a file."""
    if not _entries(tensor):
        return bytes(tensor.SerializeToString(deterministic=True))
    plain = TensorProto()
    plain.CopyFrom(tensor)
    plain.ClearField("external_data")
    plain.ClearField("data_location")
    assert not plain.doc_string, "BUG: fields behind the data of a tensor"
    return plain.SerializeToString(deterministic=True) + _tag(_RAW_DATA_OF_TENSOR, bytes_of(tensor))


def _parts(message: onnx.ModelProto | onnx.GraphProto, number: int) -> tuple[bytes, bytes]:
    """A message as it is serialised, up to the field `number` and behind it; that field is left out."""
    before, after = type(message)(), type(message)()
    before.CopyFrom(message)
    after.CopyFrom(message)
    for field in message.DESCRIPTOR.fields:
        if field.number >= number:
            before.ClearField(field.name)
        if field.number <= number:
            after.ClearField(field.name)
    return before.SerializeToString(deterministic=True), after.SerializeToString(deterministic=True)


def _tag(number: int, length: int) -> bytes:
    """What stands before a value of `length` bytes: the number of its field, and the length."""
    return _encoded(number << 3 | _DELIMITED) + _encoded(length)


def _encoded(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def gather(model: onnx.ModelProto, folder: Path, path: Path) -> None:
    """Copies the tensors that lie in files of `folder` into one file, in the model's order, and refers to that.

    Equal references, as tied weights have them, stay equal.
    """
    known: dict[tuple[tuple[str, str], ...], tuple[int, int]] = {}
    with ExitStack() as stack, path.open("wb") as out:
        files = _Files(folder, stack)
        for tensor in tensors(model.graph):
            if not (entries := _entries(tensor)):
                continue
            place = tuple(sorted(entries.items()))
            if place not in known:
                begin = _aligned(out, bytes_of(tensor))
                files.copy(tensor, out)
                known[place] = begin, out.tell() - begin
            _refer(tensor, path.name, *known[place])
