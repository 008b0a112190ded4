"""Runs windows in OpenVINO on the CPU, for a process of another environment: one request a line, one answer a line.

A request names files, `model` (ONNX), `feeds` and `out` (npz), and says `how` it is to be computed, and `has_files` if
constants lie in files beside the model. An answer has `error`, which is None where there was none.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import openvino
from openvino import _offline_transformations
from orch_py.export.openvino_words import telling

# As orch's runs in fp32 have it.
PROPERTIES = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
# An error's text beyond this length is left out.
MAX_TEXT = 2000
# Without the pass that merges subgraphs into generated kernels. OpenVINO takes it, and lists it nowhere.
WITHOUT_SNIPPETS = {"SNIPPETS_MODE": "DISABLE"}


def computed(core: Any, model: Any, feeds: dict[str, np.ndarray], how: str) -> list[np.ndarray]:
    """The outputs: of the plugin, of the plugin without snippets, or of OpenVINO's own reference."""
    if how == "reference":
        outputs = [openvino.Tensor(output.element_type, output.shape) for output in model.outputs]
        inputs = [openvino.Tensor(feeds[each.any_name]) for each in model.inputs]
        if not model.evaluate(outputs, inputs):
            raise RuntimeError("OpenVINO's reference does not compute this graph")
        return [np.array(output.data) for output in outputs]
    more = WITHOUT_SNIPPETS if how == "without snippets" else {}
    request = core.compile_model(model, "CPU", PROPERTIES | more).create_infer_request()
    request.infer({each.any_name: feeds[each.any_name] for each in model.inputs})
    return [np.array(request.get_tensor(output).data) for output in request.model_outputs]


def answer(core: Any, request: dict[str, str]) -> None:
    path = Path(request["model"])
    # Constants in files are found beside a file alone.
    model = core.read_model(path if request["has_files"] else path.read_bytes())
    # What `convert_model` does besides, by which files of models are made.
    _offline_transformations.apply_moc_transformations(model, cf=False)
    with np.load(request["feeds"]) as feeds:
        values = computed(core, model, dict(feeds), request["how"])
    np.savez(request["out"], **{output.any_name: value for output, value in zip(model.outputs, values, strict=True)})


def described(error: Exception) -> str:
    """The reason of an error in its first line, and then the whole of its text."""
    # What follows is advice.
    report = str(error).split("\nTo facilitate the conversion", 1)[0]
    return f"{telling(report)}\n{type(error).__name__}: {error}"


def main() -> None:
    core = openvino.Core()
    print(json.dumps({"version": openvino.get_version().split("-")[0]}), flush=True)
    for line in sys.stdin:
        try:
            answer(core, json.loads(line))
            print(json.dumps({"error": None}), flush=True)
        except Exception as error:  # noqa: BLE001 - OpenVINO raises plain errors of many kinds.
            print(json.dumps({"error": described(error)[:MAX_TEXT]}), flush=True)


if __name__ == "__main__":
    main()
