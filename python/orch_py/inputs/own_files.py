"""What comes with a model's weights for people: what reads their pictures, sounds and texts, and the names of classes
and tokens. A row's pictures and sounds are read by it (`file_inputs`), and so are the files that people give generated
tests, which also tell outputs in words.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np


class Unavailable(Exception):
    """As the tests have it."""


# --- What follows is a part of every generated test of a model with weights of its own. ---

# What reads files that end so.
READERS = {".png": "ImageProcessor", ".jpg": "ImageProcessor", ".jpeg": "ImageProcessor"}
READERS |= {".wav": "FeatureExtractor", ".txt": "Tokenizer"}


def read_picture(path: Path) -> Any:
    from PIL import Image, ImageOps

    try:
        with Image.open(path, formats=("PNG", "JPEG")) as picture:
            return ImageOps.exif_transpose(picture).convert("RGB")
    except Exception as error:
        # Pillow's readers fail in many ways.
        why = " ".join(str(error).split())
        raise ValueError(f"`{path}` cannot be read as a PNG or JPEG: {type(error).__name__}: {why}") from error


def read_sound(path: Path, extractor: Any, told: str) -> np.ndarray:
    """The samples, from -1 to 1, at the extractor's own rate."""
    import wave

    other = f"ffmpeg -i {path.name} -ac 1 -c:a pcm_s16le other.wav"
    try:
        with wave.open(str(path)) as sound:
            channels, width, own = sound.getnchannels(), sound.getsampwidth(), sound.getframerate()
            content = sound.readframes(sound.getnframes())
    except (wave.Error, EOFError) as error:
        raise ValueError(f"`{path}` cannot be read as a WAV of 16-bit PCM: {error}; `{other}`") from error
    if (channels, width) != (1, 2):
        raise ValueError(f"`{path}` has {channels} channels of {8 * width} bits; orch reads one of 16 bits: `{other}`")
    if not content:
        raise ValueError(f"`{path}` holds no sound")
    rate = getattr(extractor, "sampling_rate", None)
    if rate is not None and own != rate:
        raise ValueError(
            f"`{path}` has {own} samples a second, and the {told} takes {rate}; orch resamples nothing: "
            f"`ffmpeg -i {path.name} -ar {rate} -c:a pcm_s16le other.wav`"
        )
    return np.frombuffer(content, "<i2").astype(np.float32) / 32768


def heard(extractor: Any, sounds: list[np.ndarray], shapes: dict[str, Any]) -> Any:
    """What the feature extractor makes of sounds, as long as the model takes them."""
    more: dict[str, Any] = {}
    if len(shape := shapes.get("input_values", [])) == 2:
        more = {"padding": "max_length", "max_length": shape[1], "truncation": True}
    if "attention_mask" in shapes:
        more["return_attention_mask"] = True
    rate = getattr(extractor, "sampling_rate", None)
    return extractor(sounds, sampling_rate=rate, return_tensors="np", **more)


def read_lines(tokenizer: Any, lines: list[str], shapes: dict[str, Any]) -> Any:
    """What the tokenizer makes of texts, a row each, padded or cut to the model's length."""
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer(
        lines,
        padding="max_length",
        truncation=True,
        max_length=shapes["input_ids"][1],
        return_tensors="np",
        return_attention_mask=True,
        return_token_type_ids="token_type_ids" in shapes or None,
    )


def reader(folder: Path, kind: str, remote: bool) -> Any:
    """A tokenizer or processor that lies in the model's folder."""
    file = "tokenizer_config.json" if kind == "Tokenizer" else "preprocessor_config.json"
    # Some tokenizers come without any file, and know no word.
    if not (folder / file).is_file():
        raise FileNotFoundError(f"{folder} has no {file}: no {kind} came with the weights")
    told = f"{folder} gives no {kind}"
    try:
        import transformers

        auto = getattr(transformers, f"Auto{kind}")
        return auto.from_pretrained(str(folder), local_files_only=True, trust_remote_code=remote)
    except ImportError as error:
        why = " ".join(str(error).split())
        raise Unavailable(f"{told} ({why}): pip install transformers pillow torchvision") from error
    except (OSError, ValueError, KeyError) as error:
        raise FileNotFoundError(f"{told}: {' '.join(str(error).split())}") from error


def given_inputs(
    paths: list[Path], example: dict[str, np.ndarray], folder: Path, remote: bool
) -> tuple[dict[str, np.ndarray], list[str]]:
    """The example's inputs with what the model's own processors make of files in their places, and what made which."""
    made: dict[str, np.ndarray] = {}
    told = []
    shapes = {name: value.shape for name, value in example.items()}
    kinds: dict[str, list[Path]] = {}
    for path in paths:
        kinds.setdefault(READERS.get(path.suffix.lower(), ""), []).append(path)
    for kind, files in kinds.items():
        if not kind or (kind == "Tokenizer" and "input_ids" not in shapes):
            raise ValueError(f"{files[0]}: give one .safetensors file, or {', '.join(READERS)} as the model takes them")
        own = reader(folder, kind, remote)
        if kind == "ImageProcessor":
            found = own([read_picture(path) for path in files], return_tensors="np")
        elif kind == "FeatureExtractor":
            found = heard(own, [read_sound(path, own, "model's feature extractor") for path in files], shapes)
        else:
            texts = [line for path in files for line in path.read_text("utf-8").splitlines() if line.strip()]
            found = read_lines(own, texts, shapes)
        taken = {name: np.asarray(found[name]) for name in example if name in found}
        if not taken:
            raise ValueError(f"{type(own).__name__} makes {', '.join(found)}, and the model takes {', '.join(example)}")
        made |= taken
        told.append(f"{', '.join(taken)} by {type(own).__name__} of {', '.join(path.name for path in files)}")
    if rest := [name for name in example if name not in made]:
        told.append(f"{', '.join(rest)} as in the example")
    return example | made, told


class Words:
    """What people call a model's classes and tokens: by its config, and by its tokenizer where transformers is here."""

    def __init__(self, folder: Path, remote: bool) -> None:
        self.folder, self.remote = folder, remote
        self.labels: dict[str, str] = json.loads((folder / "config.json").read_text("utf-8")).get("id2label") or {}
        self.tokenizer: Any = None
        # Why it is not there.
        self.lacks: str | None = None

    def label(self, number: Any) -> str:
        return self.labels.get(str(number), f"class {number}")

    def text(self, ids: Any) -> str:
        """The text of some tokens, or their numbers."""
        if self.tokenizer is None and self.lacks is None:
            try:
                self.tokenizer = reader(self.folder, "Tokenizer", self.remote)
            except (Unavailable, FileNotFoundError) as error:
                self.lacks = f"tokens are told as numbers: {error}"
        numbers = [int(each) for each in ids]
        # A special token alone is told by its name.
        return self.tokenizer.decode(numbers, skip_special_tokens=len(numbers) > 1) if self.tokenizer else str(numbers)
