"""What the modules of a PyTorch model take and give while it runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from orch_py.blame import nested
from orch_py.blame.nested import Hole

# The most calls of one module in one run that are kept.
MAX_CALLS = 4


@dataclass(frozen=True)
class Call:
    """One call of a module: its arguments with holes for the tensors, these tensors, and those that it gave."""

    given: Any
    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor]

    def is_like(self, other: Call) -> bool:
        """Whether both calls differ in nothing but the values of their tensors."""
        kinds = [[(value.shape, value.dtype) for value in call.inputs] for call in (self, other)]
        return kinds[0] == kinds[1] and _same(self.given, other.given)


def recorded(run: Callable[[], Any], modules: Mapping[str, torch.nn.Module]) -> dict[str, list[Call]]:
    """The first calls of these modules while `run` runs, by their paths, in the order in which they were first called.

    Tensors are copied before a module may change them.
    """
    found: dict[str, list[Call]] = {}
    begun: dict[str, list[tuple[Any, list[torch.Tensor]]]] = {path: [] for path in modules}

    def before(path: str) -> Callable[..., None]:
        def hook(_: Any, args: Any, named: Any) -> None:
            calls = found.setdefault(path, [])
            # What is not kept is not copied.
            is_kept = len(calls) + len(begun[path]) < MAX_CALLS
            begun[path].append(_copied((args, named)) if is_kept else (None, []))

        return hook

    def after(path: str) -> Callable[..., None]:
        def hook(_: Any, args: Any, named: Any, result: Any) -> None:
            given, inputs = begun[path].pop()
            if given is not None:
                found[path].append(Call(given, inputs, _copied(result)[1]))

        return hook

    handles = []
    try:
        for path, module in modules.items():
            handles.append(module.register_forward_pre_hook(before(path), with_kwargs=True))
            handles.append(module.register_forward_hook(after(path), with_kwargs=True))
        run()
    finally:
        for handle in handles:
            handle.remove()
    return {path: calls for path, calls in found.items() if calls}


def called(run: Callable[[], Any], modules: Mapping[str, torch.nn.Module]) -> list[str]:
    """The paths of those modules that are called while `run` runs, in the order of their first calls."""
    found: dict[str, None] = {}
    handles = [
        module.register_forward_pre_hook(lambda *_, path=path: found.setdefault(path))  # type: ignore[misc]
        for path, module in modules.items()
    ]
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    return list(found)


@contextmanager
def replaced(
    module: torch.nn.Module, compute: Callable[[int, list[torch.Tensor]], list[torch.Tensor] | None]
) -> Iterator[None]:
    """While it is entered, the module gives the tensors that `compute` gives for the number of a call and its tensors;
    its own where that is None."""
    begun: list[list[torch.Tensor]] = []
    number = 0

    def before(_: Any, args: Any, named: Any) -> None:
        begun.append(_copied((args, named))[1])

    def after(_: Any, args: Any, named: Any, result: Any) -> Any:
        nonlocal number
        given, own = nested.flattened(result)
        others = compute(number, begun.pop())
        number += 1
        if others is None or len(others) != len(own):
            return None
        return nested.filled(given, [value.to(old.dtype) for value, old in zip(others, own, strict=True)])

    handles = [
        module.register_forward_pre_hook(before, with_kwargs=True),
        module.register_forward_hook(after, with_kwargs=True),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def nearest(module: torch.nn.Module, path: str, called: Collection[str]) -> dict[str, torch.nn.Module]:
    """The modules below this one that were called, by their paths, without those below them. Lists of modules, which
    are never called, are looked into."""
    found: dict[str, torch.nn.Module] = {}
    for name, child in module.named_children():
        below = f"{path}.{name}" if path else name
        found |= {below: child} if below in called else nearest(child, below, called)
    return found


def _copied(value: Any) -> tuple[Any, list[torch.Tensor]]:
    given, tensors = nested.flattened(value)
    return given, [tensor.detach().clone() for tensor in tensors]


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, Hole) or not hasattr(one, "__dict__") or callable(one) or hasattr(one, "to_diff_dict"):
        return bool(one == other)
    return _same(vars(one), vars(other))
