"""Makes the `model` tree of a row with pictures or sounds: the image processor or feature extractor that comes with the
weights makes tensors of them, and `materialise` does the rest.

An op of its own, because the steps of rows without files have nothing to do with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoFeatureExtractor, AutoImageProcessor

from orch_py import file_inputs, trees
from orch_py.ops import materialise, materialise_text
from orch_py.protocol import Job, Output, Refused, first_line

_FILE = "preprocessor_config.json"
_KINDS = {
    "picture": (AutoImageProcessor, "image processor", file_inputs.pictures),
    "sound": (AutoFeatureExtractor, "feature extractor", file_inputs.sounds),
}


def run(job: Job) -> Output:
    if materialise_text.is_said_once(job):
        materialise_text.add(job)
    recipes: file_inputs.Recipes = job.param("inputs", {})
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
    output.facts["processors"] = processors
    output.facts["versions"] |= trees.versions("pillow", "torchvision")
    return output


def _loaded(job: Job, auto: Any, what: str) -> tuple[Any, str]:
    weights = job.required("weights")
    source, where = materialise._source(weights)
    try:
        return auto.from_pretrained(source, **where, **materialise._remote_code(job)), source
    except Exception as error:
        if weights["kind"] == "path" and not (Path(source) / _FILE).is_file():
            raise Refused(
                "error",
                f"`{source}` has no {_FILE}, of which its {what} is made; `save_pretrained` of the {what} writes it",
            ) from error
        status = "unavailable" if isinstance(error, OSError) else "error"
        raise Refused(status, f"`{source}` gives no {what}: {first_line(error)}") from error
