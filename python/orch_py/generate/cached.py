"""A decoder with its cache as plain tensors: what the exporters are given of a model that generates, and what such a
cache does if it is wrong. Imports torch.

The keys and values of each layer go in as `past_key_values.0.key` and so on, each (row, head, place, width), and come
out as `present.0.key`, longer by the new places. The ids that go in are those that follow on the past; there is no
mask, for all of them and all of the past are seen, and positions are counted from the length of the past.

An encoder-decoder model has two graphs. Its encoder makes the keys and values of the cross-attention from the model's
other inputs, once a text: `crossed_key_values.0.key` and so on, of the shape (row, head, place of the source, width).
The decoder takes them as they are in each step, and the source's mask beside them where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer
from transformers.modeling_outputs import BaseModelOutput

from orch_py.generate import greedy, torch_model
from orch_py.generate.torch_model import Named
from orch_py.worker.protocol import first_line, listed

OUTPUT = "logits"
# The one input of an encoder-decoder model that its decoder takes too.
SOURCE_MASK = "attention_mask"
# What a runtime or an exporter might do to the cache: (row, head, place, width) of one layer's keys or values.
MUTATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "zeroed": torch.zeros_like,
    # Each place holds what belongs to the one before, so the newest is missing. A mere rotation would change nothing
    # for models that see no order in their keys.
    "shifted": lambda past: torch.cat([torch.zeros_like(past[:, :, :1]), past[:, :, :-1]], dim=2),
}
# The mutation of an encoder-decoder model whose decoder sees nothing of the source.
UNSEEN = "unseen"


class NoCache(Exception):
    """The model has no cache of keys and values; the message says why."""


class Cached(torch.nn.Module):
    """Ids, the past and what the encoder made in by position, scores and the present out.

    `asked` is the `generation` of the model's manifest, with its `cache`. A model in half precision takes and gives
    fp32.
    """

    def __init__(self, model: PreTrainedModel, asked: dict[str, Any]) -> None:
        super().__init__()
        self.model = model
        self.ids = asked["input"]
        self.count = len(asked["cache"])
        self.encoder = asked.get("encoder")
        # Of a model whose scores are those of the last positions, the next token needs those of the very last.
        self.kept = torch_model.last_alone(model)

    def forward(self, ids: torch.Tensor, *others: torch.Tensor) -> tuple[torch.Tensor, ...]:
        past = _holding(others[: self.count])
        given: dict[str, Any] = {self.ids: ids, "past_key_values": past} | self.kept
        if self.encoder is not None:
            crossed = others[self.count : self.count + len(self.encoder["outputs"])]
            both = EncoderDecoderCache(past, _holding(crossed))
            both.is_updated = dict.fromkeys(range(len(crossed) // 2), True)
            # Its values count for nothing, since all that is made of them is in the cache; its shape does.
            hidden = torch.zeros(self.encoder["hidden"], dtype=self.model.dtype)
            given |= {"past_key_values": both, "encoder_outputs": BaseModelOutput(last_hidden_state=hidden)}
            given |= dict(zip(self.encoder["beside"], others[self.count + len(crossed) :], strict=True))
        result = self.model(**given, use_cache=True)
        present = getattr(result["past_key_values"], "self_attention_cache", result["past_key_values"])
        return (result[OUTPUT], *_tensors(present))


class Encoded(torch.nn.Module):
    """The inputs of an encoder by position in, keys and values of the decoder's cross-attention out."""

    def __init__(self, model: PreTrainedModel, asked: dict[str, Any]) -> None:
        super().__init__()
        self.model = model
        self.ids = asked["input"]
        self.inputs = asked["encoder"]["inputs"]
        self.rows = asked["encoder"]["hidden"][0]

    def forward(self, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        # The decoder makes its keys of the source whatever it is given to decode.
        first = torch.zeros((self.rows, 1), dtype=torch.long)
        given = dict(zip(self.inputs, values, strict=True))
        result = _both(self.model, {**given, self.ids: first})
        return tuple(_tensors(result["past_key_values"].cross_attention_cache))


def _both(model: PreTrainedModel, inputs: dict[str, Any]) -> Any:
    """The outputs of an encoder-decoder model that begins with an empty cache."""
    return model(**inputs, past_key_values=EncoderDecoderCache(DynamicCache(), DynamicCache()), use_cache=True)


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


def _tensors(cache: DynamicCache) -> list[torch.Tensor]:
    """Keys and values of each layer, by turns."""
    return [each for layer in cache.layers for each in _of(layer)]


def described(model: PreTrainedModel, ids: torch.Tensor, asked: dict[str, Any], inputs: Named) -> dict[str, Any]:
    """What the `generation` of a manifest says of the cache.

    `cache` has each tensor of it: the names by which it goes in and comes out, and its shape when nothing is known yet.
    `encoder`, of an encoder-decoder model, has the names of the encoder's `inputs` and `outputs`, the shape of its
    `hidden` states, and the inputs that the decoder takes `beside` them. `ids` are a prompt, `inputs` the model's.

    Raises `NoCache` where the model keeps something else, or where its pieces are not what it gives on the whole.
    """
    name = type(model).__name__
    is_encoder_decoder = model.config.is_encoder_decoder
    source = {each: value for each, value in inputs.items() if not each.startswith("decoder_")}
    try:
        with torch.inference_mode():
            if is_encoder_decoder:
                result = _both(model, {**source, asked["input"]: ids})
            else:
                result = model(**{asked["input"]: ids}, past_key_values=DynamicCache(), use_cache=True)
    except Exception as error:  # a class may refuse the cache in any way.
        raise NoCache(f"{name} takes no cache of keys and values: {first_line(error)}") from error
    kept = result.get("past_key_values")
    if not is_encoder_decoder:
        return {"cache": _described(name, kept, ids)}
    if type(kept) is not EncoderDecoderCache or "encoder_last_hidden_state" not in result:
        raise NoCache(f"{name} keeps no keys and values of its encoder")
    _require_layers(name, kept.cross_attention_cache)
    outputs = [
        f"crossed_key_values.{number}.{what}"
        for number in range(len(kept.cross_attention_cache.layers))
        for what in ("key", "value")
    ]
    encoder = {
        "inputs": list(torch_model.ordered(model, source)),
        "outputs": outputs,
        "hidden": list(result["encoder_last_hidden_state"].shape),
        "beside": [SOURCE_MASK] if SOURCE_MASK in source else [],
    }
    return {"cache": _described(name, kept.self_attention_cache, ids), "encoder": encoder}


def _described(name: str, kept: Any, ids: torch.Tensor) -> list[dict[str, Any]]:
    """Each tensor of a cache that holds these ids, in a manifest's words; `name` is the model's class."""
    _require_layers(name, kept)
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


def _require_layers(name: str, kept: Any) -> None:
    """Raises `NoCache` unless every layer of the cache keeps all keys and values."""
    if type(kept) is not DynamicCache or not kept.layers or any(type(each) is not DynamicLayer for each in kept.layers):
        layers = sorted({type(each).__name__ for each in getattr(kept, "layers", ())} - {"DynamicLayer"})
        what = f", but a {type(kept).__name__}" if kept is not None else ""
        raise NoCache(
            f"{name} keeps no keys and values of every layer{what}{' with ' + listed(layers) if layers else ''}"
        )


def empty(cache: list[dict[str, Any]]) -> list[torch.Tensor]:
    return [torch.zeros(each["shape"]) for each in cache]


def encoded(model: PreTrainedModel, asked: dict[str, Any], inputs: Named) -> list[torch.Tensor]:
    """What the decoder takes in each step besides ids and the past; nothing, of a model without an encoder."""
    encoder = asked.get("encoder")
    if encoder is None:
        return []
    with torch.inference_mode():
        made = Encoded(model, asked)(*(inputs[name] for name in encoder["inputs"]))
    return [*made, *(inputs[name] for name in encoder["beside"])]


def constants(asked: dict[str, Any]) -> list[str]:
    """The names of what `encoded` gives."""
    encoder = asked.get("encoder")
    return [] if encoder is None else [*encoder["outputs"], *encoder["beside"]]


def take(model: PreTrainedModel, asked: dict[str, Any], inputs: Named, mutation: str | None = None) -> greedy.Take:
    """Scores of ids that follow on those before, by PyTorch; with a cache that is wrong, if a mutation is named."""
    decoder = Cached(model, asked)
    past = empty(asked["cache"])
    crossed = encoded(model, asked, inputs)
    if mutation == UNSEEN:
        count = len(asked["encoder"]["outputs"])
        crossed = [*(torch.zeros_like(each) for each in crossed[:count]), *crossed[count:]]

    def taken(ids: np.ndarray) -> np.ndarray:
        nonlocal past
        known = past
        if mutation in MUTATIONS and past[0].shape[2]:
            known = [MUTATIONS[mutation](each) for each in past]
        with torch.inference_mode():
            scores, *past = decoder(torch.from_numpy(np.ascontiguousarray(ids)), *known, *crossed)
        return scores.float().numpy()

    return taken


def examples(model: PreTrainedModel, asked: dict[str, Any], inputs: Named) -> Named:
    """Inputs to export by: ids and a past of different lengths, neither of them 1, which exporters take for fixed."""
    # Tokens are of 64 bits wherever they are chosen, whatever the row declares.
    ids = torch.cat([inputs[asked["input"]].long()] * 5, dim=1)
    crossed = encoded(model, asked, inputs)
    with torch.no_grad():
        _, *past = Cached(model, asked)(ids[:, :3], *empty(asked["cache"]), *crossed)
    names = [*(each["input"] for each in asked["cache"]), *constants(asked)]
    values = (each.clone() for each in (*past, *crossed))
    return {asked["input"]: ids[:, 3:5].clone(), **dict(zip(names, values, strict=True))}
