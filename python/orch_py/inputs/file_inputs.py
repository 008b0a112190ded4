"""Inputs that a spec gives as files, pictures and sounds: made into tensors by the model's own image processor or
feature extractor, as `transformers.pipeline` would; and others, of which one is the control's.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps

from orch_py.inputs.own_files import heard, read_picture, read_sound
from orch_py.worker.protocol import Job, Refused, first_line, listed
from orch_py.worker.trees import Tensors

# A classifier may answer alike to a picture and the same from below, or to much that is noise.
_DRAWS = 4
# Of a silent sound there is no loudness to take over.
_LOUDNESS = 0.1

# By name: dtype, shape and fill, as the spec has them; a fill names inputs of the step.
Recipes = dict[str, dict[str, Any]]
# What a processor makes of some files; the names of the inputs that are wanted of it, with their shapes.
Process = Callable[[list[Any], dict[str, list[int]]], Any]


def of_files(recipes: Recipes, fill: str) -> Recipes:
    return {name: recipe for name, recipe in recipes.items() if fill in (recipe.get("fill") or {})}


def pictures(recipes: Recipes, job: Job, processor: Any, source: str) -> tuple[Tensors, list[Tensors]]:
    """The inputs, and what the control's can be: the same pictures upside down, as negatives, then noise."""

    def process(files: list[Image.Image], _: dict[str, list[int]]) -> Any:
        return processor(files, return_tensors="np")

    def noise(seed: int) -> Callable[[Image.Image], Image.Image]:
        def drawn(picture: Image.Image) -> Image.Image:
            size = (picture.height, picture.width, 3)
            return Image.fromarray(np.random.default_rng(seed).integers(0, 256, size, np.uint8))

        return drawn

    changes = [lambda one: one.rotate(180), ImageOps.invert, *map(noise, range(_DRAWS))]
    return _made(recipes, "picture", job, read_picture, process, changes, f"image processor of `{source}`")


def sounds(recipes: Recipes, job: Job, extractor: Any, source: str) -> tuple[Tensors, list[Tensors]]:
    """The inputs, and what the control's can be: the same sounds from behind, then noise as loud as they are."""
    told = f"feature extractor of `{source}`"

    def read(path: Path) -> np.ndarray:
        return read_sound(path, extractor, told)

    def process(files: list[np.ndarray], wanted: dict[str, list[int]]) -> Any:
        return heard(extractor, files, wanted)

    def noise(seed: int) -> Callable[[np.ndarray], np.ndarray]:
        def drawn(samples: np.ndarray) -> np.ndarray:
            loudness = float(np.sqrt(np.mean(samples**2))) or _LOUDNESS
            values = np.random.default_rng(seed).normal(0, loudness, samples.shape)
            return values.clip(-1, 1).astype(np.float32)

        return drawn

    changes = [lambda one: one[::-1].copy(), *map(noise, range(_DRAWS))]
    return _made(recipes, "sound", job, read, process, changes, told)


def _made(
    recipes: Recipes,
    fill: str,
    job: Job,
    read: Callable[[Path], Any],
    process: Process,
    changes: list[Callable[[Any], Any]],
    told: str,
) -> tuple[Tensors, list[Tensors]]:
    groups: dict[tuple[str, ...], Recipes] = {}
    for name, recipe in recipes.items():
        groups.setdefault(tuple(recipe["fill"][fill]), {})[name] = recipe
    files = {label: _read(read, job.tree(label)) for labels in groups for label in labels}

    def tensors(change: Callable[[Any], Any]) -> Tensors:
        made: Tensors = {}
        for labels, group in groups.items():
            wanted = {name: recipe["shape"] for name, recipe in group.items()}
            got = _processed([change(files[label]) for label in labels], wanted, process, told)
            made |= {name: _fitting(name, recipe, got, told) for name, recipe in group.items()}
        return made

    inputs = tensors(lambda one: one)
    others = [tensors(change) for change in changes]
    # A picture of one colour is the same from below.
    return inputs, [other for other in others if any(not np.array_equal(inputs[name], other[name]) for name in inputs)]


def _processed(files: list[Any], wanted: dict[str, list[int]], process: Process, told: str) -> Any:
    # Some cut a long sound at a random place.
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    try:
        return process(files, wanted)
    except Exception as error:
        raise Refused("error", f"the {told} refuses the files: {first_line(error)}") from error


def _fitting(name: str, recipe: dict[str, Any], made: Any, told: str) -> np.ndarray:
    if name not in made:
        raise Refused("error", f"the {told} makes no `{name}`; it makes {listed(made)}")
    value = np.asarray(made[name])
    if list(value.shape) != recipe["shape"]:
        raise Refused(
            "error", f"the {told} makes `{name}` in the shape {list(value.shape)}; the row has {recipe['shape']}"
        )
    typed = value.astype(recipe["dtype"])
    if not np.issubdtype(typed.dtype, np.floating) and not np.array_equal(typed, value):
        raise Refused("error", f"the {told} makes `{name}` of {value.dtype}, which {recipe['dtype']} cannot hold")
    return typed


def _read(read: Callable[[Path], Any], path: Path) -> Any:
    try:
        return read(path)
    except ValueError as error:
        raise Refused("error", str(error)) from error
