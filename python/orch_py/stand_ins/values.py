"""What is computed of single values, rows and constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from orch_py.stand_ins.untraced import untraced


def _diff(input: Tensor, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    joined = torch.cat([part for part in (prepend, input, append) if part is not None], dim)
    for _ in range(n):
        size = joined.shape[dim]
        joined = joined.narrow(dim, 1, size - 1) - joined.narrow(dim, 0, size - 1)
    return joined


def _summed(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Of booleans, which ONNX cannot sum. With a type for the sum the exporter converts them itself."""
    if self.dtype is not torch.bool or kwargs.get("dtype") is not None:
        return NotImplemented
    return torch.cumsum(self.to(torch.int64), *args, **kwargs)


def _repeated(self: Tensor, repeats: Any, dim: int | None = None, *, output_size: int | None = None) -> Tensor:
    """Every slice so many times. The exporter makes it a loop, whose output has no fixed shape."""
    if isinstance(repeats, Tensor) and repeats.ndim == 0:
        repeats = int(repeats)
    if not isinstance(repeats, int):
        return NotImplemented
    value, at = (self.reshape(-1), 0) if dim is None else (self, dim % self.ndim)
    before, after = value.shape[: at + 1], value.shape[at + 1 :]
    return value.unsqueeze(at + 1).expand(*before, repeats, *after).flatten(at, at + 1)


def _permuted(self: Tensor, *dims: Any) -> Tensor:
    """ONNX counts axes from the first only."""
    (dims,) = dims if len(dims) == 1 and not isinstance(dims[0], int) else (dims,)
    return torch.permute(self, tuple(dim % self.ndim for dim in dims))


def _moved(self: Tensor, source: Any, destination: Any) -> Tensor:
    """The exporter mistakes axes that are counted from the last."""
    if not isinstance(source, int) or not isinstance(destination, int):
        return NotImplemented
    axes = list(range(self.ndim))
    axes.insert(destination % self.ndim, axes.pop(source % self.ndim))
    return torch.permute(self, axes)


def _expm1(self: Tensor) -> Tensor:
    """By its first terms where `exp(x) - 1` would lose its digits."""
    near = self * (1 + self / 2 * (1 + self / 3 * (1 + self / 4)))
    return torch.where(self.abs() < 0.02, near, torch.exp(self) - 1)


def _full(size: Any, fill_value: Any, **kwargs: Any) -> Tensor:
    """Of the value's type. The exporter takes all that has no type for floats."""
    kwargs.setdefault("dtype", torch.tensor(fill_value).dtype)
    return torch.full(size, fill_value, **kwargs)


def _full_like(input: Tensor, fill_value: Any, **kwargs: Any) -> Tensor:
    kwargs.setdefault("dtype", input.dtype)
    return torch.full_like(input, int(fill_value) if isinstance(fill_value, bool) else fill_value, **kwargs)


def _topk(
    input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, **_: Any
) -> tuple[Tensor, Tensor]:
    """In order, whatever was asked: ONNX Runtime finds others in some inputs when it may leave them unsorted."""
    found: tuple[Tensor, Tensor] = torch.topk(input, k, dim, largest, True)
    return found


def _or(self: Tensor, other: Any) -> Tensor:
    """A value of its own: the exporter has no `|=`."""
    return self | other


def _and(self: Tensor, other: Any) -> Tensor:
    return self & other


def _both(self: Tensor, other: Any) -> Tensor:
    """Of two masks. The exporter takes some of them for integers, whose bits ONNX has had since opset 18 only."""
    masks = isinstance(other, Tensor) and self.dtype is other.dtype is torch.bool
    return torch.logical_and(self, other) if masks else NotImplemented


def _histogram(input: Tensor, bins: int = 100, min: float = 0, max: float = 0, **_: Any) -> Tensor:
    """How many values lie in each of `bins` equal parts; routers count their tokens so."""
    if min >= max:
        return NotImplemented
    values = input.reshape(-1, 1)
    part = torch.floor((values.to(torch.float32) - min) * (bins / (max - min))).clamp(max=bins - 1)
    inside = (part == torch.arange(bins)) & (values >= min) & (values <= max)
    return inside.sum(0).to(input.dtype)


def _cumulative_max(input: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The largest value so far, and its last place among those."""
    values = input.transpose(dim, -1)
    size = int(values.shape[-1])
    with untraced():
        later = torch.ones(size, size, dtype=torch.bool).triu(1)
        places = torch.arange(size)
    known = torch.where(later, values[..., :1, None], values.unsqueeze(-2))
    largest = known.amax(-1)
    chosen = (known == largest.unsqueeze(-1)) & ~later
    place = torch.where(chosen, places, places[:1]).amax(-1)
    return largest.transpose(dim, -1), place.transpose(dim, -1)


def _cumulative_min(input: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    largest, place = _cumulative_max(-input, dim)
    return -largest, place


def _spaced(start: Any, end: Any, steps: Any, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    """A constant: its ends are sizes, which are fixed. The exporter would reckon with them in double precision."""
    with untraced():
        return torch.linspace(float(start), float(end), int(steps), dtype=dtype)


def _eye(n: Any, m: Any = None, **how: Any) -> Tensor:
    """A constant: ONNX Runtime makes none of booleans."""
    with untraced():
        return torch.eye(int(n), int(n if m is None else m), **how)


def _solve_triangular(
    a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False, out: None = None
) -> Tensor:
    """Row by row, each from those that are solved."""
    if not left:
        solved = _solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unitriangular)
        return solved.mT
    if upper:
        return _solve_triangular(a.flip(-1, -2), b.flip(-2), upper=False, unitriangular=unitriangular).flip(-2)
    rows: list[Tensor] = []
    for at in range(a.shape[-1]):
        row = b[..., at : at + 1, :]
        if rows:
            row = row - a[..., at : at + 1, :at] @ torch.cat(rows, -2)
        rows.append(row if unitriangular else row / a[..., at : at + 1, at : at + 1])
    return torch.cat(rows, -2)


EQUALS: dict[Callable[..., Any], Callable[..., Any]] = {
    Tensor.cumsum: _summed,
    torch.cumsum: _summed,
    torch.diff: _diff,
    Tensor.diff: _diff,
    Tensor.repeat_interleave: _repeated,
    torch.repeat_interleave: _repeated,
    Tensor.movedim: _moved,
    torch.movedim: _moved,
    Tensor.permute: _permuted,
    torch.permute: _permuted,
    torch.linalg.solve_triangular: _solve_triangular,
    torch.expm1: _expm1,
    Tensor.expm1: _expm1,
    torch.full: _full,
    torch.full_like: _full_like,
    torch.topk: _topk,
    Tensor.topk: _topk,
    Tensor.__ior__: _or,
    Tensor.__iand__: _and,
    Tensor.__and__: _both,
    torch.bitwise_and: _both,
    torch.histc: _histogram,
    Tensor.histc: _histogram,
    torch.cummax: _cumulative_max,
    Tensor.cummax: _cumulative_max,
    torch.cummin: _cumulative_min,
    Tensor.cummin: _cumulative_min,
    torch.linspace: _spaced,
    torch.eye: _eye,
}
