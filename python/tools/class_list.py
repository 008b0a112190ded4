"""Prints the model classes of the installed transformers, each with its model type, which is
`src/spec/data/transformers-classes.txt`.

orch finds a misspelt `class:` by that list, and selects by `type:`, without starting Python. `just classes` writes it
again after the lock of the environment `torch` has changed.
"""

from __future__ import annotations

import inspect
import re
import sys

import transformers
from transformers.models.auto import modeling_auto

HEADER = "# Model classes of transformers {}, each with its model type, as `just classes` wrote them."


def text() -> str:
    lines = (f"{name} {_type(name)}".rstrip() for name in names())
    return "\n".join([HEADER.format(transformers.__version__), *lines, ""])


def names() -> list[str]:
    """Those of the modules that hold models, and those that choose one by a checkpoint."""
    found = set()
    for name, module in transformers._class_to_module.items():
        if ".modeling_" in f".{module}" and not name.endswith("PreTrainedModel"):
            if _is_model(name, getattr(transformers, name)):
                found.add(name)
    return sorted(found)


def _type(name: str) -> str:
    """Empty for classes that serve several types."""
    found = getattr(transformers, name)
    if getattr(found, "is_dummy", False):
        return _mapped().get(name, "")
    return getattr(getattr(found, "config_class", None), "model_type", None) or ""


def _mapped() -> dict[str, str]:
    """The type of every class that the auto mappings name."""
    tables = (table for key, table in vars(modeling_auto).items() if key.endswith("_MAPPING_NAMES"))
    rows = (row for table in tables for row in table.items())
    return {name: kind for kind, names in rows for name in ([names] if isinstance(names, str) else names)}


def _is_model(name: str, found: object) -> bool:
    if getattr(found, "is_dummy", False):
        # A stand-in for a class whose package is not installed: the list must not depend on what is.
        return re.search("Model|Backbone|For[A-Z]", name) is not None
    if not inspect.isclass(found):
        return False
    return issubclass(found, transformers.PreTrainedModel) or re.match("Auto(Model|Backbone)", name) is not None


if __name__ == "__main__":
    sys.stdout.write(text())
