"""Whether a rewritten ONNX graph still computes what the graph computed that it was made of.

Both are computed node by node, on the model's inputs and on the control's, so that no optimiser of a runtime stands
between them. Imports neither torch nor transformers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from orch_py.export import onnx_graph
from orch_py.judge import judge
from orch_py.judge.parity import REWRITTEN, told
from orch_py.worker import trees
from orch_py.worker.protocol import first_line


def difference(
    before: Path, after: Path, given: trees.Tensors, control: trees.Tensors | None, threads: int = 1
) -> str | None:
    """How the file `after` differs from the file `before`, by more than the order of sums; None where it does not."""
    # One file at a time has its weights in memory.
    expected = _computed(before, [inputs for inputs in (given, control) if inputs is not None], threads)
    if not expected:
        return None
    session = onnx_graph.open_session(after, optimised=False, threads=threads)
    for inputs, outputs in expected:
        ours = onnx_graph.run(session, inputs)
        if all(np.array_equal(ours[name], value) for name, value in outputs.items()):
            continue
        found = judge.verdict(ours, outputs, REWRITTEN)
        if not found["agrees"]:
            return told(found)
    return None


def _computed(path: Path, given: list[trees.Tensors], threads: int) -> list[tuple[trees.Tensors, trees.Tensors]]:
    """Inputs that the file runs on, each with its outputs."""
    found = []
    try:
        session = onnx_graph.open_session(path, optimised=False, threads=threads)
        for inputs in given:
            found.append((inputs, onnx_graph.run(session, inputs)))
    except Exception as error:  # noqa: BLE001 - a choice that a trace baked in may end in any error.
        print(f"the graph before its rewrites does not run: {first_line(error)}", flush=True)
    return found
