"""A row for a type of transformers, made from nothing but the installed library: class, small config, inputs."""

from __future__ import annotations

import inspect
import re
from typing import Any

import transformers
from transformers import CONFIG_MAPPING
from transformers.models.auto import modeling_auto

from orch_py.generate import torch_model
from orch_py.worker.protocol import Refused
from orch_py.zoo import shrink
from orch_py.zoo.rows import Document, Row

SEQUENCE, TARGET, SAMPLES, FRAMES = 16, 8, 4000, 64
# Between the marks at the bottom of the vocabulary and those at its top.
TOKENS = [8, 112]
# The tasks of a spec, and the tables in which transformers names the class for a type.
TASKS = {
    "fill-mask": "MASKED_LM",
    "text-generation": "CAUSAL_LM",
    "text2text-generation": "SEQ_TO_SEQ_CAUSAL_LM",
    "text-classification": "SEQUENCE_CLASSIFICATION",
    "token-classification": "TOKEN_CLASSIFICATION",
    "question-answering": "QUESTION_ANSWERING",
    "multiple-choice": "MULTIPLE_CHOICE",
    "image-classification": "IMAGE_CLASSIFICATION",
    "video-classification": "VIDEO_CLASSIFICATION",
    "object-detection": "OBJECT_DETECTION",
    "semantic-segmentation": "SEMANTIC_SEGMENTATION",
    "depth-estimation": "DEPTH_ESTIMATION",
    "image-text-to-text": "IMAGE_TEXT_TO_TEXT",
    "automatic-speech-recognition": "CTC",
    "audio-classification": "AUDIO_CLASSIFICATION",
    "zero-shot-image-classification": "ZERO_SHOT_IMAGE_CLASSIFICATION",
    "feature-extraction": "MODEL",
}


def classes(model_type: str) -> dict[str, str]:
    """The class of each task that the type has one for."""
    if model_type not in CONFIG_MAPPING:
        raise Refused("error", f"transformers {transformers.__version__} has no model type `{model_type}`")
    found = {}
    for task, table in TASKS.items():
        name = getattr(modeling_auto, f"{_table(table)}_MAPPING_NAMES").get(model_type)
        name = name[0] if isinstance(name, (list, tuple)) else name
        if name is not None:
            found[task] = name
    return found


def _table(name: str) -> str:
    return "MODEL" if name == "MODEL" else f"MODEL_FOR_{name}"


def row(class_name: str) -> Row:
    """Not tried yet."""
    cls = torch_model.model_class(class_name)
    kind = cls.config_class
    config = shrink.small(kind)
    return Row(class_name, config, inputs(cls, kind(**config)))


def hub(class_name: str) -> str | None:
    """The model on the Hub by which transformers describes the class's config. None if it names none, or no owner."""
    described = torch_model.model_class(class_name).config_class.__doc__ or ""
    found = re.search(r"\[([\w.-]+/[\w.-]+)\]\(https://huggingface\.co/\1/?\)", described)
    return found[1] if found else None


def names(cls: Any) -> list[str]:
    """What the model's forward takes by name."""
    return list(inspect.signature(cls.forward).parameters)


def inputs(cls: Any, config: Any) -> dict[str, Document]:
    """A recipe for each input that is known by its name."""
    taken = names(cls)
    recipes: dict[str, Document] = {
        "input_ids": {"dtype": "int64", "shape": [1, SEQUENCE], "randint": TOKENS},
        "attention_mask": {"dtype": "int64", "shape": [1, SEQUENCE], "value": 1},
        "decoder_input_ids": {"dtype": "int64", "shape": [1, TARGET], "randint": TOKENS},
        "pixel_values": {"dtype": "float32", "shape": _image(config), "normal": [0, 1]},
        "input_features": {"dtype": "float32", "shape": [1, _of(config, "num_mel_bins", 80), FRAMES], "normal": [0, 1]},
        "input_values": {"dtype": "float32", "shape": [1, SAMPLES], "normal": [0, 1]},
    }
    found = {name: recipe for name, recipe in recipes.items() if name in taken}
    if "input_ids" not in found:
        found.pop("attention_mask", None)
    return found


def _image(config: Any) -> list[int]:
    size = _of(config, "image_size", shrink.IMAGE)
    sides = list(size) if isinstance(size, (list, tuple)) else [size, size]
    frames = _of(config, "num_frames", None)
    return [1, *([frames] if frames else []), _of(config, "num_channels", 3), *sides]


def _of(config: Any, name: str, usual: Any) -> Any:
    """Of a config or the first of those below it that has the key."""
    for each in (config, *(value for value in vars(config).values() if hasattr(value, "to_dict"))):
        if isinstance(value := vars(each).get(name), (int, list, tuple)):
            return value
    return usual


def name(model_type: str, task: str) -> str:
    """The row's: the type alone for its base class."""
    plain = re.sub(r"[^a-z0-9_-]", "-", model_type.lower())
    return plain if task == "feature-extraction" else f"{plain}-{task}"
