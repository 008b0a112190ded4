"""Makes the `model` tree of a row that says its text once: what else the model takes of the tokenizer, such as the mask
of the padding and the type ids, is filled from the same text.

It only adds recipes, and `materialise` makes the tree. An op of its own, because the steps of rows that name every
input have nothing to do with it.
"""

from __future__ import annotations

import inspect

import transformers

from orch_py import torch_model, trees
from orch_py.ops import materialise
from orch_py.protocol import Job, Output

# The input that a row says in words.
_TEXT = "input_ids"
# Tokenizers make it for any model, also where they do not list it.
_MASK = "attention_mask"


def run(job: Job) -> Output:
    add(job)
    return materialise.run(job)


def is_said_once(job: Job) -> bool:
    """As orch decides it that calls this op."""
    recipes = job.param("inputs", {})
    return "text" in recipes.get(_TEXT, {}).get("fill", {}) and _MASK not in _given(job)


def add(job: Job) -> None:
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


def _tokenizer(job: Job) -> transformers.PreTrainedTokenizerBase:
    source, where = materialise._source(job.required("weights"))
    with materialise._loading(source):
        return transformers.AutoTokenizer.from_pretrained(source, **where, **materialise._remote_code(job))
