"""The programs that show a fault without orch. Each ends with 1 while the fault is there, with 0 when it is gone, and
with 125 where it cannot run, by which `git bisect run` and `orch bisect` skip a release."""

from __future__ import annotations

import inspect

from orch_py.blame.faults import error_class, telling_line

# What a program that compares begins with, behind its docstring.
UNTESTABLE = '''
import os
import sys
import traceback


def untestable(*error):
    """Ends with 125, by which `git bisect run` and `orch bisect` skip a release."""
    traceback.print_exception(*error)
    os._exit(125)


sys.excepthook = untestable
'''

RUN_ONNXRUNTIME = (
    '''"""Runs model.onnx with and without optimisations, and compares with expected.npz."""
'''
    + UNTESTABLE
    + """
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
"""
)

RUN_OPENVINO = (
    '''"""Runs model.onnx in OpenVINO on the CPU, and compares with expected.npz, which ONNX Runtime gave."""
'''
    + UNTESTABLE
    + """
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
"""
)

_RUN_REFUSAL = '''"""Runs model.onnx in a process of its own, and compares its end with the error that was seen."""

import re
import signal
import subprocess
import sys

KIND = {kind!r}
ERROR_CLASS = {error!r}
# The exit status of the process after an error of the runtime, and the line before that error.
REFUSED = 3
MARK = "error of the runtime:\\n"


{telling_line}

{error_class}

def run({module}, inputs):
    {body}


def child():
    import numpy as np
    import {module}

    print("{module}", {module}.__version__, flush=True)
    inputs = dict(np.load("inputs.npz"))
    try:
        run({module}, inputs)
    except Exception as error:
        print(f"{{MARK}}{{type(error).__name__}}: {{error}}", file=sys.stderr)
        sys.exit(REFUSED)


def main():
    ended = subprocess.run([sys.executable, __file__, "child"], stderr=subprocess.PIPE, text=True)
    print(ended.stderr)
    if ended.returncode == 0:
        sys.exit(0)
    if ended.returncode < 0:
        found = ("crashed", signal.Signals(-ended.returncode).name)
    elif ended.returncode == REFUSED:
        found = ("refused", error_class(ended.stderr.rpartition(MARK)[2]))
    else:
        found = ("crashed", str(ended.returncode))
    print(*found)
    sys.exit(1 if found == (KIND, ERROR_CLASS) else 125)


if __name__ == "__main__":
    child() if sys.argv[1:] else main()
'''

_REFUSED_BODIES = {
    "onnxruntime": (
        'session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])',
        "session.run(None, inputs)",
    ),
    "openvino": (
        "core = openvino.Core()",
        'model = core.read_model("model.onnx")',
        'core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(inputs)',
    ),
}


def of_values(runtime: str) -> str:
    """The program that compares a runtime's outputs with the right ones."""
    return RUN_OPENVINO if runtime == "openvino" else RUN_ONNXRUNTIME


def of_refusal(runtime: str, kind: str, error: str) -> str:
    """The program that compares how a runtime fails with a `Failure` of this kind and class of error."""
    return _RUN_REFUSAL.format(
        kind=kind,
        error=error,
        telling_line=inspect.getsource(telling_line),
        error_class=inspect.getsource(error_class),
        module=runtime,
        body="\n    ".join(_REFUSED_BODIES[runtime]),
    )
