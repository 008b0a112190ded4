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

from orch_py.generate import torch_model
from orch_py.generate.torch_model import Named
from orch_py.judge import judge
from orch_py.worker import trees
from orch_py.worker.protocol import Refused, first_line, listed
from orch_py.worker.trees import Tensors

# A tenth of what fp32 runs are allowed: so much of it may be the reference's own doing. 20 dB are a factor of 10. Of
# tokens one in a hundred may be as near to another as rounding in fp32 is large.
STEADY = {"atol": 1e-4, "rtol": 1e-4, "budget": 0.0, "cosine": 0.99999, "snr": 70.0, "tokens": 0.99}
# Of the memory that is free, what weights in fp64 may take.
_MEMORY_SHARE = 0.5
# As many layers are tried, spread over all of them.
_MOST_LAYERS = 8
# Each of them costs a forward pass: of models with more parameters than that, fewer are tried.
_LARGE = 1_000_000_000
_FEW_LAYERS = 3
# As many rows of a batch are exchanged alone.
_MOST_ROWS = 8
# A model of more parameters is not loaded twice.
MOST_LOADED_TWICE = 100_000_000
_OTHER_SEED = 20_011
# Names of inputs that say which places of another one count.
_MASKS = ("attention_mask", "decoder_attention_mask", "encoder_attention_mask", "input_mask", "padding_mask", "mask")
# Outputs that a layer moves by less of their scale are those of a layer that has no part in them.
LEAST_EFFECT = 1e-6
# From so many times the bound on, it is no rounding that has grown but another choice.
_JUMP = 50.0
_CHOICES = ("topk", "sort", "argsort", "argmax", "argmin", "msort", "kthvalue", "unique", "nonzero", "round", "floor")
_DRAWS = (
    *("rand", "randn", "rand_like", "randn_like", "randint", "randperm", "normal", "normal_", "uniform_"),
    *("bernoulli", "bernoulli_", "multinomial", "exponential_", "gumbel_softmax"),
)


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
    found = judge.verdict(computed(model, inputs, reference), reference, STEADY)
    if not found["agrees"]:
        calls = _called(model, inputs, _DRAWS)
        why = (
            f"its forward draws random numbers ({_quoted(calls)})" if calls else "its forward keeps or draws something"
        )
        raise Refused("indecisive", f"{_off(found)} between two forward passes on the same inputs: {why}, {_so(cls)}")
    if reason := _too_large(model):
        return {"skipped": reason}
    try:
        with _fp64():
            if hasattr(model, "set_experts_implementation") and model._can_set_experts_implementation():
                # The library's default for experts is a kernel without fp64.
                model.set_experts_implementation("eager")
            model.double()
            doubled = {name: value.double() if value.is_floating_point() else value for name, value in inputs.items()}
            exact = computed(model, doubled, reference)
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
        raise Refused("indecisive", f"{_off(found)} between fp32 and fp64: {_likely(found, calls)}, {_so(cls)}")
    worst = max(found["tensors"], key=lambda name: found["tensors"][name]["worst"] or 0.0)
    return {"max_abs": found["tensors"][worst]["max_abs"], "output": worst}


def computed(model: PreTrainedModel, inputs: Named, reference: Tensors) -> Tensors:
    """The outputs that the reference names, on these inputs."""
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


