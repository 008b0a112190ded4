"""The family of a model type by what the installed transformers says of it: what it reads, which tasks it has classes
for, whether it has experts or keeps a state."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

import transformers
from transformers import CONFIG_MAPPING
from transformers.models.auto import modeling_auto

from orch_py.worker.protocol import Refused

_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_experts_per_tok")
_SPEAKS = ("TEXT_TO_WAVEFORM", "TEXT_TO_SPECTROGRAM")
_GENERATES = ("IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM")
_INPUTS = {
    "text": {"input_ids", "classes_input_ids"},
    "image": {"pixel_values", "pixel_values_videos", "flattened_patches"},
    "series": {"past_values"},
    "audio": {"input_values", "input_features", "spectrogram", "waveform", "audio_values"},
}
_TEXT = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
TEXT_ONLY = "text-only"
FAMILIES = (
    "audio",
    "decoder-only",
    "encoder-decoder",
    "encoder-only",
    "mixture-of-experts",
    "multimodal",
    "state-space",
    "time-series",
    "vision",
    "vision-text",
)
PIPELINES = ("vision", "vision-text", "audio", "multimodal", "mixture-of-experts", "state-space")


def family(model_type: str) -> tuple[str, list[str]]:
    """The family, and what the type is besides."""
    config = CONFIG_MAPPING[model_type]()
    cls = _class(model_type)
    reads = _reads(cls)

    def is_of(table: str) -> bool:
        return model_type in getattr(modeling_auto, f"MODEL_FOR_{table}_MAPPING_NAMES", {})

    tasks = set(filter(is_of, ("CAUSAL_LM", "MASKED_LM", "SEQ_TO_SEQ_CAUSAL_LM", *_GENERATES)))
    found = []
    if reads & {"image", "video"}:
        found.append("multimodal" if tasks & set(_GENERATES) else "vision-text" if "text" in reads else "vision")
    elif "audio" in reads | set(getattr(cls, "output_modalities", None) or ()) or any(map(is_of, _SPEAKS)):
        found.append("multimodal" if tasks & set(_GENERATES) else "audio")
    elif reads == {"series"}:
        found.append("time-series")
    if _any(config, _EXPERTS):
        found.append("mixture-of-experts")
    if getattr(cls, "_is_stateful", False):
        found.append("state-space")
    if not found or found[0] in ("mixture-of-experts", "state-space"):
        found.append(_of_text(config, tasks))
    return found[0], found[1:]


def tags(family: str, besides: list[str], inputs: Iterable[str]) -> list[str]:
    """What a row is found by: what its type is besides, and whether its model could read more than text."""
    of_text = all(name.removeprefix("decoder_") in _TEXT for name in inputs)
    return [*besides, TEXT_ONLY] if family in ("multimodal", "vision-text") and of_text else besides


def pipeline(family: str, task: str) -> str:
    """The pipeline of the family's own name, if it has one. A family of text has a class or two that read images."""
    if task == "image-text-to-text":
        return "multimodal"
    return family if family in PIPELINES else "text"


def _reads(cls: Any) -> set[str]:
    """By the inputs that its forward names; what it declares of itself is `text` where nobody thought of it."""
    names = set(inspect.signature(cls.forward).parameters)
    reads = {kind for kind, inputs in _INPUTS.items() if names & inputs}
    return reads or set(getattr(cls, "input_modalities", None) or ())


def _of_text(config: Any, tasks: set[str]) -> str:
    if "SEQ_TO_SEQ_CAUSAL_LM" in tasks or getattr(config, "is_encoder_decoder", False):
        return "encoder-decoder"
    return "decoder-only" if "CAUSAL_LM" in tasks and "MASKED_LM" not in tasks else "encoder-only"


def _any(config: Any, names: tuple[str, ...]) -> bool:
    below = [value for value in vars(config).values() if hasattr(value, "to_dict")]
    own = any(isinstance(vars(config).get(name), int) and vars(config)[name] > 1 for name in names)
    return own or any(_any(each, names) for each in below)


def _class(model_type: str) -> Any:
    """The type's base class, or that of the first task that it has one for."""
    tables = sorted(name for name in vars(modeling_auto) if re.fullmatch(r"MODEL_(.*_)?MAPPING_NAMES", name))
    for table in ("MODEL_MAPPING_NAMES", "MODEL_FOR_PRETRAINING_MAPPING_NAMES", *tables):
        if name := getattr(modeling_auto, table).get(model_type):
            return getattr(transformers, name[0] if isinstance(name, (list, tuple)) else name)
    raise Refused("error", f"transformers {transformers.__version__} has no class for the type `{model_type}`")
