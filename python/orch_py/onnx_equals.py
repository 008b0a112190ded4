"""Functions of torch while the legacy ONNX exporter traces: the same values, by operators that it has.

Whether the graph is right does not rest on them: ONNX Runtime repeats the reference with it before it is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class Equals(TorchFunctionMode):
    """While it is entered, torch computes by the functions of this file; they themselves get torch's own.

    One that gives NotImplemented leaves these arguments to torch.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        by, kwargs = EQUALS.get(func), kwargs or {}
        if by is not None and (found := by(*args, **kwargs)) is not NotImplemented:
            return found
        # From one line, whatever it is: the exporter takes `x[0].copy_(y)` for a change of x where both calls come from
        # one place in the source, and here they would not come from the model's.
        return func(*args, **kwargs)


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


def _diff(input: Tensor, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    joined = torch.cat([part for part in (prepend, input, append) if part is not None], dim)
    for _ in range(n):
        size = joined.shape[dim]
        joined = joined.narrow(dim, 1, size - 1) - joined.narrow(dim, 0, size - 1)
    return joined


def _summed(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """ONNX sums no booleans."""
    return torch.cumsum(self.to(torch.int64) if self.dtype is torch.bool else self, *args, **kwargs)


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


def _unfolded(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size`, one every `step`, as a last axis."""
    starts = torch.arange(0, self.shape[dimension] - size + 1, step)
    axes = list(range(self.ndim))
    axes.append(axes.pop(dimension))
    windows = torch.permute(self, axes)[..., starts[:, None] + torch.arange(size)]
    back = list(range(self.ndim - 1))
    back.insert(dimension % self.ndim, self.ndim - 1)
    return torch.permute(windows, [*back, self.ndim])


def _strided(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Of the values in their order in memory, which strides count in. The exporter takes the order of the shape."""
    laid = torch.permute(input, tuple(sorted(range(input.ndim), key=lambda axis: -input.stride(axis))))
    return laid.as_strided(*args, **kwargs) if laid.is_contiguous() else NotImplemented


def _padded(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    longest = max(int(each.shape[0]) for each in sequences)

    def filled(each: Tensor) -> Tensor:
        lacks = longest - int(each.shape[0])
        sides = (lacks, 0) if padding_side == "left" else (0, lacks)
        return functional.pad(each, (0, 0) * (each.ndim - 1) + sides, value=padding_value) if lacks else each

    return torch.stack([filled(each) for each in sequences], 0 if batch_first else 1)


def _bag(
    input: Tensor,
    weight: Tensor,
    offsets: Any = None,
    *,
    mode: str = "mean",
    per_sample_weights: Tensor | None = None,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    **_: Any,
) -> Tensor:
    """The sum of each row's embeddings. The exporter makes it a loop over the rows."""
    if mode != "sum" or input.ndim != 2 or not (padding_idx is max_norm is None):
        return NotImplemented
    rows = functional.embedding(input, weight)
    return (rows if per_sample_weights is None else rows * per_sample_weights.unsqueeze(-1)).sum(1)


def _max_pooled(input: Tensor, *args: Any, **how: Any) -> Tensor:
    """Of one picture: ONNX pools batches only."""
    if input.ndim != 3 or how.get("return_indices"):
        return NotImplemented
    pooled: Tensor = functional.max_pool2d(input.unsqueeze(0), *args, **how)
    return pooled.squeeze(0)


def _attended(query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None, **how: Any) -> Tensor:
    """0 for a query that may look at nothing, as torch has it. The exporter gives NaN."""
    scale = how.pop("scale", None)
    if attn_mask is None or attn_mask.dtype is not torch.bool or any(how.values()):
        return NotImplemented
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    weights = scores.masked_fill(~attn_mask, torch.finfo(scores.dtype).min).softmax(-1)
    return weights.masked_fill(~attn_mask, 0.0) @ value


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


def _rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    axes = tuple(range(-len(normalized_shape), 0))
    least = torch.finfo(input.dtype).eps if eps is None else eps
    normed = input * torch.rsqrt(input.pow(2).mean(axes, keepdim=True) + least)
    return normed if weight is None else normed * weight


def _expm1(self: Tensor) -> Tensor:
    """By its first terms where `exp(x) - 1` would lose its digits."""
    near = self * (1 + self / 2 * (1 + self / 3 * (1 + self / 4)))
    return torch.where(self.abs() < 0.02, near, torch.exp(self) - 1)


def _isin(elements: Tensor, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    among = torch.as_tensor(test_elements).reshape(-1)
    found = (torch.as_tensor(elements).unsqueeze(-1) == among).any(-1)
    return ~found if invert else found


def _index_added(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """The exporter refuses an index that stands there twice."""
    shape = [1] * self.ndim
    shape[dim] = -1
    return self.scatter_add(dim, index.reshape(shape).expand_as(source), source * alpha)


def _index_added_in_place(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    return self.copy_(_index_added(self, dim, index, source, alpha=alpha))


def _searched(sorted_sequence: Tensor, input: Any, *, out_int32: bool = False, right: bool = False, **_: Any) -> Tensor:
    """How many values stand before."""
    values = torch.as_tensor(input).unsqueeze(-1)
    among = sorted_sequence.unsqueeze(-2) if values.ndim > 1 else sorted_sequence
    before = among <= values if right else among < values
    return before.sum(-1, dtype=torch.int32 if out_int32 else torch.int64)


def _scattered(self: Tensor, dim: int, index: Tensor, src: Any = None, **kwargs: Any) -> Tensor:
    """The tracer takes no booleans as numbers."""
    value = kwargs.pop("value", src)
    return self.scatter(dim, index, int(value) if isinstance(value, bool) else value, **kwargs)


def _full(size: Any, fill_value: Any, **kwargs: Any) -> Tensor:
    """Of the value's type. The exporter takes all that has no type for floats."""
    kwargs.setdefault("dtype", torch.tensor(fill_value).dtype)
    return torch.full(size, fill_value, **kwargs)


def _full_like(input: Tensor, fill_value: Any, **kwargs: Any) -> Tensor:
    kwargs.setdefault("dtype", input.dtype)
    return torch.full_like(input, int(fill_value) if isinstance(fill_value, bool) else fill_value, **kwargs)


def _folded(input: Tensor, output_size: Any, kernel_size: Any, stride: Any = 1, **_: Any) -> Tensor:
    """Patches side by side are a picture again. The exporter cannot do more, and nor can this."""
    if kernel_size != stride or isinstance(kernel_size, int):
        return NotImplemented
    (height, width), (kernel_height, kernel_width) = output_size, kernel_size
    down, across = height // kernel_height, width // kernel_width
    parts = input.reshape(input.shape[0], -1, kernel_height, kernel_width, down, across)
    return torch.permute(parts, (0, 1, 4, 2, 5, 3)).reshape(input.shape[0], -1, height, width)


def _interpolated(input: Tensor, size: Any = None, scale_factor: Any = None, **how: Any) -> Tensor:
    """With antialiasing as two products with constants: each axis is a weighted sum of its own."""
    if not how.get("antialias") or size is None:
        return NotImplemented
    height, width = (int(each) for each in (size if isinstance(size, (list, tuple)) else (size, size)))
    with _untraced():
        down, across = (
            functional.interpolate(torch.eye(have)[None, None], (want, have), **how)[0, 0]
            for have, want in ((int(input.shape[-2]), height), (int(input.shape[-1]), width))
        )
    return down.to(input.dtype) @ input @ across.to(input.dtype).mT


class _Complex:
    """What rotary embeddings and spectra do with complex numbers, on pairs of real ones: the exporter has no others."""

    def __init__(self, real: Tensor, imaginary: Tensor) -> None:
        self.real, self.imaginary = real, imaginary

    @classmethod
    def of(cls, pairs: Tensor) -> _Complex:
        return cls(pairs[..., 0], pairs[..., 1])

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if func is torch.view_as_real:
            return torch.stack((args[0].real, args[0].imaginary), -1)
        if func in (Tensor.__mul__, Tensor.mul, torch.mul):
            return args[1] * args[0]
        if func is torch.conj:
            return cls(args[0].real, -args[0].imaginary)
        return NotImplemented

    def __mul__(self, other: _Complex | Tensor | float) -> _Complex:
        if isinstance(other, Tensor) and other.is_complex():
            # Only what a model was made with is such a tensor.
            with _untraced():
                other = _Complex(other.real.clone(), other.imag.clone())
        if not isinstance(other, _Complex):
            return self._each(lambda part: part * other)
        real = self.real * other.real - self.imaginary * other.imaginary
        return _Complex(real, self.real * other.imaginary + self.imaginary * other.real)

    def __getitem__(self, key: Any) -> _Complex:
        return self._each(lambda part: part[key])

    def __getattr__(self, name: str) -> Any:
        """`shape` and the like are those of a part; methods such as `unsqueeze` give both parts."""
        found = getattr(self.real, name)
        if not callable(found):
            return found
        return lambda *args, **kwargs: self._each(lambda part: getattr(part, name)(*args, **kwargs))

    def _each(self, change: Callable[[Tensor], Tensor]) -> _Complex:
        return _Complex(change(self.real), change(self.imaginary))


def _polar(abs: Tensor, angle: Tensor) -> _Complex:
    return _Complex(abs * torch.cos(angle), abs * torch.sin(angle))


def _spectrum(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """As two products with constants, of cosines and of sines."""
    size = int(input.shape[dim])
    if norm is not None or n not in (None, size):
        return NotImplemented
    cosines, sines = _waves(size)
    values = input.transpose(dim, -1)
    return _Complex((values @ cosines).transpose(dim, -1), -(values @ sines).transpose(dim, -1))


def _signal(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """What has that spectrum."""
    size = 2 * (int(input.shape[dim]) - 1) if n is None else int(n)
    if norm is not None or not isinstance(input, _Complex) or size // 2 + 1 != input.shape[dim]:
        return NotImplemented
    cosines, sines = _waves(size)
    with _untraced():
        # Each wave stands for itself and the one that mirrors it, but for the first and, of an even size, the last.
        times = torch.full((size // 2 + 1,), 2.0 / size)
        times[0] = times[-1] = 1.0 / size
        if size % 2:
            times[-1] = 2.0 / size if size > 1 else 1.0
        cosines, sines = (cosines * times).mT.contiguous(), (sines * times).mT.contiguous()
    real, imaginary = (part.transpose(dim, -1) for part in (input.real, input.imaginary))
    return (real @ cosines - imaginary @ sines).transpose(dim, -1)


def _waves(size: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the real Fourier transform, a column a frequency."""
    with _untraced():
        times, frequencies = torch.arange(size), torch.arange(size // 2 + 1)
        angles = (torch.outer(times, frequencies) % size).double() * (2 * torch.pi / size)
        return torch.cos(angles).float(), torch.sin(angles).float()


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
    with _untraced():
        count, order = int(flat.sum()), torch.arange(flat.numel(), 0, -1, dtype=torch.float32)
    return flat.numel() - (order * flat).topk(count).values.to(torch.int64)


@contextmanager
def _untraced() -> Iterator[None]:
    """What is computed meanwhile is a constant of the graph."""
    state = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)
    try:
        yield
    finally:
        torch._C._set_tracing_state(state)


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
    with _untraced():
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
    with _untraced():
        return torch.linspace(float(start), float(end), int(steps), dtype=dtype)


def _eye(n: Any, m: Any = None, **how: Any) -> Tensor:
    """A constant: ONNX Runtime makes none of booleans."""
    with _untraced():
        return torch.eye(int(n), int(n if m is None else m), **how)


EQUALS: dict[Callable[..., Any], Callable[..., Any]] = {
    Tensor.masked_scatter: _masked_scatter,
    torch.masked_scatter: _masked_scatter,
    Tensor.cumsum: _summed,
    torch.cumsum: _summed,
    torch.diff: _diff,
    Tensor.diff: _diff,
    Tensor.repeat_interleave: _repeated,
    torch.repeat_interleave: _repeated,
    Tensor.permute: _permuted,
    torch.permute: _permuted,
    Tensor.unfold: _unfolded,
    Tensor.as_strided: _strided,
    torch.as_strided: _strided,
    torch._C._nn.pad_sequence: _padded,
    functional.embedding_bag: _bag,
    functional.max_pool2d: _max_pooled,
    functional.scaled_dot_product_attention: _attended,
    torch.linalg.solve_triangular: _solve_triangular,
    torch.rms_norm: _rms_norm,
    functional.rms_norm: _rms_norm,
    torch.expm1: _expm1,
    Tensor.expm1: _expm1,
    torch.isin: _isin,
    Tensor.index_add: _index_added,
    torch.index_add: _index_added,
    Tensor.index_add_: _index_added_in_place,
    torch.searchsorted: _searched,
    Tensor.scatter: _scattered,
    torch.scatter: _scattered,
    torch.full: _full,
    torch.full_like: _full_like,
    functional.fold: _folded,
    functional.interpolate: _interpolated,
    torch.polar: _polar,
    torch.view_as_complex: _Complex.of,
    torch.fft.rfft: _spectrum,
    torch.fft.irfft: _signal,
    torch.topk: _topk,
    Tensor.topk: _topk,
    Tensor.__getitem__: _got,
    Tensor.__setitem__: _put,
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
