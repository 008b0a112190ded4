"""Reading and writing what stands in a tree: manifests and tensors.

A tree is published under the digest of its bytes, so everything written here is the same for equal content. numpy
only: the environments without torch use it too.
"""

from __future__ import annotations

import importlib.metadata
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from orch_py.worker.protocol import Refused, listed

Tensors = dict[str, np.ndarray]

MANIFEST = "manifest.json"
INPUTS = "inputs.safetensors"
REFERENCE = "reference.safetensors"
# Other inputs of the same recipe, and what the reference gives on them; absent where none can be made.
CONTROL_INPUTS = "control-inputs.safetensors"
CONTROL_REFERENCE = "control-reference.safetensors"
# The outputs on the first inputs of the model without one of its layers.
DROPPED_REFERENCE = "dropped-reference.safetensors"


def read_manifest(tree: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads(_present(tree, MANIFEST).read_text("utf-8"))
    return manifest


def write_manifest(tree: Path, manifest: dict[str, Any]) -> None:
    (tree / MANIFEST).write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", "utf-8")


def read_tensors(tree: Path, name: str) -> Tensors:
    tensors: Tensors = load_file(_present(tree, name))
    return tensors


def read_if_present(tree: Path, name: str) -> Tensors | None:
    return read_tensors(tree, name) if (tree / name).is_file() else None


def copy_inputs(tree: Path, out: Path, names: list[str] | None = None) -> None:
    """The inputs of another form of the same model, and the control's where there are any: all, or those of `names`."""
    _copy(_present(tree, INPUTS), out / INPUTS, names)
    if (tree / CONTROL_INPUTS).is_file():
        _copy(tree / CONTROL_INPUTS, out / CONTROL_INPUTS, names)


def shapes(tree: Path, name: str) -> dict[str, list[int]]:
    """Shapes by name, without reading the tensors: numpy lacks some of their types."""
    return {key: value["shape"] for key, value in _header(_present(tree, name))[0].items()}


def _copy(source: Path, target: Path, names: list[str] | None) -> None:
    """Copies a file with only these of its tensors, byte for byte."""
    header, begin = _header(source)
    if names is None or sorted(header) == sorted(names):
        shutil.copyfile(source, target)
        return
    content = source.read_bytes()[begin:]
    kept, data = {}, bytearray()
    # In their order there, which keeps each at a multiple of its element's size.
    for name in sorted(names, key=lambda name: header[name]["data_offsets"]):
        first, last = header[name]["data_offsets"]
        kept[name] = header[name] | {"data_offsets": [len(data), len(data) + last - first]}
        data += content[first:last]
    text = json.dumps(kept, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    target.write_bytes(len(text).to_bytes(8, "little") + text + data)


def _header(path: Path) -> tuple[dict[str, dict[str, Any]], int]:
    """What a safetensors file says of its tensors, and where their bytes begin."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    return header, 8 + size


def write_tensors(tree: Path, name: str, tensors: Tensors) -> None:
    # safetensors writes memory as it lies, so a transposed view would come out scrambled.
    save_file({key: np.ascontiguousarray(value).reshape(value.shape) for key, value in tensors.items()}, tree / name)


def _present(tree: Path, name: str) -> Path:
    path = tree / name
    if not path.is_file():
        have = listed(sorted(entry.name for entry in tree.iterdir())) if tree.is_dir() else "no such folder"
        raise Refused("error", f"the input tree has no `{name}` (it has: {have})")
    return path


def versions(*packages: str) -> dict[str, str]:
    """Public versions. `+cu130` and its like say which build a host got, and equal trees come from unequal hosts."""
    return {package: importlib.metadata.version(package).split("+")[0] for package in packages}


def not_a_number(name: str, value: np.ndarray) -> str | None:
    """What is wrong with `value`, if it holds NaN. An infinity is a value like a mask, which models give on purpose."""
    if not np.issubdtype(value.dtype, np.floating) or not (nans := int(np.isnan(value).sum())):
        return None
    infinities = int(np.isinf(value).sum())
    return f"output `{name}` holds {nans} NaN and {infinities} infinite values of {value.size}"
