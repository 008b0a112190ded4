"""A row for a model of one's own, from what its files say: config, tokenizer, processor, and the forward of its class.

Of the Hub only these files are taken; the weights are fetched by the run. Nothing of the model is executed.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
from transformers import CONFIG_MAPPING, AutoConfig, AutoFeatureExtractor, AutoTokenizer
from transformers.models.auto import modeling_auto

from orch_py import hub_errors, torch_model
from orch_py.protocol import Refused, first_line
from orch_py.zoo import derive, families, headers
from orch_py.zoo.rows import Document

SENTENCE = "The quick brown fox jumps over the lazy dog."
# Of the Hub: what describes a model, not what it has learnt.
_DESCRIPTION = ["*.json", "*.txt", "*.model"]
_TOKENIZERS = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
)
_PROCESSOR = "preprocessor_config.json"
# Of an adapter, which peft writes.
_ADAPTER = "adapter_config.json"
# What an input may be filled with in the place of noise, where a processor is there.
_FILES = {"pixel_values": "picture: [own.png]"} | dict.fromkeys(("input_values", "input_features"), "sound: [own.wav]")


def row(source: str, written: str) -> Document:
    """The row of a folder in `save_pretrained` layout, whose path the spec has as `written`, or of an id of the Hub."""
    folder, weights = _weights(source, written)
    _require_plain(source, folder)
    try:
        config = AutoConfig.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        raise Refused("error", f"the `config.json` of `{source}` cannot be read: {first_line(error)}") from error
    classes = config.architectures or []
    if len(classes) != 1:
        raise Refused(
            "error", f"the `config.json` of `{source}` names no class in `architectures`: add the model's own"
        )
    cls = torch_model.model_class(classes[0])
    family, _ = families.family(config.model_type)
    task = _task(config.model_type, classes[0])
    inputs, dims = _inputs(cls, config, folder)
    unlike = headers.unlike(cls, config, headers.of(source, folder, weights))
    return {
        "class": classes[0],
        **weights,
        **unlike,
        "family": family,
        "task": task,
        "pipeline": families.pipeline(family, task),
        "dims": dims,
        "inputs": inputs,
    }


def hinted(text: str, folder: Path) -> str:
    """The row's text with a word on pictures and sounds of one's own, where the folder has what reads them."""
    lines = text.splitlines()
    if (folder / _PROCESSOR).is_file():
        for place, line in reversed(list(enumerate(lines))):
            if fill := _FILES.get(line.strip().partition(":")[0]):
                hint = f"      # In the place of noise: `{fill}`, a file for each row of the batch."
                lines.insert(place + 1, hint)
    return "\n".join(lines) + "\n"


def _weights(source: str, written: str) -> tuple[Path, Document]:
    folder = Path(source)
    if folder.is_dir():
        if (folder / _ADAPTER).is_file():
            base = json.loads((folder / _ADAPTER).read_text("utf-8")).get("base_model_name_or_path")
            raise Refused(
                "error",
                f"`{source}` is an adapter of `{base}` and no model: merge the two (`merge_and_unload()` of peft), "
                "write that by `save_pretrained`, and give its folder",
            )
        if not (folder / "config.json").is_file():
            raise Refused("error", f"`{source}` has no config.json: give a folder as `save_pretrained` writes it")
        return folder, {"weights": "path", "path": written}
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", source):
        raise Refused("error", f"`{source}` is neither a folder nor an ONNX file nor an id of the Hub")
    import huggingface_hub

    try:
        found = Path(huggingface_hub.snapshot_download(source, allow_patterns=_DESCRIPTION))
    except Exception as error:
        # The client fails in many ways: no network, no such id, no leave.
        raise hub_errors.refusal(error, source, "cannot be had from the Hub") from error
    # The client names a snapshot after its commit.
    return found, {"weights": "hub", "hub": {"id": source, "revision": found.name}}


def _require_plain(source: str, folder: Path) -> None:
    """Refuses a checkpoint that transformers loads by code or packages that orch does not have."""
    said = json.loads((folder / "config.json").read_text("utf-8"))
    if quantised := said.get("quantization_config"):
        method = quantised.get("quant_method", "an unknown method")
        raise Refused(
            "unsupported",
            f"the weights of `{source}` are quantised by `{method}`, and orch compares with a model in fp32: give the "
            "checkpoint that they were made of, and choose a target with `precisions: [int8]` or `[int4]`",
        )
    if said.get("auto_map") and said.get("model_type") not in CONFIG_MAPPING:
        raise Refused(
            "unsupported",
            f"the class of `{source}` is Python code that comes with its weights (`auto_map` in config.json): write "
            "its row by hand, with `class: AutoModel…` and `trust_remote_code: true`",
        )


def _task(model_type: str, class_name: str) -> str:
    if class_name == modeling_auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES.get(model_type):
        return "automatic-speech-recognition"
    tasks = [task for task, name in derive.classes(model_type).items() if name == class_name]
    return tasks[0] if tasks else "feature-extraction"


def _inputs(cls: Any, config: Any, folder: Path) -> tuple[dict[str, Document], Document]:
    """The recipes, and the sizes that they name."""
    inputs = derive.inputs(cls, config)
    text = config.get_text_config()
    sizes: Document = {"batch": 1}
    for name, recipe in inputs.items():
        recipe["shape"] = ["batch", *recipe["shape"][1:]]
        if "randint" in recipe:
            recipe["randint"] = [0, getattr(text, "vocab_size", derive.TOKENS[1])]
        if name == "pixel_values" and (sides := _pictured(folder)):
            recipe["shape"][-2:] = sides
        if name == "input_features" and (shape := _heard(folder)):
            recipe["shape"][1:] = shape
    ids = inputs.get("input_ids")
    if ids is None:
        return inputs, sizes
    if any((folder / name).is_file() for name in _TOKENIZERS):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        # No more than the sentence has: what a model gives at padding means nothing, and would be compared.
        sizes["seq"] = len(tokenizer(SENTENCE)["input_ids"])
        written = {"dtype": "int64", "shape": ["batch", "seq"], "text": [SENTENCE]}
        wanted = {"input_ids", "attention_mask", *tokenizer.model_input_names} & set(derive.names(cls))
        inputs |= {name: dict(written) for name in ("input_ids", "attention_mask", "token_type_ids") if name in wanted}
    else:
        sizes["seq"] = min(derive.SEQUENCE, getattr(text, "max_position_embeddings", None) or derive.SEQUENCE)
        for name in ("input_ids", "attention_mask"):
            if name in inputs:
                inputs[name]["shape"] = ["batch", "seq"]
    return inputs, sizes


def _heard(folder: Path) -> list[int] | None:
    """The shape that the model's own feature extractor makes of a second of sound, without the batch."""
    if not (folder / _PROCESSOR).is_file():
        return None
    try:
        extractor = AutoFeatureExtractor.from_pretrained(folder)
        rate = extractor.sampling_rate
        noise = np.random.default_rng(0).normal(0, 0.1, rate).astype(np.float32)
        features = extractor(noise, sampling_rate=rate, return_tensors="np")["input_features"]
    except Exception as error:  # noqa: BLE001 - a processor of another kind, or one that lacks a package.
        print(f"the feature extractor makes no `input_features`: {first_line(error)}", file=sys.stderr)
        return None
    return [int(size) for size in np.shape(features)[1:]]


def _pictured(folder: Path) -> list[int] | None:
    """The height and width that the model's own processor makes."""
    path = folder / _PROCESSOR
    if not path.is_file():
        return None
    said = json.loads(path.read_text("utf-8"))
    size = said.get("crop_size") if said.get("do_center_crop") else said.get("size")
    if isinstance(size, int):
        return [size, size]
    if not isinstance(size, dict):
        return None
    if "height" in size and "width" in size:
        return [size["height"], size["width"]]
    return [size["shortest_edge"]] * 2 if "shortest_edge" in size else None
