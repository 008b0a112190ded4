"""What a reference is worth: whether it holds still when it is computed again or more exactly, and what it looks like
when one of the model's repeated layers does nothing. Knows nothing of trees and jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

from orch_py import judge, torch_model, trees
from orch_py.protocol import Refused, first_line, listed
from orch_py.torch_model import Named
from orch_py.trees import Tensors

# A tenth of what fp32 runs are allowed: so much of it may be the reference's own doing. 20 dB are a factor of 10. Of
# tokens one in a hundred may be as near to another as rounding in fp32 is large.
STEADY = {"atol": 1e-4, "rtol": 1e-4, "budget": 0.0, "cosine": 0.99999, "snr": 70.0, "tokens": 0.99}
# Of the memory that is free, what weights in fp64 may take.
_MEMORY_SHARE = 0.5
# As many layers are tried, spread over all of them.
_MOST_LAYERS = 8
# Each of them costs a forward pass.
_MOST_PARAMETERS = 1_000_000_000
# Outputs that a layer moves by less of their scale are those of a layer that has no part in them.
LEAST_EFFECT = 1e-6
# From so many times the bound on, it is no rounding that has grown but another choice.
_JUMP = 50.0
_CHOICES = ("topk", "sort", "argsort", "argmax", "argmin", "msort", "kthvalue", "unique", "nonzero", "round", "floor")
_DRAWS = ("rand", "randn", "rand_like", "randn_like", "randint", "randperm", "normal", "normal_", "uniform_")
_DRAWS += ("bernoulli", "bernoulli_", "multinomial", "exponential_", "gumbel_softmax")


class _Calls(TorchFunctionMode):
    """Notes which functions of torch are called by these names."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self.names = names
        self.seen: set[str] = set()

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if (name := getattr(func, "__name__", "")) in self.names:
            self.seen.add(name)
        return func(*args, **(kwargs or {}))


def require_steady(
    model: PreTrainedModel, inputs: Named, reference: Tensors, tokens: Collection[str] = ()
) -> dict[str, Any]:
    """Refuses a reference that another forward pass, or one in fp64, does not repeat. Leaves the model in fp64.

    Gives how far fp64 is from it, or why that is not known.
    """
    cls = type(model).__name__
    found = judge.verdict(_computed(model, inputs, reference), reference, STEADY)
    if not found["agrees"]:
        calls = _called(model, inputs, _DRAWS)
        why = f"its forward draws random numbers (`{calls[0]}`)" if calls else "its forward keeps or draws something"
        raise Refused("numerics", f"{_off(found)} between two forward passes on the same inputs: {why}, {_so(cls)}")
    if reason := _too_large(model):
        return {"skipped": reason}
    try:
        with _fp64():
            if hasattr(model, "set_experts_implementation") and model._can_set_experts_implementation():
                # The library's default for experts is a kernel without fp64.
                model.set_experts_implementation("eager")
            model.double()
            doubled = {name: value.double() if value.is_floating_point() else value for name, value in inputs.items()}
            exact = _computed(model, doubled, reference)
    except Exception as error:  # noqa: BLE001 - models that fix dtypes in their code fail in any way.
        return {"skipped": f"{cls} does not run in fp64: {first_line(error)}"}
    for name, value in exact.items():
        # Masks of fp64's lowest number, added up. The reference holds none.
        if wrong := trees.not_a_number(name, value):
            return {"skipped": f"in fp64 {wrong}"}
    exact = {name: value.astype(reference[name].dtype, copy=False) for name, value in exact.items()}
    found = judge.verdict(reference, exact, STEADY, tokens)
    if not found["agrees"]:
        with _fp64():
            calls = _called(model, doubled, _CHOICES)
        raise Refused("numerics", f"{_off(found)} between fp32 and fp64: {_likely(found, calls)}, {_so(cls)}")
    worst = max(found["tensors"], key=lambda name: found["tensors"][name]["worst"] or 0.0)
    return {"max_abs": found["tensors"][worst]["max_abs"], "output": worst}


def _computed(model: PreTrainedModel, inputs: Named, reference: Tensors) -> Tensors:
    got = torch_model.select(torch_model.forward(model, inputs), list(reference), type(model).__name__)
    return {name: value.numpy() for name, value in got.items()}


