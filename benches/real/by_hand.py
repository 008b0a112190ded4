"""The work of orch's columns in a plain script, one step a process, as orch does it: by_hand.py STEP FOLDER OUT

`export` and `eager` want the Python of orch's torch environment, the others that of its nncf environment. FOLDER is the
model's, OUT holds what the steps make.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

SAMPLES = 5
INPUTS = "inputs.npz"
GRAPH = "model.onnx"


def inputs_of(model: Any, length: int, takes: str) -> dict[str, Any]:
    """Ids and a mask of ones, a picture of noise, or a second of noise."""
    import numpy as np

    random = np.random.default_rng(0)
    if takes == "pixel_values":
        size = model.config.image_size
        return {takes: random.standard_normal((1, 3, size, size)).astype(np.float32)}
    if takes == "input_values":
        return {takes: random.standard_normal((1, 16_000)).astype(np.float32)}
    ids = random.integers(0, model.config.vocab_size, (1, length))
    return {takes: ids, "attention_mask": np.ones_like(ids)}


def loaded(folder: Path) -> tuple[Any, dict[str, Any]]:
    import torch
    import transformers

    from real.models import MODELS

    known = MODELS[folder.name]
    model = getattr(transformers, known.cls).from_pretrained(folder, dtype=torch.float32).eval()
    model.config.use_cache = False
    values = inputs_of(model, known.length, known.takes)
    return model, {name: torch.from_numpy(value) for name, value in values.items()}


def export(folder: Path, out: Path) -> None:
    import numpy as np
    import torch

    model, inputs = loaded(folder)
    np.savez(out / INPUTS, **{name: value.numpy() for name, value in inputs.items()})

    class Logits(torch.nn.Module):
        """The model as a function of its inputs in their order."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *values: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.model(**dict(zip(inputs, values, strict=True))).logits
            return logits

    with torch.no_grad():
        arguments = tuple(inputs.values())
        torch.onnx.export(
            Logits(), arguments, str(out / GRAPH), input_names=list(inputs), opset_version=18, dynamo=False
        )


def eager(folder: Path, out: Path) -> None:
    import torch

    model, inputs = loaded(folder)
    with torch.no_grad():
        repeated(lambda: model(**inputs))


def onnxruntime(_: Path, out: Path) -> None:
    import numpy as np
    import onnxruntime

    session = onnxruntime.InferenceSession(out / GRAPH, providers=["CPUExecutionProvider"])
    feeds = dict(np.load(out / INPUTS))
    repeated(lambda: session.run(None, feeds))


def openvino(_: Path, out: Path, precision: str) -> None:
    import numpy as np

    import openvino as ov

    model = ov.convert_model(out / GRAPH)
    if precision == "int8":
        import nncf

        model = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_ASYM)
    path = out / f"{precision}.xml"
    ov.save_model(model, path, compress_to_fp16=precision == "fp16")
    hints = {"INFERENCE_PRECISION_HINT": "f32", "EXECUTION_MODE_HINT": "ACCURACY"}
    compiled = ov.Core().compile_model(path, "CPU", hints)
    feeds = dict(np.load(out / INPUTS))
    repeated(lambda: compiled(feeds))


def repeated(run: Any) -> None:
    times = []
    for _ in range(SAMPLES):
        began = time.perf_counter()
        run()
        times.append(1000 * (time.perf_counter() - began))
    print(json.dumps({"median_ms": statistics.median(times)}))


STEPS = {
    "export": export,
    "eager": eager,
    "onnxruntime": onnxruntime,
    **{
        f"openvino-{each}": lambda folder, out, each=each: openvino(folder, out, each)
        for each in ("fp32", "fp16", "int8")
    },
}
# Those of the torch environment; the others want the nncf environment.
OF_TORCH = ("export", "eager", "onnxruntime")

if __name__ == "__main__":
    STEPS[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
