"""How far eager attention, which exporters want, is from the library's default, which users run and references are of.

For most models they are one function up to rounding. Where they are not, an export that was made with eager attention
is wrong by as much, and its reason says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orch_py.generate import torch_model
from orch_py.judge import judge
from orch_py.worker import trees

# An export is off by as much as eager attention is if neither is more than so many times the other.
_ABOUT = 2.0


@dataclass
class Difference:
    default: str
    # None where eager attention gives no numbers.
    max_abs: float | None
    scale: float
    agrees: bool

    @classmethod
    def of(cls, tree: Path) -> Difference:
        """Runs the model of the tree with both."""
        loaded = torch_model.load_tree(tree)
        default = torch_model.attention(loaded.model)
        reference = _outputs(loaded)
        found = judge.verdict(
            _outputs(torch_model.load_tree(tree, attn_implementation="eager")), reference, judge.TOLERANCES["fp32"]
        )
        rows = [row for row in found["tensors"].values() if row["max_abs"] is not None]
        if not rows:
            return cls(default, None, 1.0, found["agrees"])
        worst = max(rows, key=lambda row: row["max_abs"])
        return cls(default, worst["max_abs"], worst["scale"], found["agrees"])

    def explains(self, attempts: list[dict[str, Any]]) -> bool:
        """Whether an export that was made with eager attention is wrong by about as much."""
        if self.agrees or (own := self.max_abs) is None:
            return not self.agrees
        offs = [each["max_abs"] for each in attempts if each["attention"] == "eager" and each["max_abs"] is not None]
        return any(off <= _ABOUT * own and own <= _ABOUT * off for off in offs)

    def __str__(self) -> str:
        how = "in that it gives no numbers" if self.max_abs is None else f"by {self.max_abs:.3g} of {self.scale:.3g}"
        return f"eager attention, which the export needs, differs from transformers' default ({self.default}) {how}"


def _outputs(loaded: torch_model.Tree) -> trees.Tensors:
    got = torch_model.forward(loaded.model, loaded.inputs)
    chosen = torch_model.select(got, loaded.outputs, type(loaded.model).__name__)
    return {name: value.numpy() for name, value in chosen.items()}
