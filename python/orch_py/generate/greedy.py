"""Greedy decoding, and whether its tokens are the reference's. `src/runtime/generation.rs` decodes in the same way and
`src/judge/generation.rs` judges by the same rule; `tests/fixtures/judge/generation.json` holds both to it.

Decoding: the declared token ids are `length` long, and `steps` tokens are asked for. The prompt of a row is its first
ids, as many as `prompts` says: the tokens of its text where a text was given, those that its mask shows where it hides
some, and else the first `length + 1 - steps` ids. The next token is the first greatest score at the last known place,
and the next step sees it.

With a cache the first step takes the prompt, and each other one the token before it: what the model made of all ids
before these is kept. Rows whose prompts have other lengths are decoded after each other, so no padding is ever kept.
Without a cache, a model of fixed shapes takes the whole length in each step. What stands after the known ids of a row
stays as it is until it is overwritten: a causal model does not look there, so padding changes nothing. The mask of
these ids, if there is one, is all ones.

Judging: the tokens of a row agree up to the first other one. There the reference tells its five likeliest tokens and
their scores. It is a tie, and not wrong, if our token is one of the five and the reference's best score is ahead of it
by at most 2 * (atol * scale + rtol * |best|), the scale being that of the judge over all scores of this step: either
score may be off by one bound. Anything else is wrong. After the first other token the two decode different texts, so
the rest of the row is not compared. It proves nothing if the places that agree (no place at all included) would also
agree with the tokens of another prompt, with those of the model without one of its layers, or, of a text that was
decoded with a cache, with those that PyTorch gives where the cache holds zeros or lags by one place, or where an
encoder's keys and values are zeros.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

# --- What follows is a part of every generated test that generates. ---

# Gives the scores (row, place, token) of ids (row, place) that follow on all that it was given before, or those of the
# last places alone.
Take = Callable[[np.ndarray], np.ndarray]


def greedy_with_cache(take: Take, prompt: np.ndarray, steps: int) -> tuple[np.ndarray, list[float]]:
    """The tokens (row, step), and the milliseconds that each step took; `take` knows nothing yet."""
    ids, found, taken_ms = prompt, [], []
    for step in range(steps):
        start = time.perf_counter()
        scores = take(ids)
        if scores.ndim != 3 or scores.shape[0] != ids.shape[0] or not 1 <= scores.shape[1] <= ids.shape[1]:
            raise ValueError(f"the scores are {list(scores.shape)}, and not for {list(ids.shape)} tokens")
        if np.isnan(scores[:, -1]).any():
            raise ValueError(f"a score is NaN at step {step + 1} of the generation")
        ids = scores[:, -1].argmax(axis=-1)[:, None].astype(np.int64)
        taken_ms.append((time.perf_counter() - start) * 1e3)
        found.append(ids)
    return np.concatenate(found, axis=1), taken_ms


def greedy_of_prompts(fresh: Callable[[], Take], ids: np.ndarray, prompts: list[int], steps: int) -> np.ndarray:
    """The tokens (row, step) with a cache, where the first `prompts[row]` ids of each row are its prompt.

    A decoder takes prompts of one length. The whole batch is decoded once for each length, and each row's tokens are
    those of its own.
    """
    found = np.zeros((len(ids), steps), np.int64)
    for length in sorted(set(prompts)):
        tokens, _ = greedy_with_cache(fresh(), np.asarray(ids[:, :length], np.int64), steps)
        own = np.array(prompts) == length
        found[own] = tokens[own]
    return found


def greedy(
    infer: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]], feeds: dict[str, np.ndarray], asked: dict[str, Any]
) -> np.ndarray:
    """The tokens (row, step) by whole inferences; `asked` is the `generation` of the model's manifest."""
    ids, steps = feeds[asked["input"]].copy(), asked["tokens"]
    feeds = {name: np.ones_like(value) if name == asked["mask"] else value for name, value in feeds.items()}
    rows, last = np.arange(len(ids)), np.array(asked["prompts"]) - 1
    found = np.zeros((len(ids), steps), np.int64)
    for step in range(steps):
        outputs = infer({**feeds, asked["input"]: ids})[asked["output"]]
        # Scores may be those of the last places alone.
        skipped = ids.shape[1] - outputs.shape[1] if outputs.ndim == 3 else -1
        if skipped < 0 or outputs.shape[0] != ids.shape[0] or last.min() + step < skipped:
            shapes = f"{list(outputs.shape)}, and not for all places of {list(ids.shape)} tokens that are asked for"
            raise ValueError(f"the scores `{asked['output']}` are {shapes}")
        scores = outputs[rows, last + step - skipped]
        if np.isnan(scores).any():
            raise ValueError(f"{asked['output']} holds NaN at step {step + 1} of the generation")
        found[:, step] = scores.argmax(axis=-1)
        if step + 1 < steps:
            ids[rows, last + step + 1] = found[:, step]
    return found


def other_token(
    reference: dict[str, np.ndarray], row: int, step: int, token: int, tolerance: dict[str, float]
) -> dict[str, Any]:
    """What is known of the first token of a row that is not the reference's; `step` counts from 0."""
    likeliest, scores = reference["likeliest"][row, step], reference["scores"][row, step].astype(np.float64)
    place = np.flatnonzero(likeliest == token)
    # Of a token that is not among them the margin is at least this.
    margin = float(scores[0] - scores[place[0] if place.size else -1])
    scale = float(reference["scale"][row, step])
    bound = 2 * (tolerance["atol"] * scale + tolerance["rtol"] * abs(float(scores[0])))
    told = {"row": row, "step": step + 1, "token": token, "expected": int(likeliest[0])}
    return told | {"margin": margin, "bound": bound, "tie": bool(place.size and margin <= bound)}


def generation_verdict(
    tokens: np.ndarray, reference: dict[str, np.ndarray], tolerance: dict[str, float], cached: bool = False
) -> dict[str, Any]:
    """How many tokens agree before the first other one of each row, which that is, and what is wrong or unproven;
    `cached`: they were decoded with a cache."""
    expected = reference["tokens"]
    found: dict[str, Any] = {"asked": expected.size, "agreed": 0, "ties": 0, "first": None}
    found |= {"wrong": None, "undecided": None}
    if tokens.shape != expected.shape:
        return found | {"wrong": f"{list(tokens.shape)} tokens were generated, and {list(expected.shape)} asked for"}
    same = np.cumprod(tokens == expected, axis=1).astype(bool)
    found["agreed"] = int(same.sum())
    for row, agreed in enumerate(same.sum(axis=1)):
        if agreed == expected.shape[1]:
            continue
        other = other_token(reference, row, int(agreed), int(tokens[row, agreed]), tolerance)
        found["ties"] += int(other["tie"])
        if found["first"] is None or (found["first"]["tie"] and not other["tie"]):
            found["first"] = other
    first = found["first"]
    if first and not first["tie"]:
        found["wrong"] = (
            f"token {first['step']} of row {first['row']} is {first['token']}, where the reference has"
            f" {first['expected']} with {first['margin']:.3g} more; {first['bound']:.3g} would be a tie"
        )
    whose = {"control": "another prompt", "dropped": "the model without one of its layers"}
    if cached:
        whose |= {"zeroed": "a cache that holds zeros", "shifted": "a cache that lags by one place"}
        whose |= {"unseen": "a decoder that sees nothing of its source"}
    for name, what in whose.items():
        if name in reference and (reference[name] == expected)[same].all() and not found["undecided"]:
            found["undecided"] = f"the tokens of {what} would pass as well"
    if not same.any():
        found["undecided"] = "no token agrees before the first tie"
    return found
