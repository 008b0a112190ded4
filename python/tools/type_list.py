"""Prints the model types of the installed transformers, each with its family, which is
`src/spec/data/transformers-types.txt`.

A type is listed if an auto class knows a class for it: the others are parts of such types. `orch capabilities` counts
coverage by this list, without starting Python. `just classes` writes it again after the lock of the environment `torch`
has changed.
"""

from __future__ import annotations

import sys

import transformers
from transformers import CONFIG_MAPPING

from orch_py.worker.protocol import Refused
from orch_py.zoo import families

HEADER = "# Model types of transformers {}, each with its family, as `just classes` wrote them."


def text() -> str:
    lines = (line for model_type in sorted(CONFIG_MAPPING) if (line := _line(model_type)) is not None)
    return "\n".join([HEADER.format(transformers.__version__), *lines, ""])


def _line(model_type: str) -> str | None:
    """Without a family where its own configuration or class cannot be had; None of parts."""
    try:
        return f"{model_type} {families.family(model_type)[0]}"
    except Refused:
        return None
    except Exception:  # noqa: BLE001 - a configuration may refuse its own defaults in any way.
        return model_type


if __name__ == "__main__":
    sys.stdout.write(text())
