"""The `round` that tensors lack, while a model is traced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from orch_py import stand_ins


@contextmanager
def of_sizes() -> Iterator[None]:
    """While tracing, a size is a tensor in disguise, and tensors lack the `round` by which models reckon with sizes."""
    if hasattr(torch.Tensor, "__round__") or not stand_ins.are_allowed():
        yield
        return

    def rounded(self: torch.Tensor, digits: int | None = None) -> float:
        stand_ins.note("round")
        return round(self.item(), digits)

    torch.Tensor.__round__ = rounded  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del torch.Tensor.__round__  # type: ignore[attr-defined]
