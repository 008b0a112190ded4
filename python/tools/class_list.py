"""Prints the model classes of the installed transformers, which is `src/spec/data/transformers-classes.txt`.

orch finds a misspelt `class:` by that list without starting Python. `just classes` writes it again after the lock of
the environment `torch` has changed.
"""

from __future__ import annotations

import inspect
import re
import sys

import transformers

HEADER = "# Model classes of transformers {}, as `just classes` wrote them."


def text() -> str:
    return "\n".join([HEADER.format(transformers.__version__), *names(), ""])


def names() -> list[str]:
    """Those of the modules that hold models, and those that choose one by a checkpoint."""
    found = set()
    for name, module in transformers._class_to_module.items():
        if ".modeling_" in f".{module}" and not name.endswith("PreTrainedModel"):
            if _is_model(name, getattr(transformers, name)):
                found.add(name)
    return sorted(found)


def _is_model(name: str, found: object) -> bool:
    if getattr(found, "is_dummy", False):
        # A stand-in for a class whose package is not installed: the list must not depend on what is.
        return re.search("Model|Backbone|For[A-Z]", name) is not None
    if not inspect.isclass(found):
        return False
    return issubclass(found, transformers.PreTrainedModel) or re.match("Auto(Model|Backbone)", name) is not None


if __name__ == "__main__":
    sys.stdout.write(text())
