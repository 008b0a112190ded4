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
    for inputs in (given, control):
        if inputs is None:
            continue
        try:
            expected = onnx_graph.execute(before, inputs, optimised=False)
        except Exception as error:  # noqa: BLE001 - a choice that a trace baked in may end in any error.
            print(f"the graph before its rewrites does not run: {first_line(error)}", flush=True)
            continue
        found = judge.verdict(onnx_graph.execute(after, inputs, optimised=False), expected, REWRITTEN)
        if not found["agrees"]:
            return told(found)
    return None
