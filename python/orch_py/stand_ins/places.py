"""Values put to places and got from them, by masks and by numbers; each graph has fixed shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from orch_py.stand_ins.untraced import untraced


def _masked_scatter(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Puts an image's features in the place of its tokens. The exporter makes it NonZero, whose output has no fixed
    shape, and no NPU compiles that.
    """
    if source.numel() == 0:
        return self.clone()
    mask = mask.expand(self.shape)
    # A mask that was expanded over the last axis picks whole rows, of which there are fewer to count than values.
    whole_rows = mask.ndim > 1 and mask.stride(-1) == 0 and source.numel() % mask.shape[-1] == 0
    width = mask.shape[-1] if whole_rows else 1
    # int32, and 0 where nothing is taken: WebGPU sums no int64 and slices no integers, WebNN bounds none.
    chosen = mask.to(torch.int32)
    chosen = (chosen.select(-1, 0) if whole_rows else chosen).reshape(-1)
    place = (torch.cumsum(chosen, 0, dtype=torch.int32) - 1) * chosen
    return torch.where(mask, source.reshape(-1, width)[place].reshape(self.shape), self)


def _got(self: Tensor, key: Any) -> Tensor:
    """The rows that a mask picks. Their number is fixed when the model is traced, so that the shape is."""
    if (mask := _row_mask(self, key)) is None:
        return NotImplemented
    return self.flatten(0, mask.ndim - 1).index_select(0, _places(mask))


def _put(self: Tensor, key: Any, value: Any) -> Any:
    if isinstance(value, Tensor) and value.numel() == 0:
        # Into no place. The exporter would divide by their number.
        return None
    if (mask := _row_mask(self, key)) is not None:
        if not isinstance(value, Tensor):
            # The exporter would lay the mask along the last axes.
            return self.copy_(self.masked_fill(mask.reshape(*mask.shape, *[1] * (self.ndim - mask.ndim)), value))
        if value.ndim != self.ndim - mask.ndim + 1:
            return NotImplemented
        return self.copy_(_with_rows(self, mask.ndim, _places(mask), value))
    if not isinstance(key, tuple) or not isinstance(value, Tensor):
        return NotImplemented
    *before, last = key
    if _is_mask(last) and all(isinstance(each, (int, slice)) for each in before) and len(key) == self.ndim:
        part = self[tuple(before)]
        self[tuple(before)] = part.scatter(-1, _places(last).expand_as(value), value.to(self.dtype))
        return None
    places = [each for each in key if isinstance(each, Tensor) and not each.is_floating_point() and not _is_mask(each)]
    if len(places) < 2 or any(each != slice(None) for each in key[len(places) :]):
        return NotImplemented
    at = _joined(places, self.shape)
    if value.shape != (*at.shape, *self.shape[len(places) :]):
        return NotImplemented
    return self.copy_(_with_rows(self, len(places), at.reshape(-1), value))


def _with_rows(self: Tensor, axes: int, at: Tensor, rows: Tensor) -> Tensor:
    """Other rows at places of the first axes, taken as one."""
    flat = self.flatten(0, axes - 1)
    rows = rows.to(self.dtype).reshape(-1, *flat.shape[1:])
    index = at.reshape(-1, *[1] * (flat.ndim - 1)).expand_as(rows)
    return flat.scatter(0, index, rows).reshape(self.shape)


def _joined(places: list[Tensor], shape: torch.Size) -> Tensor:
    """Places along several axes as places along one."""
    at = places[0]
    for size, each in zip(shape[1:], places[1:], strict=False):
        at = at * size + each
    return at


def _is_mask(key: Any) -> bool:
    return isinstance(key, Tensor) and key.dtype is torch.bool and key.ndim == 1


def _row_mask(self: Tensor, key: Any) -> Tensor | None:
    """The mask in `self[mask]` and `self[mask, :]`."""
    first, *rest = key if isinstance(key, tuple) else (key,)
    if isinstance(first, Tensor) and first.dtype is torch.bool and 0 < first.ndim <= self.ndim:
        if all(isinstance(each, slice) and each == slice(None) for each in rest):
            return first
    return None


def _places(mask: Tensor) -> Tensor:
    """Where the mask holds, in order."""
    flat = mask.reshape(-1)
    with untraced():
        count, order = int(flat.sum()), torch.arange(flat.numel(), 0, -1, dtype=torch.float32)
    return flat.numel() - (order * flat).topk(count).values.to(torch.int64)


def _index_added(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """The exporter refuses an index that stands there twice."""
    shape = [1] * self.ndim
    shape[dim] = -1
    return self.scatter_add(dim, index.reshape(shape).expand_as(source), source * alpha)


def _index_added_in_place(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    return self.copy_(_index_added(self, dim, index, source, alpha=alpha))


def _scattered(self: Tensor, dim: int, index: Tensor, src: Any = None, **kwargs: Any) -> Tensor:
    """The tracer takes no booleans as numbers."""
    value = kwargs.pop("value", src)
    return self.scatter(dim, index, int(value) if isinstance(value, bool) else value, **kwargs)


def _isin(elements: Tensor, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    among = torch.as_tensor(test_elements).reshape(-1)
    found = (torch.as_tensor(elements).unsqueeze(-1) == among).any(-1)
    return ~found if invert else found


def _searched(sorted_sequence: Tensor, input: Any, *, out_int32: bool = False, right: bool = False, **_: Any) -> Tensor:
    """How many values stand before."""
    values = torch.as_tensor(input).unsqueeze(-1)
    among = sorted_sequence.unsqueeze(-2) if values.ndim > 1 else sorted_sequence
    before = among <= values if right else among < values
    return before.sum(-1, dtype=torch.int32 if out_int32 else torch.int64)


EQUALS: dict[Callable[..., Any], Callable[..., Any]] = {
    Tensor.masked_scatter: _masked_scatter,
    torch.masked_scatter: _masked_scatter,
    torch.isin: _isin,
    Tensor.index_add: _index_added,
    torch.index_add: _index_added,
    Tensor.index_add_: _index_added_in_place,
    torch.searchsorted: _searched,
    Tensor.scatter: _scattered,
    torch.scatter: _scattered,
    Tensor.__getitem__: _got,
    Tensor.__setitem__: _put,
}
