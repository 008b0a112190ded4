"""Whether an export is right: on the inputs that it was made with, and on the control's, which it has never seen.

Numbers only: what made the outputs, this does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orch_py.judge import judge
from orch_py.worker import trees
from orch_py.worker.protocol import first_line

# How an artefact may differ and still be no wrong trace: what rounding may do, of half precision or, where tokens lie
# near each other, of another order of sums, is judged when it runs.
LOOSE = {
    "fp32": judge.TOLERANCES["fp32"] | {"tokens": 0.9},
    "fp16": {"atol": 2e-1, "rtol": 2e-1, "budget": 2e-2, "cosine": 0.98, "snr": 14.0, "tokens": 0.5},
    "bf16": {"atol": 4e-1, "rtol": 4e-1, "budget": 5e-2, "cosine": 0.95, "snr": 8.0, "tokens": 0.5},
}
# How a rewritten graph may differ from the one that it was made of, both node by node in fp32.
REWRITTEN = {"atol": 1e-4, "rtol": 1e-4, "budget": 0.0, "cosine": 0.99999, "snr": 70.0, "tokens": 0.9}
BAKED = "right on the inputs it was traced with, wrong on others: the trace baked a choice in"


@dataclass
class Expected:
    """What a `model` tree says that its exports must give."""

    reference: trees.Tensors
    control: trees.Tensors | None
    # Names of the outputs whose whole numbers are tokens.
    tokens: Collection[str] = ()

    @classmethod
    def of(cls, tree: Path, tokens: Collection[str] = ()) -> Expected:
        control = trees.read_if_present(tree, trees.CONTROL_REFERENCE)
        return cls(trees.read_tensors(tree, trees.REFERENCE), control, tokens)

    def wrong(
        self,
        run: Callable[[trees.Tensors], trees.Tensors],
        given: trees.Tensors,
        control: trees.Tensors | None,
        tolerance: dict[str, float],
        figures: dict[str, Any],
    ) -> str | None:
        """Why the export that `run` runs is not right, if so. `max_abs` and `control_max_abs` go into `figures`."""
        found = judge.verdict(run(given), self.reference, tolerance, self.tokens)
        figures["max_abs"] = worst(found)
        if not found["agrees"]:
            return told(found)
        if control is None or self.control is None:
            return None
        try:
            found = judge.verdict(run(control), self.control, tolerance, self.tokens)
        except Exception as error:  # noqa: BLE001 - shapes that were baked in end in any error of a runtime.
            return f"{BAKED} ({first_line(error)})"
        figures["control_max_abs"] = worst(found)
        return None if found["agrees"] else f"{BAKED} ({told(found)})"

    def is_near(self, outputs: trees.Tensors, of_control: bool) -> bool:
        """Whether outputs are within `REWRITTEN` of the reference, or of the control's."""
        expected = self.control if of_control else self.reference
        return expected is not None and bool(judge.verdict(outputs, expected, REWRITTEN)["agrees"])


def told(found: dict[str, Any]) -> str:
    """The worst output of a verdict, in a few words."""
    rows = {name: row for name, row in found["tensors"].items() if row["wrong"] and row["max_abs"] is not None}
    if not rows:
        return str(found["reason"])
    name = max(rows, key=lambda name: rows[name]["worst"])
    return f"`{name}` is off by {rows[name]['max_abs']:.3g}, {rows[name]['worst']:.3g} times the bound"


def worst(found: dict[str, Any]) -> float | None:
    """The largest difference of a verdict; None if nothing could be compared."""
    return max((row["max_abs"] for row in found["tensors"].values() if row["max_abs"] is not None), default=None)
