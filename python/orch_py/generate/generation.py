"""The reference of a generation: PyTorch's own greedy decoding, with what tells a tie from a wrong token, and what
wrong models generate. It is refused where a model of fixed length could not repeat it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import PreTrainedModel

from orch_py.generate import cached, greedy, steady, torch_model
from orch_py.generate.torch_model import Named
from orch_py.judge import judge
from orch_py.worker import trees
from orch_py.worker.protocol import Refused, first_line, listed
from orch_py.worker.trees import Tensors

FILE = "generation.safetensors"
_LIKELIEST = 5
_SCORES = "logits"
_MASKS = {"input_ids": "attention_mask", "decoder_input_ids": "decoder_attention_mask"}


def write(
    out: Path,
    model: PreTrainedModel,
    asked: dict[str, Any],
    inputs: Named,
    control: Tensors | None,
    dropped: str | None,
) -> dict[str, Any]:
    """Writes the reference beside the model; gives what its manifest says of it.

    `asked` is what `asked()` gives, `control` other inputs, `dropped` the name of a layer.
    """
    steps = asked["tokens"]
    feeds = {name: value.numpy() for name, value in inputs.items()}
    found, by = _reference(model, feeds, asked)
    verdict = greedy.generation_verdict(_decoded(model, feeds, asked), found, judge.TOLERANCES["fp32"])
    if verdict["wrong"]:
        raise Refused(
            "numerics",
            f"`generate: {steps}`: {verdict['wrong']}: so {type(model).__name__} looks at later tokens, and no model"
            " of a fixed length can generate with it; leave `generate` out",
        )
    if control is not None:
        found["control"] = _decoded(model, control, asked)
    if dropped is not None:
        with steady.zeroed(model.get_submodule(dropped)):
            found["dropped"] = _decoded(model, feeds, asked)
    asked |= _cache(model, inputs, asked, found)
    trees.write_tensors(out, FILE, found)
    return asked | {"by": by}


def asked(
    model: PreTrainedModel,
    steps: int,
    inputs: Named,
    outputs: list[str],
    lengths: dict[str, list[int]],
    positions: int | None = None,
) -> dict[str, Any]:
    """What an artefact is asked to generate.

    `outputs` are those that it will have, `lengths` the tokens of each row's text, of ids that a text fills, and
    `positions` the number of last ones that have scores (None: all).
    """
    if _SCORES not in outputs:
        raise Refused("error", f"`generate: {steps}` needs the output `{_SCORES}`; `outputs` are {listed(outputs)}")
    name = "decoder_input_ids" if model.config.is_encoder_decoder else "input_ids"
    cls = type(model).__name__
    if name not in inputs or not model.can_generate():
        why = f"it has no input `{name}`" if model.can_generate() else "transformers generates nothing with it"
        raise Refused("error", f"`generate: {steps}`: {cls} cannot, for {why}")
    if (length := inputs[name].shape[1]) < steps:
        raise Refused("error", f"`generate: {steps}` needs `{name}` at least {steps} long, and it is {length}")
    mask = _MASKS[name] if _MASKS[name] in inputs else None
    others = set(inputs) - {name, _MASKS[name], "position_ids"} if name == "input_ids" else set()
    if others:
        raise Refused("error", f"`generate: {steps}`: {cls} takes {sorted(others)} besides, which would have to grow")
    if name in lengths:
        prompts = _of_texts(name, length, lengths[name], steps)
    else:
        prompts = _of_mask(mask, len(inputs[name]), length, None if mask is None else inputs[mask].numpy(), steps)
    if positions is not None and length - positions > min(prompts) - 1:
        least = length + 1 - min(prompts)
        raise Refused(
            "error",
            f"`generate: {steps}` after {min(prompts)} tokens of {length} needs `positions: last {least}` or more, and "
            f"it is last {positions}",
        )
    return {"input": name, "mask": mask, "output": _SCORES, "tokens": steps, "prompts": prompts}


def _of_texts(name: str, length: int, texts: list[int], steps: int) -> list[int]:
    """The length of each row's prompt: its whole text, which has to fit with the tokens that follow."""
    for row, tokens in enumerate(texts):
        if tokens + steps - 1 > length:
            raise Refused(
                "error",
                f"`generate: {steps}`: text {row + 1} of `{name}` has {tokens} tokens, which needs a length of"
                f" {tokens + steps - 1}, and `{name}` is {length} long; make it longer, or the text shorter",
            )
    return texts


def _of_mask(name: str | None, rows: int, length: int, mask: np.ndarray | None, steps: int) -> list[int]:
    """The length of each row's prompt: the ids that the mask shows, as far as the tokens that follow leave room."""
    most = length + 1 - steps
    if mask is None:
        return [most] * rows
    shown = mask != 0
    known = shown.sum(axis=1)
    if (shown != (np.arange(length) < known[:, None])).any() or not known.all():
        raise Refused(
            "error",
            f"`generate: {steps}`: `{name}` hides ids before others that it shows; a prompt is what a row begins with,"
            " so give a mask of ones that zeros may follow",
        )
    return [min(int(tokens), most) for tokens in known]


