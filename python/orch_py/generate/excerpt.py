"""An excerpt of a model's inputs, for questions that a part of a long text answers as well as all of it.

Whether a reference holds still, which layer has least effect and which inputs have none takes a dozen forward passes.
Of a language model and a long text each of them takes seconds to minutes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from orch_py.generate.torch_model import Named

# A forward pass of more products than that, by parameters and positions, takes about a second and more on one core.
_LONG = 20_000_000_000
# As many positions at the beginning of each text, and at its end, where masks hide some.
EDGE = 64


def is_long(parameters: int, inputs: Named) -> bool:
    """Whether a forward pass on these inputs takes long, as far as parameters, tokens and frames tell."""
    tokens = [value.numel() for value in _ids(inputs)]
    # Of `[batch, bins, frames]` or `[batch, frames, bins]`. Models of sounds merge two frames or more into a position.
    frames = [value.shape[0] * max(value.shape[1:]) // 2 for value in inputs.values() if _is_spectrum(value)]
    return parameters * max([1, *tokens, *frames]) >= _LONG


def of(inputs: Named) -> Named | None:
    """The inputs at the edges of the longest text; None where that is all of it, or where there is no text."""
    length = max((value.shape[1] for value in _ids(inputs)), default=0)
    if length <= 2 * EDGE:
        return None
    places = torch.cat([torch.arange(EDGE), torch.arange(length - EDGE, length)])

    def cut(value: torch.Tensor) -> torch.Tensor:
        for axis, size in enumerate(value.shape):
            if size == length:
                value = value.index_select(axis, places)
        return value

    return {name: cut(value) for name, value in inputs.items()}


def _ids(inputs: Named) -> Iterator[torch.Tensor]:
    return (value for value in inputs.values() if value.ndim == 2 and value.dtype == torch.int64)


def _is_spectrum(value: torch.Tensor) -> bool:
    return value.ndim == 3 and value.is_floating_point()


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def all_cores(are_used: bool) -> Iterator[None]:
    """Lets torch compute with every core that the process may use, where `are_used`.

    Sums are then added in another order on hosts of other sizes, which rounding shows.
    """
    before = torch.get_num_threads()
    if are_used:
        torch.set_num_threads(cores())
    try:
        yield
    finally:
        torch.set_num_threads(before)