@contextmanager
def _fp64() -> Iterator[None]:
    """Tensors that a model makes as it goes are of this type then too."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _called(model: PreTrainedModel, inputs: Named, names: tuple[str, ...]) -> list[str]:
    with _Calls(names) as calls:
        torch_model.forward(model, inputs)
    return sorted(calls.seen, key=names.index)


def _off(found: dict[str, Any]) -> str:
    """Which output is off by how much."""
    wrong = {name: row for name, row in found["tensors"].items() if row["wrong"]}
    name = max(wrong, key=lambda name: wrong[name]["worst"] or 0.0)
    row = wrong[name]
    if row["max_abs"] is None:
        return f"output `{name}` differs ({row['wrong']})"
    return f"output `{name}` differs by {row['max_abs']:.3g} (its scale is {row['scale']:.3g})"


def _likely(found: dict[str, Any], calls: list[str]) -> str:
    scales = [row["scale"] for row in found["tensors"].values() if row["wrong"] and row["max_abs"] is not None]
    if scales and max(scales) < np.finfo(np.float32).tiny:
        return "it vanishes below what fp32 holds in full; a larger `initializer_range` keeps it, if the config has one"
    if max(row["worst"] or 0.0 for row in found["tensors"].values()) < _JUMP:
        return "rounding errors grow that much in it"
    if calls:
        return f"values jump, likely by ties in {listed(calls[:3])}, which rounding decides"
    return "values jump, so a choice of the model is decided by rounding"


def _so(cls: str) -> str:
    return f"so no run of {cls} can be compared with it; change the config, seed or inputs"


def _too_large(model: PreTrainedModel) -> str | None:
    tensors = [*model.parameters(), *model.buffers()]
    needed = 8 * sum(tensor.numel() for tensor in tensors if tensor.is_floating_point())
    free = _available_memory()
    if free is None or needed <= _MEMORY_SHARE * free:
        return None
    return f"its weights take {needed / 2**30:.1f} GiB in fp64, and {free / 2**30:.1f} GiB of memory are free"


def _available_memory() -> int | None:
    """What the system could still give, within the limit of the container; None where it does not tell."""
    status, limit = Path("/proc/meminfo"), Path("/sys/fs/cgroup/memory.max")
    if not status.exists():
        return None
    line = next((line for line in status.read_text().splitlines() if line.startswith("MemAvailable:")), None)
    free = int(line.split()[1]) * 1024 if line else None
    if free is not None and limit.exists() and (told := limit.read_text().strip()).isdigit():
        free = min(free, int(told) - int((limit.parent / "memory.current").read_text()))
    return free


def without_a_layer(
    model: PreTrainedModel, inputs: Named, reference: Tensors
) -> tuple[str | None, Tensors | None, str | None]:
    """The repeated layer of least effect, and the outputs when all its parameters are 0; or why there are none."""
    return least_layer(model, lambda: _computed(model, inputs, reference), reference)


def least_layer(
    model: PreTrainedModel, computed: Callable[[], Tensors], reference: Tensors
) -> tuple[str | None, Tensors | None, str | None]:
    """The same of a model that is a part of what is `computed`."""
    if sum(parameter.numel() for parameter in model.parameters()) > _MOST_PARAMETERS:
        return None, None, f"not tried, as the model has more than {_MOST_PARAMETERS:.0e} parameters"
    layers = _layers(model)
    if not layers:
        return None, None, "the model has no list of layers"
    chosen = sorted({round(place) for place in np.linspace(0, len(layers) - 1, min(len(layers), _MOST_LAYERS))})
    least, found = np.inf, (None, None, "no layer that was tried has an effect on the outputs")
    for name, layer in (layers[place] for place in chosen):
        try:
            with zeroed(layer):
                got = computed()
        except Exception as error:  # noqa: BLE001 - a model may refuse to work with zeros in any way.
            print(f"without `{name}` the model does not run: {first_line(error)}", flush=True)
            continue
        moved = effect(got, reference)
        if LEAST_EFFECT < moved < least:
            least, found = moved, (name, got, None)
    return found


def _layers(model: PreTrainedModel) -> list[tuple[str, torch.nn.Module]]:
    """The elements of the outermost lists of modules that have weights. Experts and the like lie within them."""
    lists: list[str] = []
    layers = []
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.ModuleList) and not any(name.startswith(f"{above}.") for above in lists):
            lists.append(name)
            layers += [
                (f"{name}.{key}", child)
                for key, child in module.named_children()
                if next(child.parameters(), None) is not None
            ]
    return layers


@contextmanager
def zeroed(layer: torch.nn.Module) -> Iterator[None]:
    """A layer whose parameters are all 0 for so long."""
    kept = [(parameter, parameter.detach().clone()) for parameter in layer.parameters()]
    with torch.no_grad():
        for parameter, _ in kept:
            parameter.zero_()
        try:
            yield
        finally:
            for parameter, value in kept:
                parameter.copy_(value)


def effect(got: Tensors, reference: Tensors) -> float:
    """The largest change of an output in terms of its scale; 0 if it is not to be compared."""
    worst = 0.0
    for name, value in reference.items():
        row = judge.tensor_verdict(got[name], value, STEADY)
        if row["max_abs"] is None:
            return 0.0
        worst = max(worst, row["max_abs"] / row["scale"])
    return worst
