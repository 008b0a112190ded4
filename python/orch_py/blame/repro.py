"""A folder that shows a fault without orch: the model, its inputs, what is right, and a program that compares."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from orch_py.blame.windows import Window

RUN_ONNXRUNTIME = '''"""Runs model.onnx with and without optimisations, and compares with expected.npz."""

import os
import sys
import traceback


def untestable(*error):
    """Ends with 125, by which `git bisect run` and `orch bisect` skip a release."""
    traceback.print_exception(*error)
    os._exit(125)


sys.excepthook = untestable

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

RUN_OPENVINO = '''"""Runs model.onnx in OpenVINO on the CPU, and compares with expected.npz, which ONNX Runtime gave."""

import os
import sys
import traceback


def untestable(*error):
    """Ends with 125, by which `git bisect run` and `orch bisect` skip a release."""
    traceback.print_exception(*error)
    os._exit(125)


sys.excepthook = untestable

import numpy as np
import openvino

inputs = dict(np.load("inputs.npz"))
expected = dict(np.load("expected.npz"))
print("openvino", openvino.get_version())
model = openvino.convert_model("model.onnx")
compiled = openvino.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
outputs = compiled(inputs)
is_wrong = False
for name, value in expected.items():
    off = np.abs(outputs[name].astype(np.float64) - value.astype(np.float64))
    is_wrong |= bool((off > 1e-4 * (np.abs(value) + np.sqrt(np.mean(value.astype(np.float64) ** 2)))).any())
    print(f"{name}: largest difference {off.max(initial=0.0):.3g}, largest value {np.abs(value).max(initial=0):.3g}")
sys.exit(1 if is_wrong else 0)
'''


def write(folder: Path, window: Window, finding: dict[str, Any]) -> None:
    """Writes the folder, which is made."""
    folder.mkdir()
    onnx.save(window.model, folder / "model.onnx")
    np.savez(folder / "inputs.npz", **window.feeds)  # type: ignore[arg-type]  # numpy takes any name.
    np.savez(folder / "expected.npz", **window.expected)  # type: ignore[arg-type]
    is_openvino = finding["runtime"] == "openvino"
    (folder / "run.py").write_text(RUN_OPENVINO if is_openvino else RUN_ONNXRUNTIME, "utf-8")
    (folder / "README.md").write_text(_readme(window, finding), "utf-8")


def _readme(window: Window, finding: dict[str, Any]) -> str:
    """The text of a report in the form in which the runtimes' issues ask for it."""
    operators = ", ".join(node.op_type for node in window.model.graph.node)
    opsets = ", ".join(f"{each.domain or 'ai.onnx'} {each.version}" for each in window.model.opset_import)
    title, issue, runtime = _openvino(finding) if finding["runtime"] == "openvino" else _onnxruntime(finding)
    return f"""# {title.format(operators)}

## Describe the issue

{issue}

## To reproduce

    python run.py

`model.onnx` has {len(window.model.graph.node)} nodes ({operators}), `inputs.npz` its inputs, and `expected.npz` the
outputs of ONNX Runtime without optimisation. `run.py` prints the differences, and ends with 1 while they are large. It
ends with 125 if it cannot run the model at all.

## System

- {runtime}
- {platform.system()} {platform.machine()}, Python {platform.python_version()}
- opsets: {opsets}
"""


def _onnxruntime(finding: dict[str, Any]) -> tuple[str, str, str]:
    """Title, description and version of an issue of ONNX Runtime."""
    difference, optimiser = finding["difference"], finding["pass"] or {}
    told = f"`{optimiser['name']}`" if optimiser.get("name") else "no single optimiser that can be switched off"
    issue = (
        f"The output `{difference['output']}` is wrong with {optimiser.get('stage', 'graph optimisation')}:\n"
        f"{difference['why']}.\nWithout graph optimisation it is right. The difference is made by {told}."
    )
    runtime = f"ONNX Runtime {finding['version']}, CPU execution provider, Python API"
    return "Wrong outputs of {} with graph optimisation", issue, runtime


def _openvino(finding: dict[str, Any]) -> tuple[str, str, str]:
    """Title, description and version of an issue of OpenVINO."""
    difference, guilty = finding["difference"], finding["pass"] or {}
    sides = {
        "front end": "`Model.evaluate` is wrong alike, so the front end or a common transformation is at fault.",
        "CPU plugin": "`Model.evaluate` is right or lacks an operator, so it is the CPU plugin.",
    }
    mends = " With `SNIPPETS_MODE: DISABLE` it is right." if guilty.get("name") else ""
    issue = f"The output `{difference['output']}` is wrong on the CPU in f32:\n{difference['why']}.\n"
    issue += sides.get(guilty.get("stage", ""), "") + mends
    return "Wrong outputs of {} on the CPU", issue, f"OpenVINO {finding['version']}, CPU, Python API"
