"""Makes the `model` tree of a row whose weights are not seeded: what comes with them (a tokenizer, an image processor,
a feature extractor) makes tensors of text, pictures and sounds, and goes into the tree. `materialise` does the rest.

An op of its own, because the steps of seeded rows have nothing to do with it.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from transformers import AutoFeatureExtractor, AutoImageProcessor, AutoTokenizer

from orch_py.generate import torch_model
from orch_py.inputs import file_inputs, text_inputs
from orch_py.ops import materialise
from orch_py.worker import trees
from orch_py.worker.protocol import Job, Output, Refused, first_line

_FILE = "preprocessor_config.json"
_KINDS = {
    "picture": (AutoImageProcessor, "image processor", file_inputs.pictures),
    "sound": (AutoFeatureExtractor, "feature extractor", file_inputs.sounds),
}
# The input that a row says in words.
_TEXT = "input_ids"
# Tokenizers make it for any model, also where they do not list it.
_MASK = "attention_mask"
_SOUNDS = ("input_values", "input_features")


def run(job: Job) -> Output:
    if _is_said_once(job):
        _add(job)
    recipes: file_inputs.Recipes = job.param("inputs", {})
    names = _given(job)
    inputs: trees.Tensors = {}
    others: list[list[trees.Tensors]] = []
    processors: dict[str, str] = {}
    for fill, (auto, what, make) in _KINDS.items():
        if own := file_inputs.of_files(recipes, fill):
            processor, source = _loaded(job, auto, what)
            made, other = make(own, job, processor, source)
            inputs |= made
            others.append(other)
            processors[what] = type(processor).__name__
    job.params["inputs"] = {name: recipe for name, recipe in recipes.items() if name not in inputs}
    output = materialise.run(job, (inputs, materialise.together(others)))
    kept, lacking = _keep(job, names)
    output.facts["processors"] = processors | kept
    if lacking:
        output.facts["no_processors"] = lacking
    output.facts["versions"] |= trees.versions("pillow", "torchvision")
    return output


def _keep(job: Job, names: set[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Puts what reads files for the model into its tree, for generated tests: the classes, or why there are none."""
    kept: dict[str, str] = {}
    lacking: dict[str, str] = {}
    sounds = bool(names.intersection(_SOUNDS))
    for auto, what, wanted in (
        # What is heard is told in words, too.
        (AutoTokenizer, "tokenizer", sounds or any(name.endswith("input_ids") for name in names)),
        (AutoImageProcessor, "image processor", any(name.startswith("pixel") for name in names)),
        (AutoFeatureExtractor, "feature extractor", sounds),
    ):
        if not wanted:
            continue
        try:
            own, source = _loaded(job, auto, what)
            # Some tokenizers come without any file, and know no word.
            if auto is AutoTokenizer and set(own.get_vocab()) <= set(own.all_special_tokens):
                raise Refused("error", f"`{source}` has no tokenizer")
        except Refused as refused:
            lacking[what] = str(refused)
            continue
        kept[what] = type(own).__name__
        if auto is not AutoTokenizer:
            own.save_pretrained(job.out)
        elif not (job.out / "tokenizer_config.json").exists():
            text_inputs.save(own, job.out)
    return kept, lacking


def _is_said_once(job: Job) -> bool:
    """A row that names no mask has its text said once: what else the class takes of the tokenizer is filled from it."""
    recipes = job.param("inputs", {})
    return "text" in recipes.get(_TEXT, {}).get("fill", {}) and _MASK not in _given(job)


def _add(job: Job) -> None:
    """Adds the recipes of what the class takes and the row does not name."""
    recipes = job.param("inputs", {})
    given = _given(job)
    taken = inspect.signature(torch_model.model_class(job.required("class")).forward).parameters
    made = [_MASK, *_tokenizer(job).model_input_names]
    missing = [name for name in made if name in taken and name not in given]
    job.params["inputs"] = recipes | {name: recipes[_TEXT] for name in missing}


def _given(job: Job) -> set[str]:
    tree = trees.read_tensors(job.tree("inputs"), trees.INPUTS) if "inputs" in job.inputs else {}
    return {*job.param("inputs", {}), *tree}


def _tokenizer(job: Job) -> Any:
    weights = job.required("weights")
    source, where = materialise._source(weights)
    with materialise._loading(source, weights):
        return AutoTokenizer.from_pretrained(source, **where, **materialise._remote_code(job))


def _loaded(job: Job, auto: Any, what: str) -> tuple[Any, str]:
    weights = job.required("weights")
    source, where = materialise._source(weights)
    try:
        return auto.from_pretrained(source, **where, **materialise._remote_code(job)), source
    except Exception as error:
        if weights["kind"] == "path" and auto is not AutoTokenizer and not (Path(source) / _FILE).is_file():
            raise Refused(
                "error",
                f"`{source}` has no {_FILE}, of which its {what} is made; `save_pretrained` of the {what} writes it",
            ) from error
        status = "unavailable" if isinstance(error, OSError) else "error"
        raise Refused(status, f"`{source}` gives no {what}: {first_line(error)}") from error
