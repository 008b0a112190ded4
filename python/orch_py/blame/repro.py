"""A folder that shows a fault without orch: the model, its inputs, what is right, and a program that compares."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from orch_py.blame.windows import Window

RUN = '''"""Runs model.onnx in ONNX Runtime with all optimisations and without any, and compares with expected.npz."""

import sys

import numpy as np
import onnxruntime

inputs = dict(np.load("inputs.npz"))
expected = dict(np.load("expected.npz"))
print("onnxruntime", onnxruntime.__version__)
worst = {}
for level in ("ORT_ENABLE_ALL", "ORT_DISABLE_ALL"):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    session = onnxruntime.InferenceSession("model.onnx", options, providers=["CPUExecutionProvider"])
    outputs = dict(zip(expected, session.run(list(expected), inputs)))
    worst[level] = 0.0
    for name, value in expected.items():
        off = float(np.abs(outputs[name].astype(np.float64) - value.astype(np.float64)).max(initial=0.0))
        worst[level] = max(worst[level], off)
        print(f"{level} {name}: largest difference {off:.3g}, largest value {np.abs(value).max(initial=0):.3g}")
sys.exit(1 if worst["ORT_ENABLE_ALL"] > 10 * worst["ORT_DISABLE_ALL"] + 1e-12 else 0)
'''


def write(folder: Path, window: Window, finding: dict[str, Any]) -> None:
    """Writes the folder, which is made."""
    folder.mkdir()
    onnx.save(window.model, folder / "model.onnx")
    np.savez(folder / "inputs.npz", **window.feeds)  # type: ignore[arg-type]  # numpy takes any name.
    np.savez(folder / "expected.npz", **window.expected)  # type: ignore[arg-type]
    (folder / "run.py").write_text(RUN, "utf-8")
    (folder / "README.md").write_text(_readme(window, finding), "utf-8")


def _readme(window: Window, finding: dict[str, Any]) -> str:
    """The text of a report in the form in which ONNX Runtime's issues ask for it."""
    operators = ", ".join(node.op_type for node in window.model.graph.node)
    difference = finding["difference"]
    optimiser = finding["pass"] or {}
    told = f"`{optimiser['name']}`" if optimiser.get("name") else "no single optimiser that can be switched off"
    opsets = ", ".join(f"{each.domain or 'ai.onnx'} {each.version}" for each in window.model.opset_import)
    return f"""# Wrong outputs of {operators} with graph optimisation

## Describe the issue

With optimisation level `{optimiser.get("level", "all")}` and above, the output `{difference["output"]}` is wrong:
{difference["why"]}. Without graph optimisation it is right. The difference is made by {told}.

## To reproduce

    python run.py

`model.onnx` has {len(window.model.graph.node)} nodes ({operators}), `inputs.npz` its inputs, and `expected.npz` the
outputs without optimisation. `run.py` prints the differences at both levels, and ends with 1 if they are unlike.

## System

- ONNX Runtime {finding["version"]}, CPU execution provider, Python API
- {platform.system()} {platform.machine()}, Python {platform.python_version()}
- opsets: {opsets}
"""
