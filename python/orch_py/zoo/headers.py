"""What a checkpoint holds, by the headers of its safetensors files, and what a class makes of that.

No weights are read: transformers is given tensors of the same names and shapes that take no memory.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import safe_open

from orch_py import checkpoint
from orch_py.protocol import Refused
from orch_py.zoo.rows import Document

# Names of weights with their shapes.
Headers = dict[str, list[int]]
# A class of more parameters would take too much memory to find out what it uses.
_MOST_PARAMETERS = 1_000_000_000
# What stands for hidden parts of an input while a speech or vision model is trained; checkpoints come without it.
_FOR_TRAINING = ("masked_spec_embed", "mask_token")
# More names than these are written as globs.
_MOST_NAMES = 6


def of(source: str, folder: Path, weights: Document) -> Headers:
    """The headers of a folder's files, or of those of a commit on the Hub; empty where they cannot be had."""
    found: Headers = {}
    if weights["weights"] == "path":
        for path in sorted(folder.glob("*.safetensors")):
            with safe_open(path, "pt") as file:
                found |= {name: file.get_slice(name).get_shape() for name in file.keys()}
        return found
    import huggingface_hub

    try:
        said = huggingface_hub.get_safetensors_metadata(source, revision=weights["hub"]["revision"])
    except huggingface_hub.errors.NotASafetensorsRepoError:
        raise Refused("error", f"`{source}` has no safetensors weights, and orch loads no others") from None
    except Exception:  # noqa: BLE001 - a network that is gone by now: the run says what is wrong.
        return {}
    for file in said.files_metadata.values():
        found |= {name: list(tensor.shape) for name, tensor in file.tensors.items()}
    return found


def unlike(cls: Any, config: Any, headers: Headers) -> dict[str, list[str]]:
    """What a row says of weights that only one of class and checkpoint has.

    `unused_weights`: names, or globs where they are many, of those that the class does not use, of a head that it does
    not have. `missing_weights`: names of the few that the checkpoint lacks and that are for training only.
    """
    if not headers:
        return {}
    # One value, shown at each place of the shape.
    tensors = {name: torch.zeros(()).expand(shape) for name, shape in headers.items()}
    with torch.device("meta"):
        known = set(cls._from_config(config).state_dict())
    # Where all names are the class's own, nothing has to be loaded to know that none is left.
    is_plain = known >= set(tensors) and not any(name.endswith(_FOR_TRAINING) for name in known - set(tensors))
    if is_plain or sum(map(math.prod, headers.values())) > _MOST_PARAMETERS:
        return {}
    info = _loading_info(cls, config, tensors)
    left = checkpoint.reported(info, "unexpected_keys")
    for_training = [name for name in checkpoint.reported(info, "missing_keys") if name.endswith(_FOR_TRAINING)]
    found = {
        "unused_weights": left if len(left) <= _MOST_NAMES else _globs(left, set(headers) - set(left)),
        "missing_weights": for_training,
    }
    return {key: names for key, names in found.items() if names}


def _loading_info(cls: Any, config: Any, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        _, info = cls.from_pretrained(
            None, config=config, state_dict=tensors, output_loading_info=True, ignore_mismatched_sizes=True
        )
    except Exception:  # noqa: BLE001 - a class may convert its weights in a way that wants their values.
        return {}
    finally:
        transformers.logging.set_verbosity(verbosity)
    return dict(info)


def _globs(left: list[str], used: set[str]) -> list[str]:
    """One glob for each first part of the names under which nothing is used; else the names themselves."""
    found: list[str] = []
    for name in left:
        parts = name.split(".")
        prefixes = (".".join(parts[:length]) + "." for length in range(1, len(parts)))
        prefix = next((each for each in prefixes if not any(other.startswith(each) for other in used)), None)
        glob = name if prefix is None else f"{prefix}*"
        if glob not in found:
            found.append(glob)
    return found
