"""The table of ops. Each is a module with a function `run(job) -> Output`, imported when its first job comes:
an environment without torch can serve the ops that do not need it.
"""

from __future__ import annotations

import importlib
import pkgutil

from orch_py.worker.protocol import Job, Op, Output

NAMES = tuple(module.name for module in pkgutil.iter_modules(__path__))


def _lazy(name: str) -> Op:
    def run(job: Job) -> Output:
        output: Output = importlib.import_module(f"orch_py.ops.{name}").run(job)
        return output

    return run


OPS: dict[str, Op] = {name: _lazy(name) for name in NAMES}
OPS["eager_run"] = OPS["script"]
