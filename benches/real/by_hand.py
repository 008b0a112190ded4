"""The work of orch's columns in a plain script, one step a process, as orch does it: by_hand.py STEP FOLDER OUT

`export` and `eager` want the Python of orch's torch environment, the others that of its nncf environment. FOLDER is the
model's, OUT holds what the steps make.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SAMPLES = 5
INPUTS = "inputs.npz"
GRAPH = "model.onnx"


def inputs_of(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """Random ids, masks of ones, and noise for pictures and sounds."""
    import numpy as np

    random = np.random.default_rng(0)
    values = {}
    for name, shape in shapes.items():
        if name.endswith("_ids"):
            values[name] = random.integers(0, vocabulary(model.config), shape)
        elif name.endswith("_mask"):
            values[name] = np.ones(shape, np.int64)
        else:
            values[name] = random.standard_normal(shape).astype(np.float32)
    return values


def vocabulary(config: Any) -> int:
    """The number of tokens; a model of text and something else has it in the config of its text."""
    holder = config if hasattr(config, "vocab_size") else config.text_config
    size: int = holder.vocab_size
    return size


def loaded(folder: Path) -> tuple[Any, dict[str, Any]]:
    import torch
    import transformers

    from real.models import MODELS

    known = MODELS[folder.name]
    model = getattr(transformers, known.cls).from_pretrained(folder, dtype=torch.float32).eval()
    model.config.use_cache = False
    values = inputs_of(model, known.inputs)
    return model, {name: torch.from_numpy(value) for name, value in values.items()}


def export(folder: Path, out: Path) -> None:
    import numpy as np
    import torch

    from real.models import MODELS

    model, inputs = loaded(folder)
    outputs = MODELS[folder.name].outputs
    np.savez(out / INPUTS, **{name: value.numpy() for name, value in inputs.items()})

    class InOrder(torch.nn.Module):
        """The model as a function of its inputs in their order, to its outputs in theirs."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
            found = self.model(**dict(zip(inputs, values, strict=True)))
            return tuple(found[name] for name in outputs)

    with torch.no_grad():
        arguments = tuple(inputs.values())
        torch.onnx.export(
            InOrder(),
            arguments,
            str(out / GRAPH),
            input_names=list(inputs),
            output_names=list(outputs),
            opset_version=18,
            dynamo=False,
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
