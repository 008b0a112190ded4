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

from orch_py.protocol import Refused, listed

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


def copy_inputs(tree: Path, out: Path) -> None:
    """The inputs of another form of the same model, and the control's where there are any."""
    shutil.copyfile(_present(tree, INPUTS), out / INPUTS)
    if (tree / CONTROL_INPUTS).is_file():
        shutil.copyfile(tree / CONTROL_INPUTS, out / CONTROL_INPUTS)


def shapes(tree: Path, name: str) -> dict[str, list[int]]:
    """Shapes by name, without reading the tensors: numpy lacks some of their types."""
    with _present(tree, name).open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return {key: value["shape"] for key, value in header.items() if key != "__metadata__"}


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