def _quoted(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def require_repeatable(load: Callable[[], PreTrainedModel], inputs: Named, reference: Tensors) -> None:
    """Refuses a reference that the same weights, loaded once more with other random numbers, do not repeat."""
    state = torch.random.get_rng_state()
    torch.manual_seed(_OTHER_SEED)
    try:
        model = load()
        found = judge.verdict(computed(model, inputs, reference), reference, STEADY)
    finally:
        torch.random.set_rng_state(state)
    if not found["agrees"]:
        why = "what it draws when it is built is not among its weights"
        raise Refused(
            "indecisive", f"{_off(found)} between two loads of the same weights: {why}, {_so(type(model).__name__)}"
        )


def require_without_effect(model: PreTrainedModel, names: list[str], inputs: Named, reference: Tensors) -> None:
    """Refuses a reference that depends on these parameters or buffers, all of which are zeros.

    Each is tried alone with random values in its place.
    """
    state = model.state_dict(keep_vars=True)
    generator = torch.Generator().manual_seed(_OTHER_SEED)
    for name in names:
        value = state[name]
        with torch.no_grad():
            value.copy_(torch.rand(value.shape, generator=generator) + 1.0)
        try:
            got = computed(model, inputs, reference)
        finally:
            torch_model.zero(model, [name])
        if _moved(got, reference):
            raise Refused(
                "error",
                f"the checkpoint lacks `{name}`, which `missing_weights` names, but the outputs of "
                f"{type(model).__name__} depend on it: take the class that the checkpoint was made by",
            )


def idle(model: PreTrainedModel, inputs: Named, control: Tensors, reference: Tensors) -> tuple[list[str], list[int]]:
    """Inputs, and rows of the batch, of which the control's values change no output: nothing shows that they matter."""
    other = {name: torch.from_numpy(value) for name, value in control.items()}
    changed = [name for name, value in inputs.items() if name in other and not torch.equal(value, other[name])]

    def moves(tried: Named) -> bool:
        try:
            return _moved(computed(model, tried, reference), reference)
        except Exception:  # noqa: BLE001 - what a model does not take alone tells nothing.
            return True

    # Another order of its values as well, since the control's may be the same in just the places that matter.
    inputs_idle = [
        name
        for name in changed
        if not moves({**inputs, name: other[name]})
        and not moves({**inputs, name: inputs[name].flatten().roll(1).view(inputs[name].shape)})
    ]
    rows = [value.shape[0] if value.ndim else 0 for value in inputs.values()]
    batch = rows[0] if len(set(rows)) == 1 and rows[0] >= 2 else 0
    rows_idle = []
    for row in range(min(batch, _MOST_ROWS)):
        tried = {name: value.clone() for name, value in inputs.items()}
        for name in changed:
            if name not in inputs_idle and other[name].shape == tried[name].shape:
                tried[name][row] = other[name][row]
        if any(not torch.equal(value, inputs[name]) for name, value in tried.items()) and not moves(tried):
            rows_idle.append(row)
    return inputs_idle, rows_idle


def _moved(got: Tensors, reference: Tensors) -> bool:
    """Whether any output is another one, beyond what the order of sums does."""
    for name, value in reference.items():
        if got[name].shape != value.shape:
            return True
        finite = value[np.isfinite(value)]
        least = LEAST_EFFECT * float(np.abs(finite).max(initial=0.0)) if value.dtype.kind == "f" else 0.0
        if not np.allclose(got[name], value, rtol=0.0, atol=least, equal_nan=True):
            return True
    return False


def padded(inputs: Tensors, window: int | None = None) -> Tensors | None:
    """The inputs with their masks, of two axes and 1 everywhere, at 0 in the last third; None where there are none.

    `window` is how many positions a query of the model sees at most: fewer are hidden, since what attention over
    nothing gives is each implementation's own affair.
    """
    ids = {value.shape for name, value in inputs.items() if value.dtype == np.int64 and not _is_ones(value)}
    found = {}
    for name, value in inputs.items():
        is_mask = name in _MASKS or (value.dtype == np.int64 and value.shape in ids)
        if is_mask and value.ndim == 2 and value.shape[1] >= 3 and _is_ones(value):
            hidden = value.shape[1] // 3
            if window is not None:
                hidden = min(hidden, window - 1)
            if hidden == 0:
                continue
            found[name] = value.copy()
            found[name][:, value.shape[1] - hidden :] = 0
    return {**inputs, **found} if found else None


def _is_ones(value: np.ndarray) -> bool:
    return value.size > 0 and bool((value == 1).all())


def _off(found: dict[str, Any]) -> str:
    """Which outputs differ, and by how much the worst does."""
    wrong = {name: row for name, row in found["tensors"].items() if row["wrong"]}
    others = len(wrong) - 1
    more = f", and {others} more" if others else ""
    name = max(wrong, key=lambda name: wrong[name]["worst"] or 0.0)
    row = wrong[name]
    if row["max_abs"] is None:
        return f"output `{name}` differs ({row['wrong']}){more}"
    return f"output `{name}` differs by {row['max_abs']:.3g} (its scale is {row['scale']:.3g}){more}"


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
    model: PreTrainedModel, inputs: Named, reference: Tensors, few: bool = False
) -> tuple[str | None, Tensors | None, str | None]:
    """The repeated layer of least effect, and the outputs when all its parameters are 0; or why there are none.

    With `few` only the first layer, the last and one between them are tried.
    """
    return least_layer(model, lambda: computed(model, inputs, reference), reference, few)


