"""Functions of torch that litert-torch does not take, while it converts a model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch

from orch_py import stand_ins

# transformers' checks of values in the graph, by operators that litert-torch does not know (`_is_all_true`).
_UNCHECKED = {"TRANSFORMERS_DISABLE_TORCH_CHECK": "1"}


@contextmanager
def standing_in() -> Iterator[None]:
    """Functions of torch as equals that litert-torch takes: it knows no `masked_scatter`, which puts the features of an
    image in the place of its tokens, and stumbles over a `split` into one part and over routers of experts that cast
    their weights to the type that they have, neither of which changes anything."""
    to, splits = torch.nn.Module.to, {owner: owner.split for owner in (torch, torch.Tensor)}

    def masked_scatter(self: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        stand_ins.note("masked_scatter")
        mask = mask.expand(self.shape)
        place = (mask.reshape(-1).to(torch.int32).cumsum(0) - 1).clamp(min=0)
        return torch.where(mask, source.reshape(-1).index_select(0, place).reshape(self.shape), self)

    def whole(owner: Any) -> Any:
        def split(tensor: torch.Tensor, split_size: Any = None, dim: int = 0, **named: Any) -> Any:
            sizes = named.get("split_size_or_sections", split_size)
            if isinstance(sizes, (list, tuple)) and len(sizes) == 1:
                stand_ins.note("split")
                return (tensor,)
            return splits[owner](tensor, sizes, dim)

        return split

    def cast(self: Any, *args: Any, **options: Any) -> Any:
        is_cast = args and isinstance(args[0], torch.dtype)
        if is_cast and all(weight.dtype == args[0] for weight in self.parameters()):
            stand_ins.note("to")
            return self
        return to(self, *args, **options)

    with (
        mock.patch.object(torch.nn.Module, "to", cast),
        mock.patch.object(torch.Tensor, "masked_scatter", masked_scatter),
        mock.patch.object(torch, "split", whole(torch)),
        mock.patch.object(torch.Tensor, "split", whole(torch.Tensor)),
        mock.patch.dict(os.environ, _UNCHECKED),
    ):
        yield
