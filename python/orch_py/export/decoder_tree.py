"""The decoder with a cache that an artefact may bring (`onnx_decoder.py`), and what becomes of it where the artefact is
converted. numpy only.

The manifest's `decoder` names its folder, or says why there is none; it is absent where the model generates nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orch_py.worker import trees
from orch_py.worker.protocol import Refused, first_line, is_out_of_memory

FOLDER = "decoder"
# Within the decoder's folder: the encoder of an encoder-decoder model.
ENCODER = "encoder"

# From a tree and its manifest into another tree; gives what is another in the manifest. The trees are the decoder's and
# the encoder's.
Convert = Callable[[Path, Path, dict[str, Any]], dict[str, Any]]


def converted(
    tree: Path, out: Path, manifest: dict[str, Any], convert: Convert, why_not: str | None = None
) -> dict[str, Any]:
    """What the manifest in `out` says of its decoder; with `why_not` none is made."""
    told = manifest.get("decoder")
    if told is None or "folder" not in told:
        return {} if told is None else {"decoder": told}
    if why_not:
        return {"decoder": {"why_not": why_not}}
    source, target = tree / told["folder"], out / FOLDER
    try:
        _convert(source, target, convert)
        if (source / ENCODER).is_dir():
            _convert(source / ENCODER, target / ENCODER, convert)
    except Exception as error:
        if is_out_of_memory(error):
            raise
        shutil.rmtree(target)
        words = str(error) if isinstance(error, Refused) else first_line(error)
        return {"decoder": {"why_not": f"the decoder with a cache does not convert: {words}"}}
    return {"decoder": {"folder": FOLDER}}


def _convert(source: Path, target: Path, convert: Convert) -> None:
    about = trees.read_manifest(source)
    target.mkdir()
    trees.write_manifest(target, about | convert(source, target, about))
