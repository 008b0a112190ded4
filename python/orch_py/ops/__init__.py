"""The table of ops. Each is a module with a function `run(job) -> Output`, imported when its first job comes:
an environment without torch can serve the ops that do not need it.
"""

from __future__ import annotations

import importlib

from orch_py.protocol import Job, Op, Output

NAMES = (
    "materialise",
    "export_onnx",
    "export_torchscript",
    "half",
    "onnx_convert",
    "openvino_convert",
    "transformers_js",
    "script",
)


def _lazy(name: str) -> Op:
    def run(job: Job) -> Output:
        output: Output = importlib.import_module(f"orch_py.ops.{name}").run(job)
        return output

    return run


OPS: dict[str, Op] = {name: _lazy(name) for name in NAMES}
OPS["eager_run"] = OPS["script"]
