"""Inputs that a spec gives as text: encoded by the model's own tokenizer, which goes into the tree; and others,
of which one is the control's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from orch_py.worker.protocol import Refused, listed
from orch_py.worker.trees import Tensors

# A classifier may answer alike whatever the order of the words is, or to many texts.
_DRAWS = 7

# By name: dtype, shape and fill, as the spec has them.
Recipes = dict[str, dict[str, Any]]


def of_text(recipes: Recipes) -> Recipes:
    return {name: recipe for name, recipe in recipes.items() if "text" in (recipe.get("fill") or {})}


@dataclass(frozen=True)
class Encoded:
    """Texts as the tokenizer gives them."""

    inputs: Tensors
    # What the control's inputs can be: the same words from behind, then other words at random.
    controls: list[Tensors]
    # Tokens of each row's whole text, which may be more than fit, by the name of the ids.
    lengths: dict[str, list[int]]


def encoded(texts: Recipes, tokenizer: Any, source: str, generates: bool) -> Encoded:
    """The texts, padded as the tokenizer does; behind each text if the model `generates`, since tokens follow there."""
    if tokenizer.pad_token is None:
        # Padding needs some id; the attention mask hides it, and causal models are trained just so.
        tokenizer.pad_token = tokenizer.eos_token
    side = {"padding_side": "right"} if generates else {}
    inputs: Tensors = {}
    turned: Tensors = {}
    lengths: dict[str, list[int]] = {}
    for name, recipe in texts.items():
        batch, _ = recipe["shape"]
        lines: list[str] = recipe["fill"]["text"]
        if len(lines) != batch:
            raise Refused("error", f"input `{name}` has {len(lines)} texts for a batch of {batch}; one text per row")
        inputs[name] = _encoded(name, recipe, lines, tokenizer, source, side)
        backwards = [" ".join(reversed(line.split())) for line in lines]
        turned[name] = _encoded(name, recipe, backwards, tokenizer, source, side)
        if name.endswith("input_ids"):
            lengths[name] = [len(ids) for ids in tokenizer(lines)["input_ids"]]
    drawn = [_other_words(inputs, tokenizer, seed) for seed in range(_DRAWS)]
    # A text of one word is the same from behind.
    changed = any(not np.array_equal(inputs[name], turned[name]) for name in texts)
    return Encoded(inputs, [turned, *drawn] if changed else drawn, lengths)


def _encoded(
    name: str, recipe: dict[str, Any], lines: list[str], tokenizer: Any, source: str, side: dict[str, str]
) -> np.ndarray:
    made = tokenizer(
        lines,
        padding="max_length",
        truncation=True,
        max_length=recipe["shape"][1],
        return_tensors="np",
        # Some tokenizers leave them out unless asked.
        return_attention_mask=True,
        return_token_type_ids=name == "token_type_ids" or None,
        **side,
    )
    if name not in made:
        raise Refused("error", f"the tokenizer of `{source}` makes no `{name}`; it makes {listed(made)}")
    return np.asarray(made[name]).astype(recipe["dtype"])


def _other_words(inputs: Tensors, tokenizer: Any, seed: int) -> Tensors:
    """These inputs with other tokens in the place of all that are words."""
    random = np.random.default_rng(seed)
    special = list(tokenizer.all_special_ids)
    words = np.setdiff1d(np.arange(tokenizer.vocab_size), special)
    changed = dict(inputs)
    for name, ids in inputs.items():
        if name.endswith("input_ids"):
            others = random.choice(words, ids.shape).astype(ids.dtype)
            changed[name] = np.where(np.isin(ids, special), ids, others)
    return changed


def save(tokenizer: Any, out: Path) -> None:
    """Writes the tokenizer without how it was found, which differs between hosts with the network and without."""
    tokenizer.save_pretrained(out)
    path = out / "tokenizer_config.json"
    config = json.loads(path.read_text("utf-8"))
    kept = {key: value for key, value in config.items() if key not in ("is_local", "local_files_only", "name_or_path")}
    path.write_text(json.dumps(kept, indent=2, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")
