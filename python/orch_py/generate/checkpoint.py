"""Whether a checkpoint is one of the class that it is loaded into: its type before, its weights after loading.

transformers only logs a warning about both, makes up what is missing and forgets what is left over.
"""

from __future__ import annotations

import fnmatch
from typing import Any

from transformers import CONFIG_MAPPING, PreTrainedConfig

from orch_py.worker.protocol import Refused, listed

# Types whose checkpoints hold all of another type's model beside more, as transformers itself says when it loads them.
_HOLDS = {"sam2_video": {"sam2"}, "edgetam_video": {"edgetam"}, "sam3_video": {"sam3", "sam3_tracker"}}
_IF_WITHOUT_EFFECT = "; if no output depends on them, name them in `missing_weights`"


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


def complete(cls: Any, info: dict[str, Any], unused: list[str] | None, missing: list[str]) -> list[str]:
    """The weights of the class that the checkpoint lacks, all of which the globs `missing` name.

    Refuses a checkpoint that lacks others, for they would be left to chance; and, if `unused` is given, one that has
    weights besides those that the class uses and those that these globs name.
    """
    lacking = reported(info, "missing_keys")
    for glob in missing:
        if not fnmatch.filter(lacking, glob):
            raise Refused("error", f"`missing_weights` has `{glob}`, but the checkpoint lacks no such weight")
    _none(_unnamed(lacking, missing), f"the checkpoint lacks {{}} weights of {cls.__name__}: ", _IF_WITHOUT_EFFECT)
    _none(reported(info, "mismatched_keys"), f"the checkpoint has other shapes for {{}} weights of {cls.__name__}: ")
    if unused is None:
        return lacking
    left = reported(info, "unexpected_keys")
    for glob in unused:
        if not fnmatch.filter(left, glob):
            raise Refused("error", f"`unused_weights` has `{glob}`, but {cls.__name__} leaves no such weight unused")
    left = _unnamed(left, unused)
    if left:
        raise Refused(
            "error",
            f"the checkpoint has {len(left)} weights that {cls.__name__} does not use: {_first(left)}; take the class "
            "that it was made by, or name them in `unused_weights`",
        )
    return lacking


def _unnamed(names: list[str], globs: list[str]) -> list[str]:
    return [name for name in names if not any(fnmatch.fnmatchcase(name, glob) for glob in globs)]


def _none(names: list[str], what: str, hint: str = "") -> None:
    if names:
        raise Refused("error", what.format(len(names)) + _first(names) + hint)


def reported(info: dict[str, Any], key: str) -> list[str]:
    """transformers reports some as names, and some as a name with two shapes."""
    return sorted(name if isinstance(name, str) else str(name[0]) for name in info.get(key) or [])


def _first(names: list[str]) -> str:
    return listed(names[:5]) + (", …" if len(names) > 5 else "")
