"""Whether a rewritten ONNX graph still computes what the graph computed that it was made of.

Both are computed node by node, on the model's inputs and on the control's, so that no optimiser of a runtime stands
between them. Imports neither torch nor transformers.
"""

from __future__ import annotations

from pathlib import Path

from orch_py import judge, onnx_graph, trees
from orch_py.parity import REWRITTEN, told
from orch_py.protocol import first_line


def difference(before: Path, after: Path, given: trees.Tensors, control: trees.Tensors | None) -> str | None:
    """How the file `after` differs from the file `before`, by more than the order of sums; None where it does not."""
    # One file at a time has its weights in memory.
    expected = _computed(before, [inputs for inputs in (given, control) if inputs is not None])
    if not expected:
        return None
    session = onnx_graph.open_session(after, optimised=False)
    for inputs, outputs in expected:
        found = judge.verdict(onnx_graph.run(session, inputs), outputs, REWRITTEN)
        if not found["agrees"]:
            return told(found)
    return None


def _computed(path: Path, given: list[trees.Tensors]) -> list[tuple[trees.Tensors, trees.Tensors]]:
    """Inputs that the file runs on, each with its outputs."""
    found = []
    try:
        session = onnx_graph.open_session(path, optimised=False)
        for inputs in given:
            found.append((inputs, onnx_graph.run(session, inputs)))
    except Exception as error:  # noqa: BLE001 - a choice that a trace baked in may end in any error.
        print(f"the graph before its rewrites does not run: {first_line(error)}", flush=True)
    return found