def _cache(model: PreTrainedModel, inputs: Named, asked: dict[str, Any], found: Tensors) -> dict[str, Any]:
    """What `asked` has of the cache, or why there is none; what wrong ones would generate goes into `found`."""
    ids, prompts, steps = inputs[asked["input"]], asked["prompts"], asked["tokens"]
    try:
        cache = cached.described(model, ids[:, : max(prompts)], asked, inputs)

        def decoded(mutation: str | None = None) -> np.ndarray:
            fresh = partial(cached.take, model, asked | cache, inputs, mutation)
            return greedy.greedy_of_prompts(fresh, ids.numpy(), prompts, steps)

        if wrong := greedy.generation_verdict(decoded(), found, judge.TOLERANCES["fp32"])["wrong"]:
            raise cached.NoCache(f"with keys and values alone {type(model).__name__} gives other tokens: {wrong}")
        for name in [*cached.MUTATIONS, *([cached.UNSEEN] if "encoder" in cache else [])]:
            found[name] = decoded(name)
    except cached.NoCache as error:
        return {"no_cache": str(error)}
    except Exception as error:  # noqa: BLE001 - a class that takes a cache once may fail on what it kept in any way.
        return {"no_cache": f"{type(model).__name__} does not go on from keys and values: {first_line(error)}"}
    return cache


def _decoded(model: PreTrainedModel, feeds: Tensors, asked: dict[str, Any]) -> np.ndarray:
    """As an artefact does it."""

    def infer(each: Tensors) -> Tensors:
        named = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in each.items()}
        return {asked["output"]: torch_model.forward(model, named)[asked["output"]].numpy()}

    return greedy.greedy(infer, feeds, asked)


def _reference(model: PreTrainedModel, feeds: Tensors, asked: dict[str, Any]) -> tuple[Tensors, str]:
    """Tokens (row, step), the likeliest ones with their scores (row, step, 5), and each step's scale.

    Prompts of one length make one batch, so that none is padded.
    """
    found: Tensors = {}
    by = ""
    for length in sorted(set(asked["prompts"])):
        own = np.flatnonzero(np.array(asked["prompts"]) == length)
        rows = len(asked["prompts"])
        some = {name: value[own] if value.shape[:1] == (rows,) else value for name, value in feeds.items()}
        part, by = _of_one_length(model, some, asked, length)
        for name, value in part.items():
            whole = found.setdefault(name, np.zeros((rows, *value.shape[1:]), value.dtype))
            whole[own] = value
    return found, by


def _of_one_length(model: PreTrainedModel, feeds: Tensors, asked: dict[str, Any], length: int) -> tuple[Tensors, str]:
    """The reference of rows whose prompts have this length, and who made it."""
    steps, prompt = asked["tokens"], torch.from_numpy(feeds[asked["input"]])[:, :length]
    given = {asked["input"]: prompt}
    if asked["input"] == "input_ids":
        given["attention_mask"] = torch.ones_like(prompt)
    else:
        rest = {name: value for name, value in feeds.items() if name not in (asked["input"], asked["mask"])}
        given |= {name: torch.from_numpy(value) for name, value in rest.items()}
    cached, errors = True, []
    for cached in (True, False):
        try:
            # The model's own settings would fill in what is None in others: an end of the text, penalties.
            model.generation_config = _config(prompt, steps, cached)
            made = model.generate(**given)
            break
        except Exception as error:  # noqa: BLE001 - a class may fail with its cache in any way.
            errors.append(first_line(error))
    else:
        raise Refused("error", f"`generate: {steps}`: generate() of {type(model).__name__} fails: {errors[-1]}")
    scores = torch.stack(made.logits, dim=1).float()
    tokens = made.sequences[:, prompt.shape[1] :]
    if (
        tokens.shape != scores.shape[:2]
        or tokens.shape[1] != steps
        or not torch.equal(scores.gather(-1, tokens[..., None]), scores.amax(dim=-1, keepdim=True))
    ):
        raise Refused("error", f"`generate: {steps}`: generate() of {type(model).__name__} does not take the likeliest")
    version = transformers.__version__
    by = f"generate() of transformers {version}" + ("" if cached else f" without its cache ({errors[0]})")
    return ranked(tokens, scores), by


def ranked(tokens: torch.Tensor, scores: torch.Tensor) -> Tensors:
    """Tokens with what tells a tie, by the scores (row, step, token) that they were chosen by."""
    best = scores.topk(min(_LIKELIEST, scores.shape[-1]), dim=-1)
    # Of equal scores topk may put another first than generate() took.
    likeliest = best.indices.numpy().copy()
    likeliest[..., 0] = tokens.numpy()
    scale = np.array([[_scale(each) for each in row] for row in scores.numpy()], np.float32)
    found = {"tokens": tokens.numpy(), "likeliest": likeliest, "scores": best.values.numpy(), "scale": scale}
    return {name: np.ascontiguousarray(value) for name, value in found.items()}


def _config(prompt: torch.Tensor, steps: int, cached: bool) -> transformers.GenerationConfig:
    """Greedy, exactly so many tokens, and nothing that the model's own settings would add."""
    return transformers.GenerationConfig(
        do_sample=False,
        num_beams=1,
        max_new_tokens=steps,
        min_new_tokens=None,
        use_cache=cached,
        eos_token_id=None,
        pad_token_id=0,
        decoder_start_token_id=int(prompt[0, 0]),
        return_dict_in_generate=True,
        output_logits=True,
    )


def _scale(scores: np.ndarray) -> float:
    found: float = judge.tensor_verdict(scores, scores, judge.TOLERANCES["fp32"])["scale"]
    return found
