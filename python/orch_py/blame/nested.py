"""Values as modules take and give them: tensors within tuples, mappings and objects such as caches, and plain values.

The functions stand in the programs that show a fault without orch, so they know nothing of orch.
"""

from __future__ import annotations

import copy
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Hole:
    """The place of a tensor that was taken out of a value, by its number."""

    at: int


def mapped(value: Any, change: Callable[[Any], Any], known: dict[int, tuple[Any, Any]] | None = None) -> Any:
    """A copy of the value with `change(leaf)` for each tensor and each `Hole` in it. One that stands there twice is
    changed once. Modules, classes, functions and configs are not entered."""
    known = {} if known is None else known
    if id(value) in known:
        return known[id(value)][1]
    if isinstance(value, (torch.Tensor, Hole)):
        found = change(value)
    elif isinstance(value, tuple):
        parts = [mapped(each, change, known) for each in value]
        found = type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    elif isinstance(value, list):
        found = [mapped(each, change, known) for each in value]
    elif isinstance(value, dict):
        found = copy.copy(value)
        known[id(value)] = (value, found)
        for key, each in value.items():
            found[key] = mapped(each, change, known)
    elif hasattr(value, "__dict__") and not callable(value) and not isinstance(value, enum.Enum):
        if hasattr(value, "to_diff_dict"):
            return value
        found = copy.copy(value)
        known[id(value)] = (value, found)
        for name, each in vars(value).items():
            found.__dict__[name] = mapped(each, change, known)
    else:
        return value
    known[id(value)] = (value, found)
    return found


def flattened(value: Any) -> tuple[Any, list[torch.Tensor]]:
    """The value with holes for its tensors, and the tensors."""
    tensors: list[torch.Tensor] = []

    def take(tensor: torch.Tensor) -> Hole:
        tensors.append(tensor)
        return Hole(len(tensors) - 1)

    return mapped(value, take), tensors


def filled(value: Any, tensors: list[torch.Tensor]) -> Any:
    """The value with these tensors in its holes."""
    return mapped(value, lambda hole: tensors[hole.at])


def chosen(result: Any, names: list[str] | None) -> list[torch.Tensor]:
    """The tensors of these names among what a model gave, such as `logits` and `feature_maps.0`; all, without names."""
    if names is None:
        return flattened(result)[1]
    found = []
    for name in names:
        part = result
        for step in name.split("."):
            part = part[int(step)] if isinstance(part, (tuple, list)) else part[step]
        found.append(part)
    return found


class Called(torch.nn.Module):
    """A module as a function from tensors to a tuple of tensors. `given` are its positional and named arguments, with
    holes for the tensors."""

    def __init__(self, module: torch.nn.Module, given: Any, names: list[str] | None) -> None:
        super().__init__()
        self.module = module
        self.given = given
        self.names = names

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        args, named = filled(self.given, list(tensors))
        return tuple(chosen(self.module(*args, **named), self.names))
