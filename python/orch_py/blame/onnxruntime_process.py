"""Runs windows in ONNX Runtime on the CPU, for a process that a window must not end: one request a line, one answer a
line.

A request names files, `model` (ONNX), `feeds` and `out` (npz), and `has_files` if constants lie in files beside the
model. It has `how` the window is computed: `plain` without
optimisers, or a JSON document with the last `level` of optimisation and the names of `disabled` optimisers. An answer
has `error`, which is None where there was none.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from orch_py.blame.windows import open_session, run, weights_in

PLAIN = "plain"
# An error's text beyond this length is left out.
MAX_TEXT = 2000


def way(level: str | None = None, disabled: tuple[str, ...] = ()) -> str:
    """How a window is computed with optimisers; None is the level of a case."""
    return json.dumps({"level": level, "disabled": disabled})


def answer(request: dict[str, str]) -> None:
    path = Path(request["model"])
    model = onnx.load_model_from_string(path.read_bytes())
    how = request["how"]
    with weights_in(path.parent if request["has_files"] else None):
        session = open_session(model, optimised=False) if how == PLAIN else open_session(model, **json.loads(how))
    with np.load(request["feeds"]) as feeds:
        values = run(session, dict(feeds))
    np.savez(request["out"], **values)  # type: ignore[arg-type]  # numpy takes any name.


def main() -> None:
    print(json.dumps({"version": onnxruntime.__version__}), flush=True)
    for line in sys.stdin:
        try:
            answer(json.loads(line))
            print(json.dumps({"error": None}), flush=True)
        except Exception as error:  # noqa: BLE001 - ONNX Runtime raises errors of many types.
            print(json.dumps({"error": f"{type(error).__name__}: {error}"[:MAX_TEXT]}), flush=True)


if __name__ == "__main__":
    main()
