"""Prints two rows of each file of the zoo, others for another commit: `python3 -m tools.sample COMMIT FILE…`."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

EACH = 2


def rows(spec: str) -> list[str]:
    return re.findall(r"^  ([A-Za-z0-9][^ :]*):$", spec, re.MULTILINE)


def sample(names: list[str], commit: str) -> list[str]:
    """Each name is as likely as any other, whatever its place; the same ones for the same commit on every machine."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{commit} {name}".encode()).digest())[:EACH]


if __name__ == "__main__":
    commit, *files = sys.argv[1:]
    for file in files:
        print(*sample(rows(Path(file).read_text("utf-8")), commit), sep="\n")
