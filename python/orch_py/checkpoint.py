"""Whether a checkpoint is one of the class that it is loaded into: its type before, its weights after loading.

transformers only logs a warning about both, makes up what is missing and forgets what is left over.
"""

from __future__ import annotations

import fnmatch
from typing import Any

from transformers import CONFIG_MAPPING, PreTrainedConfig

from orch_py.protocol import Refused, listed

# Types whose checkpoints hold all of another type's model beside more, as transformers itself says when it loads them.
_HOLDS = {"sam2_video": {"sam2"}, "edgetam_video": {"edgetam"}, "sam3_video": {"sam3", "sam3_tracker"}}


def same_type(cls: Any, source: str, **where: Any) -> None:
    """Refuses a checkpoint whose `config.json` is of another model type than the class."""
    own = getattr(getattr(cls, "config_class", None), "model_type", "")
    if not own:
        # A class that chooses by the checkpoint.
        return
    told, _ = PreTrainedConfig.get_config_dict(source, **where)
    given = told.get("model_type")
    if given is None or _fits(cls.config_class, own, given, told):
        return
    made = ", ".join(f"`{name}`" for name in told.get("architectures") or [])
    hint = f"; it was made by {made}" if made else ""
    raise Refused("error", f"`{source}` is a checkpoint of the type `{given}`, but {cls.__name__} is of `{own}`{hint}")


def _fits(kind: type[PreTrainedConfig], own: str, given: str, told: dict[str, Any]) -> bool:
    # A part of a composite model is loaded from the whole.
    is_part = (kind.base_config_key and kind.base_config_key in told) or any(
        isinstance(part, dict) and part.get("model_type") == own for part in told.values()
    )
    # Several types may share one class, such as gpt-sw3 and GPT-2.
    shares = given in CONFIG_MAPPING and CONFIG_MAPPING[given] is kind
    return bool(given == own or is_part or shares or own in _HOLDS.get(given, ()))


def complete(cls: Any, info: dict[str, Any], unused: list[str] | None) -> None:
    """Refuses a checkpoint that leaves weights of the model to chance; and, if `unused` is given, one that has others
    than those which the class, or the user by these globs, says to do without."""
    _none(info, "missing_keys", f"the checkpoint lacks {{}} weights of {cls.__name__}: ")
    _none(info, "mismatched_keys", f"the checkpoint has other shapes for {{}} weights of {cls.__name__}: ")
    if unused is None:
        return
    left = _names(info, "unexpected_keys")
    for glob in unused:
        if not fnmatch.filter(left, glob):
            raise Refused("error", f"`unused_weights` has `{glob}`, but {cls.__name__} leaves no such weight unused")
    left = [name for name in left if not any(fnmatch.fnmatchcase(name, glob) for glob in unused)]
    if left:
        raise Refused(
            "error",
            f"the checkpoint has {len(left)} weights that {cls.__name__} does not use: {_first(left)}; take the class "
            "that it was made by, or name them in `unused_weights`",
        )


def _none(info: dict[str, Any], key: str, what: str) -> None:
    if names := _names(info, key):
        raise Refused("error", what.format(len(names)) + _first(names))


def _names(info: dict[str, Any], key: str) -> list[str]:
    """transformers reports some as names, and some as a name with two shapes."""
    return sorted(name if isinstance(name, str) else str(name[0]) for name in info.get(key) or [])


def _first(names: list[str]) -> str:
    return listed(names[:5]) + (", …" if len(names) > 5 else "")
