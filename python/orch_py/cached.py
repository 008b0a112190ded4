"""A decoder with its cache as plain tensors: what the exporters are given of a model that generates, and what such a
cache does if it is wrong. Imports torch.

The keys and values of each layer go in as `past_key_values.0.key` and so on, each (row, head, place, width), and come
out as `present.0.key`, longer by the new places. The ids that go in are those that follow on the past; there is no
mask, for all of them and all of the past are seen, and positions are counted from the length of the past.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from orch_py import greedy, torch_model
from orch_py.protocol import first_line, listed
from orch_py.torch_model import Named

INPUT = "input_ids"
OUTPUT = "logits"
# What a runtime or an exporter might do to the cache: (row, head, place, width) of one layer's keys or values.
MUTATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "zeroed": torch.zeros_like,
    # Each place holds what belongs to the one before, so the newest is missing. A mere rotation would change nothing
    # for models that see no order in their keys.
    "shifted": lambda past: torch.cat([torch.zeros_like(past[:, :, :1]), past[:, :, :-1]], dim=2),
}


class NoCache(Exception):
    """The model has no cache of keys and values; the message says why."""


class Cached(torch.nn.Module):
    """Ids and the past in by position, scores and the present out. A model in half precision takes and gives fp32."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model
        # Of a model whose scores are those of the last positions, the next token needs those of the very last.
        self.kept = torch_model.last_alone(model)

    def forward(self, ids: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result = self.model(**{INPUT: ids}, past_key_values=_holding(past), use_cache=True, **self.kept)
        return (result[OUTPUT], *(each for layer in result["past_key_values"].layers for each in _of(layer)))


def _holding(past: tuple[torch.Tensor, ...]) -> DynamicCache:
    """A cache of these. Its own constructor would join them to tensors of no axes, which no exporter takes."""
    cache = DynamicCache()
    for keys, values in zip(past[::2], past[1::2], strict=True):
        layer = DynamicLayer()
        layer.keys, layer.values = keys, values
        layer.dtype, layer.device, layer.is_initialized = keys.dtype, keys.device, True
        cache.layers.append(layer)
    return cache


def _of(layer: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return layer.keys, layer.values


def described(model: PreTrainedModel, ids: torch.Tensor) -> list[dict[str, Any]]:
    """Each tensor of the cache: the names by which it goes in and comes out, and its shape when nothing is known yet.

    Raises `NoCache` where the model keeps something else, or where its pieces are not what it gives on the whole.
    """
    name = type(model).__name__
    if model.config.is_encoder_decoder:
        raise NoCache(f"{name} is an encoder-decoder model, whose caches orch does not export")
    cache = DynamicCache()
    try:
        with torch.inference_mode():
            kept = model(**{INPUT: ids}, past_key_values=cache, use_cache=True).get("past_key_values")
    except Exception as error:  # a class may refuse the cache in any way.
        raise NoCache(f"{name} takes no cache of keys and values: {first_line(error)}") from error
    if type(kept) is not DynamicCache or not kept.layers or any(type(each) is not DynamicLayer for each in kept.layers):
        layers = sorted({type(each).__name__ for each in getattr(kept, "layers", ())} - {"DynamicLayer"})
        what = f", but a {type(kept).__name__}" if kept is not None else ""
        raise NoCache(
            f"{name} keeps no keys and values of every layer{what}{' with ' + listed(layers) if layers else ''}"
        )
    made = []
    for number, layer in enumerate(kept.layers):
        for what, tensor in zip(("key", "value"), _of(layer), strict=True):
            if not isinstance(tensor, torch.Tensor) or tensor.ndim != 4 or tensor.shape[2] != ids.shape[1]:
                shape = list(tensor.shape) if isinstance(tensor, torch.Tensor) else None
                raise NoCache(f"layer {number} of {name} keeps a {what} of the shape {shape} for {ids.shape[1]} ids")
            rows, heads, _, width = tensor.shape
            names = {"input": f"past_key_values.{number}.{what}", "output": f"present.{number}.{what}"}
            made.append(names | {"shape": [rows, heads, 0, width]})
    return made


def empty(cache: list[dict[str, Any]]) -> list[torch.Tensor]:
    return [torch.zeros(each["shape"]) for each in cache]


def take(model: PreTrainedModel, cache: list[dict[str, Any]], mutation: str | None = None) -> greedy.Take:
    """Scores of ids that follow on those before, by PyTorch; with a cache that is wrong, if a mutation is named."""
    decoder, past = Cached(model), empty(cache)

    def taken(ids: np.ndarray) -> np.ndarray:
        nonlocal past
        known = past
        if mutation is not None and past[0].shape[2]:
            known = [MUTATIONS[mutation](each) for each in past]
        with torch.inference_mode():
            scores, *past = decoder(torch.from_numpy(np.ascontiguousarray(ids)), *known)
        return scores.float().numpy()

    return taken


def examples(model: PreTrainedModel, cache: list[dict[str, Any]], ids: torch.Tensor) -> Named:
    """Inputs to export by: ids and a past of different lengths, neither of them 1, which exporters take for fixed."""
    # Tokens are of 64 bits wherever they are chosen, whatever the row declares.
    ids = torch.cat([ids.long()] * 5, dim=1)
    with torch.no_grad():
        _, *past = Cached(model)(ids[:, :3], *empty(cache))
    names = (each["input"] for each in cache)
    return {INPUT: ids[:, 3:5].clone(), **dict(zip(names, (each.clone() for each in past), strict=True))}
