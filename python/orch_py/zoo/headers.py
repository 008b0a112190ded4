"""What a checkpoint holds, by the headers of its safetensors files, and what a class makes of that.

No weights are read: transformers is given tensors of the same names and shapes that take no memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import safe_open

from orch_py.generate import checkpoint
from orch_py.worker.protocol import Refused, first_line
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


@dataclass(frozen=True)
class Unlike:
    """The weights that only one of class and checkpoint has."""

    unused: list[str] = field(default_factory=list)
    """Of the checkpoint alone: those of a head that the class does not have."""
    missing: list[str] = field(default_factory=list)
    """Of the class alone, and read by more than training."""
    for_training: list[str] = field(default_factory=list)
    """Of the class alone, and read by training only."""
    used: set[str] = field(default_factory=set)
    """Names of the checkpoint's other weights."""

    def fields(self) -> dict[str, list[str]]:
        """What a row says of them: names, or globs where they are many."""
        unused = self.unused if len(self.unused) <= _MOST_NAMES else _globs(self.unused, self.used)
        found = {"unused_weights": unused, "missing_weights": self.for_training}
        return {key: names for key, names in found.items() if names}


def unlike(cls: Any, config: Any, headers: Headers) -> Unlike:
    """Compares a class with the headers of a checkpoint; finds nothing where there are none."""
    if not headers:
        return Unlike()
    # One value, shown at each place of the shape.
    tensors = {name: torch.zeros(()).expand(shape) for name, shape in headers.items()}
    try:
        with torch.device("meta"):
            model = cls._from_config(config)
    except Exception as error:
        # Whatever the class makes of a config; orch's own part is one call.
        version = transformers.__version__
        why = f"transformers {version} builds no {cls.__name__} from the `config.json`: {first_line(error)}"
        raise Refused("error", why) from error
    # Where all names are the class's own, nothing has to be loaded to know that none is left.
    known = set(model.state_dict())
    is_plain = known >= set(tensors) and known - set(tensors) <= set(
        getattr(model, "all_tied_weights_keys", None) or {}
    )
    if is_plain or sum(map(math.prod, headers.values())) > _MOST_PARAMETERS:
        return Unlike()
    info = _loading_info(cls, config, tensors)
    left = checkpoint.reported(info, "unexpected_keys")
    lacking = checkpoint.reported(info, "missing_keys")
    return Unlike(
        unused=left,
        missing=[name for name in lacking if not name.endswith(_FOR_TRAINING)],
        for_training=[name for name in lacking if name.endswith(_FOR_TRAINING)],
        used=set(headers) - set(left),
    )


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
