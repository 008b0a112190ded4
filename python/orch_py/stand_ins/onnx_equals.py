"""Functions of torch while the legacy ONNX exporter traces: the same values, by operators that it has.

Whether the graph is right does not rest on them: ONNX Runtime repeats the reference with it before it is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from orch_py import stand_ins
from orch_py.stand_ins import complex_numbers, layers, places, values


class Equals(TorchFunctionMode):
    """While it is entered, torch computes by the functions of `orch_py.stand_ins`; they themselves get torch's own.

    One that gives NotImplemented leaves these arguments to torch.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        kwargs = kwargs or {}
        by = EQUALS.get(func) if _is_allowed(func) else None
        if by is not None and (found := by(*args, **kwargs)) is not NotImplemented:
            stand_ins.note(func.__name__)
            return found
        # From one line, whatever it is: the exporter takes `x[0].copy_(y)` for a change of x where both calls come from
        # one place in the source, and here they would not come from the model's.
        return func(*args, **kwargs)


def _is_allowed(func: Callable[..., Any]) -> bool:
    allowed = stand_ins.allowed()
    return allowed is stand_ins.Help.ALL or (allowed is stand_ins.Help.LACKING and func in LACKING)


EQUALS: dict[Callable[..., Any], Callable[..., Any]] = {
    **values.EQUALS,
    **places.EQUALS,
    **layers.EQUALS,
    **complex_numbers.EQUALS,
}

# Functions of `EQUALS` that end in an error for certain where torch's own is exported: the exporter has no operator for
# them at any opset, or writes a graph that is invalid by ONNX's types.
LACKING: frozenset[Callable[..., Any]] = frozenset(
    {
        torch.diff,
        Tensor.diff,
        torch.histc,
        Tensor.histc,
        torch.cummax,
        Tensor.cummax,
        torch.cummin,
        Tensor.cummin,
        torch.isin,
        torch.searchsorted,
        torch.linalg.solve_triangular,
        torch.expm1,
        Tensor.expm1,
        torch.cumsum,
        Tensor.cumsum,
    }
)
