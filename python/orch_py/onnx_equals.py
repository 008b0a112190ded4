"""Functions of torch while the legacy ONNX exporter traces: the same values, by operators that it has.

Whether the graph is right does not rest on them: ONNX Runtime repeats the reference with it before it is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.overrides import TorchFunctionMode

from orch_py import stand_ins
from orch_py.equals import complex_numbers, layers, places, values


class Equals(TorchFunctionMode):
    """While it is entered, torch computes by the functions of `orch_py.equals`; they themselves get torch's own.

    One that gives NotImplemented leaves these arguments to torch.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        by, kwargs = EQUALS.get(func) if stand_ins.are_allowed() else None, kwargs or {}
        if by is not None and (found := by(*args, **kwargs)) is not NotImplemented:
            stand_ins.note(func.__name__)
            return found
        # From one line, whatever it is: the exporter takes `x[0].copy_(y)` for a change of x where both calls come from
        # one place in the source, and here they would not come from the model's.
        return func(*args, **kwargs)


EQUALS: dict[Callable[..., Any], Callable[..., Any]] = {
    **values.EQUALS,
    **places.EQUALS,
    **layers.EQUALS,
    **complex_numbers.EQUALS,
}
