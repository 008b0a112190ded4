"""What layers compute: windows, patches, pools, norms, attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from orch_py.stand_ins.untraced import untraced


def _unfolded(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size`, one every `step`, as a last axis."""
    starts = torch.arange(0, self.shape[dimension] - size + 1, step)
    axes = list(range(self.ndim))
    axes.append(axes.pop(dimension))
    windows = torch.permute(self, axes)[..., starts[:, None] + torch.arange(size)]
    back = list(range(self.ndim - 1))
    back.insert(dimension % self.ndim, self.ndim - 1)
    return torch.permute(windows, [*back, self.ndim])


def _folded(input: Tensor, output_size: Any, kernel_size: Any, stride: Any = 1, **_: Any) -> Tensor:
    """Patches side by side are a picture again. The exporter cannot do more, and nor can this."""
    if kernel_size != stride or isinstance(kernel_size, int):
        return NotImplemented
    (height, width), (kernel_height, kernel_width) = output_size, kernel_size
    down, across = height // kernel_height, width // kernel_width
    parts = input.reshape(input.shape[0], -1, kernel_height, kernel_width, down, across)
    return torch.permute(parts, (0, 1, 4, 2, 5, 3)).reshape(input.shape[0], -1, height, width)


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


def _rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    axes = tuple(range(-len(normalized_shape), 0))
    least = torch.finfo(input.dtype).eps if eps is None else eps
    normed = input * torch.rsqrt(input.pow(2).mean(axes, keepdim=True) + least)
    return normed if weight is None else normed * weight


def _interpolated(input: Tensor, size: Any = None, scale_factor: Any = None, **how: Any) -> Tensor:
    """With antialiasing as two products with constants: each axis is a weighted sum of its own."""
    if not how.get("antialias") or size is None:
        return NotImplemented
    height, width = (int(each) for each in (size if isinstance(size, (list, tuple)) else (size, size)))
    with untraced():
        down, across = (
            functional.interpolate(torch.eye(have)[None, None], (want, have), **how)[0, 0]
            for have, want in ((int(input.shape[-2]), height), (int(input.shape[-1]), width))
        )
    return down.to(input.dtype) @ input @ across.to(input.dtype).mT


EQUALS: dict[Callable[..., Any], Callable[..., Any]] = {
    Tensor.unfold: _unfolded,
    Tensor.as_strided: _strided,
    torch.as_strided: _strided,
    torch._C._nn.pad_sequence: _padded,
    functional.embedding_bag: _bag,
    functional.max_pool2d: _max_pooled,
    functional.scaled_dot_product_attention: _attended,
    torch.rms_norm: _rms_norm,
    functional.rms_norm: _rms_norm,
    functional.fold: _folded,
    functional.interpolate: _interpolated,
}
