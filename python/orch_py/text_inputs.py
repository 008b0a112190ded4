"""Inputs that a spec gives as text: encoded by the model's own tokenizer, which goes into the tree; and the control's,
which are made of the same words in another order.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from orch_py.protocol import Refused, listed
from orch_py.trees import Tensors

# By name: dtype, shape and fill, as the spec has them.
Recipes = dict[str, dict[str, Any]]


def of_text(recipes: Recipes) -> Recipes:
    return {name: recipe for name, recipe in recipes.items() if "text" in (recipe.get("fill") or {})}


def encoded(texts: Recipes, tokenizer: Any, source: str) -> tuple[Tensors, Tensors]:
    """The inputs, and the control's."""
    if tokenizer.pad_token is None:
        # Padding needs some id; the attention mask hides it, and causal models are trained just so.
        tokenizer.pad_token = tokenizer.eos_token
    inputs: Tensors = {}
    control: Tensors = {}
    for name, recipe in texts.items():
        batch, _ = recipe["shape"]
        lines: list[str] = recipe["fill"]["text"]
        if len(lines) != batch:
            raise Refused("error", f"input `{name}` has {len(lines)} texts for a batch of {batch}; one text per row")
        inputs[name] = _encoded(name, recipe, lines, tokenizer, source)
        turned = [" ".join(reversed(line.split())) for line in lines]
        control[name] = _encoded(name, recipe, turned, tokenizer, source)
        if name.endswith("input_ids") and np.array_equal(inputs[name], control[name]):
            control[name] = _with_another_token(inputs[name], tokenizer)
    return inputs, control


def _encoded(name: str, recipe: dict[str, Any], lines: list[str], tokenizer: Any, source: str) -> np.ndarray:
    made = tokenizer(
        lines,
        padding="max_length",
        truncation=True,
        max_length=recipe["shape"][1],
        return_tensors="np",
        # Some tokenizers leave them out unless asked.
        return_attention_mask=True,
        return_token_type_ids=name == "token_type_ids" or None,
    )
    if name not in made:
        raise Refused("error", f"the tokenizer of `{source}` makes no `{name}`; it makes {listed(made)}")
    return np.asarray(made[name]).astype(recipe["dtype"])


def _with_another_token(ids: np.ndarray, tokenizer: Any) -> np.ndarray:
    """These inputs with another token for the first word of every row: a text of one word is the same from behind."""
    special = set(tokenizer.all_special_ids)
    changed = ids.copy()
    for row in changed:
        place = next((place for place, token in enumerate(row) if int(token) not in special), None)
        if place is not None:
            others = (token % tokenizer.vocab_size for token in range(int(row[place]) + 1, int(row[place]) + 1000))
            row[place] = next((token for token in others if token not in special), row[place])
    return changed


def save(tokenizer: Any, out: Path) -> None:
    """Writes the tokenizer without how it was found, which differs between hosts with the network and without."""
    tokenizer.save_pretrained(out)
    path = out / "tokenizer_config.json"
    config = json.loads(path.read_text("utf-8"))
    kept = {key: value for key, value in config.items() if key not in ("is_local", "local_files_only", "name_or_path")}
    path.write_text(json.dumps(kept, indent=2, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")
