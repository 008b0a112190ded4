"""The components of a model, as loaded from their trees, and the loop that is made of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from orch_py.generate import loops, torch_model
from orch_py.worker.protocol import Refused
from orch_py.worker.trees import Tensors


class Parts:
    """Components by name."""

    def __init__(self, trees: dict[str, Path]) -> None:
        self.trees = {name: torch_model.load_tree(tree) for name, tree in trees.items()}

    def __getitem__(self, name: str) -> Any:
        return self.trees[name].model

    def shape(self, name: str, value: str) -> tuple[int, ...]:
        """The shape of an input that a component was made for."""
        tensors = self.trees[name].inputs
        if value not in tensors:
            raise Refused("error", f"component `{name}` takes no `{value}`; it takes {', '.join(tensors)}")
        return tuple(tensors[value].shape)

    def call(self, name: str, given: Tensors) -> Tensors:
        """What a runtime makes of a component: only the inputs and outputs that its row declares, at their sizes."""
        tree = self.trees[name]
        named = {key: torch.from_numpy(np.ascontiguousarray(given[key])) for key in tree.inputs if key in given}
        for key, value in tree.inputs.items():
            if key not in named:
                raise Refused("error", f"component `{name}` takes `{key}`, which its loop does not give")
            if (named[key].shape, named[key].dtype) != (value.shape, value.dtype):
                had, wanted = (f"{one.dtype}{list(one.shape)}" for one in (named[key], value))
                raise Refused("error", f"`{key}` of component `{name}` is {had} in the loop, and its row says {wanted}")
        got = torch_model.select(torch_model.forward(tree.model, named), tree.outputs, name)
        return {key: value.numpy() for key, value in got.items()}


@dataclass
class Reference:
    """What the libraries' own code gives, and by which of it."""

    outputs: Tensors
    by: str
    # Of text what tells a tie from a wrong token (`orch_py.generation`).
    text: Tensors | None = None


@dataclass
class Made:
    """A loop in the making."""

    outputs: list[str]
    constants: Tensors
    # The output that is text.
    generates: str | None = None
    steps: list[dict[str, Any]] = field(default_factory=list)

    def call(self, component: str, given: dict[str, str], gives: dict[str, str], turn: int = 0) -> None:
        self._add({"call": component, "with": given, "gives": gives}, turn)

    def op(self, op: str, of: list[str], gives: str, turn: int = 0, **more: Any) -> None:
        self._add({"op": op, "of": of, "gives": gives, **more}, turn)

    def _add(self, step: dict[str, Any], turn: int) -> None:
        self.steps.append(step | ({"turn": turn} if turn else {}))

    @property
    def turns(self) -> list[int]:
        return sorted({step["turn"] for step in self.steps if "turn" in step})

    def written(self, without: int | None = None) -> dict[str, Any]:
        """As a tree holds it; or without one of its turns, which is wrong."""
        steps = [step for step in self.steps if without is None or step.get("turn") != without]
        text = {"generates": self.generates} if self.generates else {}
        return {"outputs": self.outputs, **text, "steps": steps}

    def run(self, parts: Parts, inputs: Tensors, without: int | None = None) -> Tensors:
        return loops.run_loop(self.written(without), inputs | self.constants, parts.call)