def least_layer(
    model: PreTrainedModel, run: Callable[[], Tensors], reference: Tensors, few: bool = False
) -> tuple[str | None, Tensors | None, str | None]:
    """The same of a model that is a part of what `run` computes."""
    layers = _layers(model)
    if not layers:
        return None, None, "the model has no list of layers"
    few = few or sum(parameter.numel() for parameter in model.parameters()) > _LARGE
    most = min(len(layers), _FEW_LAYERS if few else _MOST_LAYERS)
    chosen = sorted({round(place) for place in np.linspace(0, len(layers) - 1, most)})
    yardstick = Yardstick(reference)
    least = np.inf
    found: tuple[str | None, Tensors | None, str | None]
    found = (None, None, "no layer that was tried has an effect on the outputs")
    for name, layer in (layers[place] for place in chosen):
        try:
            with zeroed(layer):
                got = run()
        except Exception as error:  # noqa: BLE001 - a model may refuse to work with zeros in any way.
            print(f"without `{name}` the model does not run: {first_line(error)}", flush=True)
            continue
        moved = yardstick.effect(got)
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


class Yardstick:
    """A reference by which changes of outputs are measured, each in terms of the output's scale."""

    def __init__(self, reference: Tensors) -> None:
        self._reference = reference
        self._marks: dict[str, np.ndarray] = {}
        self._scales: dict[str, float] = {}
        for name, value in reference.items():
            if value.dtype in (np.float32, np.float64):
                exact = value.reshape(-1).astype(np.float64)
                marks = judge.sentinels(exact)
                if marks.any():
                    self._marks[name] = marks
                    exact = exact[~marks]
                self._scales[name] = judge.scale_of(exact)

    def effect(self, got: Tensors) -> float:
        """The largest change of an output; 0 if one is not to be compared."""
        worst = 0.0
        for name, value in self._reference.items():
            if name in self._scales and got[name].dtype == value.dtype and got[name].shape == value.shape:
                moved = self._largest(name, got[name].reshape(-1), value.reshape(-1)) / self._scales[name]
            else:
                row = judge.tensor_verdict(got[name], value, STEADY)
                moved = np.nan if row["max_abs"] is None else row["max_abs"] / row["scale"]
            if not np.isfinite(moved):
                return 0.0
            worst = max(worst, moved)
        return worst

    def _largest(self, name: str, got: np.ndarray, reference: np.ndarray) -> float:
        """The largest difference of computed values; not finite if one of them is not."""
        largest = 0.0
        marks = self._marks.get(name)
        for begin in range(0, len(got), judge.BLOCK):
            part = slice(begin, begin + judge.BLOCK)
            if np.isnan(got[part]).any() or np.isnan(reference[part]).any():
                return np.nan
            gaps = np.abs(got[part].astype(np.float64) - reference[part])
            if marks is not None:
                gaps = gaps[~marks[part]]
            largest = max(largest, float(gaps.max(initial=0.0)))
        return largest


def effect(got: Tensors, reference: Tensors) -> float:
    """The largest change of an output in terms of its scale; 0 if it is not to be compared."""
    return Yardstick(reference).effect(got)
