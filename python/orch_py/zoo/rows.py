"""A row of the zoo is tried before it is kept: what its model ignores goes, and its weights are made so large that
wrong outputs could not pass for right ones.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from orch_py.generate import config_keys, forward_names, seeded, steady, torch_model
from orch_py.generate.torch_model import Named
from orch_py.judge import judge
from orch_py.worker.protocol import Refused, first_line
from orch_py.worker.trees import Tensors

# The loosest tolerance first: what decides there, decides under the others.
PRECISIONS = ("int8", "bf16", "fp16", "fp32")
# Keys that scale seeded weights, and what is tried of each beside the class's own value.
SCALES: dict[str, tuple[float, ...]] = {
    "initializer_range": (0.05, 0.1, 0.2, 0.5),
    "init_std": (0.05, 0.1, 0.2, 0.5),
    "initializer_factor": (2.0, 5.0, 10.0),
}
Document = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """Class, config and the recipes of the inputs, in the words of a spec."""

    cls: str
    config: Document
    inputs: dict[str, Document]
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tried:
    """What came of it."""

    row: Row
    # The loosest precision at which wrong outputs would be caught; None where they never would.
    decides: str | None
    parameters: int
    why: str | None = None


def tried(row: Row) -> Tried:
    """The row as its model takes it, with the smallest scale of its weights at which it decides best.

    Refused if no such model can be made or run, or if its answers do not hold still.
    """
    row = _taken(row)
    best: Tried | None = None
    refused: Refused | None = None
    for scaled in _scales(row):
        try:
            found = _decided(scaled)
        except Refused as error:
            refused = refused or error
            continue
        if best is None or _rank(found) < _rank(best):
            best = found
        if _rank(best) == 0:
            break
    if best is None:
        raise refused or Refused("error", f"{row.cls} was not tried")
    return best


def _rank(found: Tried) -> int:
    return len(PRECISIONS) if found.decides is None else PRECISIONS.index(found.decides)


def _taken(row: Row) -> Row:
    """The row without keys and inputs that its model does not know."""
    cls = torch_model.model_class(row.cls)
    config = copy.deepcopy(row.config)
    for keys, _ in list(config_keys.ignored(cls, cls.config_class(**copy.deepcopy(config)), config)):
        _remove(config, keys)
    made = torch_model.build_config(cls, config)
    torch_model.plain(made)
    with torch.device("meta"):
        known = forward_names.names(cls._from_config(made))
    return replace(row, config=config, inputs={name: each for name, each in row.inputs.items() if name in known})


def _remove(config: Document, keys: tuple[str, ...]) -> None:
    for key in keys[:-1]:
        config = config[key]
    del config[keys[-1]]


def _scales(row: Row) -> Iterator[Row]:
    """The row as it is, then with larger weights: set where its configs have the key."""
    yield row
    cls = torch_model.model_class(row.cls)
    config = torch_model.build_config(cls, row.config)
    steps = [[(key, value) for value in values] for key, values in SCALES.items() if _has(config, key)]
    for values in itertools.zip_longest(*steps):
        scaled = copy.deepcopy(row.config)
        for key, value in filter(None, values):
            _set(scaled, config, key, value)
        yield replace(row, config=scaled)


def _has(config: Any, key: str) -> bool:
    return key in vars(config) or any(_has(below, key) for below in _below(config).values())


def _below(config: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(config).items() if hasattr(value, "to_dict")}


def _set(given: Document, config: Any, key: str, value: float) -> None:
    if key in vars(config):
        given[key] = value
    for name, below in _below(config).items():
        if _has(below, key) and isinstance(given.get(name, {}), dict):
            _set(given.setdefault(name, {}), below, key, value)


def _decided(row: Row) -> Tried:
    cls = torch_model.model_class(row.cls)
    torch.manual_seed(0)
    config = torch_model.build_config(cls, row.config)
    torch_model.plain(config)
    try:
        model = cls._from_config(config, dtype=torch.float32).eval()
        seeded.fill(model, 0)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        inputs, control = (_ordered(model, row, seed) for seed in (0, 1))
        reference, other = _outputs(model, row, inputs), _outputs(model, row, control)
    except Refused:
        raise
    except Exception as error:
        # A config can fail a model in any way.
        raise Refused("error", first_line(error)) from error
    _, without, _ = steady.without_a_layer(model, inputs, reference)
    wrong = [("another input", other)] + ([("a dropped layer", without)] if without is not None else [])
    decides, why = None, None
    for precision in PRECISIONS:
        why = next((what for what, found in wrong if _passes(found, reference, precision)), None)
        if why is None:
            decides = precision
            break
    steady.require_steady(model, inputs, reference)
    return Tried(row, decides, parameters, why and f"{why} would pass")


def _passes(found: Tensors, reference: Tensors, precision: str) -> bool:
    return bool(judge.verdict(found, reference, judge.TOLERANCES[precision])["agrees"])


def _ordered(model: Any, row: Row, seed: int) -> Named:
    made = {name: _made(recipe, seed * 1000 + place) for place, (name, recipe) in enumerate(row.inputs.items())}
    return torch_model.ordered(model, {name: torch.from_numpy(value) for name, value in made.items()})


def _outputs(model: Any, row: Row, inputs: Named) -> Tensors:
    got = torch_model.select(torch_model.forward(model, inputs), list(row.outputs), row.cls)
    for name, value in got.items():
        if value.isnan().any():
            raise Refused("numerics", f"output `{name}` holds NaN")
    return {name: value.numpy() for name, value in got.items()}


def _made(recipe: Document, seed: int) -> np.ndarray:
    """Like orch's own, though not the same bytes: what decides with these values decides with those."""
    shape, dtype, chance = recipe["shape"], np.dtype(recipe["dtype"]), np.random.default_rng(seed)
    match recipe:
        case {"randint": [low, high]}:
            return chance.integers(low, high, shape).astype(dtype)
        case {"normal": [mean, deviation]}:
            return chance.normal(mean, deviation, shape).astype(dtype)
        case {"uniform": [low, high]}:
            return chance.uniform(low, high, shape).astype(dtype)
        case {"data": values}:
            return np.array(values, dtype).reshape(shape)
        case _:
            return np.full(shape, recipe["value"], dtype)
