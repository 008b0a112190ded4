"""Reading and writing what stands in a tree: manifests and tensors.

A tree is published under the digest of its bytes, so everything written here is the same for equal content. numpy
only: the environments without torch use it too.
"""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from orch_py.protocol import Refused, listed

Tensors = dict[str, np.ndarray]

MANIFEST = "manifest.json"
INPUTS = "inputs.safetensors"
REFERENCE = "reference.safetensors"


def read_manifest(tree: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads(_present(tree, MANIFEST).read_text("utf-8"))
    return manifest


def write_manifest(tree: Path, manifest: dict[str, Any]) -> None:
    (tree / MANIFEST).write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", "utf-8")


def read_tensors(tree: Path, name: str) -> Tensors:
    tensors: Tensors = load_file(_present(tree, name))
    return tensors


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


def not_finite(name: str, value: np.ndarray) -> str | None:
    """What is wrong with `value`, if it holds NaN or infinity."""
    if not np.issubdtype(value.dtype, np.floating):
        return None
    nans, infinities = int(np.isnan(value).sum()), int(np.isinf(value).sum())
    if nans == infinities == 0:
        return None
    return f"output `{name}` holds {nans} NaN and {infinities} infinite values of {value.size}"


def max_abs(got: np.ndarray, want: np.ndarray) -> float:
    """Bound on max |a - b| / max(1, max |b|), the measure by which orch compares outputs too."""
    if want.size == 0:
        return 0.0
    a, b = got.astype(np.float64), want.astype(np.float64)
    return float(np.abs(a - b).max() / max(1.0, float(np.abs(b).max())))
