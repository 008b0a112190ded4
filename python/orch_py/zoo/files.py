"""Rows as they stand in `specs/models/*.yaml`, one file for each family: read, and written in one form."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from orch_py.zoo.rows import Document

WIDTH = 150
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_NO_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "none"}
_HEADER = """# yaml-language-server: $schema=../schema.json
# Models of the family {family}, small and with random weights, in the order of their types. `orch zoo` writes this file
# again: `family`, `config`, `inputs`, `priority` and tags that are families or `text-only` anew, all else as it is.
models:
"""
# Written once where several tasks of a type share it.
_SHARED = ("config", "inputs")


def is_own(path: Path) -> bool:
    """Whether `orch zoo` wrote the file, by its first lines: what it has beside rows is kept nowhere else."""
    first, second, *_ = _HEADER.splitlines()
    lines = path.read_text("utf-8").splitlines()[:2]
    return len(lines) == 2 and lines[0] == first and lines[1].startswith(second.split("{")[0])


def read(path: Path) -> dict[str, Document]:
    """The rows of a file by name; none if there is no file."""
    if not path.exists():
        return {}
    rows = yaml.safe_load(path.read_text("utf-8"))["models"]
    return rows if isinstance(rows, dict) else {}


def text(family: str, rows: dict[str, Document]) -> str:
    """The whole file. The rows of one type follow each other, and share what is equal by an anchor."""
    anchors: dict[tuple[str, str], str] = {}
    uses: dict[tuple[str, str], int] = {}
    for row in rows.values():
        for field in _SHARED:
            shared = (field, json.dumps(row[field]))
            uses[shared] = uses.get(shared, 0) + 1
    parts = []
    for name, row in rows.items():
        lines = [f"  {name}:"]
        for field, value in row.items():
            place = (field, json.dumps(value)) if field in _SHARED else None
            if place and place in anchors:
                lines.append(f"    {field}: *{anchors[place]}")
                continue
            mark = ""
            if place and uses[place] > 1:
                anchors[place] = re.sub(r"[^A-Za-z0-9_-]", "-", name) + ("" if field == "config" else f"-{field}")
                mark = f" &{anchors[place]}"
            lines += _entry(f"{field}:{mark}", value, 4)
        parts.append("\n".join(lines))
    return _HEADER.format(family=family) + "\n\n".join(parts) + "\n"


def row_text(name: str, row: Document) -> str:
    """A row by itself, as it stands below `models:`."""
    lines = [line for field, value in row.items() for line in _entry(f"{field}:", value, 4)]
    return "\n".join([f"  {name}:", *lines]) + "\n"


def _entry(key: str, value: Any, indent: int) -> list[str]:
    """`key: value`, in one line where that fits."""
    space = " " * indent
    line = f"{space}{key} {_flow(value)}"
    if isinstance(value, dict) and value and (len(line) > WIDTH or key.startswith("inputs:")):
        return [
            f"{space}{key}",
            *(each for name, below in value.items() for each in _entry(f"{name}:", below, indent + 2)),
        ]
    if isinstance(value, list) and len(line) > WIDTH:
        return [f"{space}{key}", *_wrapped(_flow(value), indent + 2)]
    return [line]


def _wrapped(flow: str, indent: int) -> list[str]:
    lines, space = [""], " " * indent
    for part in flow.split(" "):
        if lines[-1] and len(space) + len(lines[-1]) + 1 + len(part) > WIDTH:
            lines.append("")
        lines[-1] = f"{lines[-1]} {part}".strip()
    return [space + ("" if place == 0 else " ") + line for place, line in enumerate(lines)]


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(below)}" for key, below in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_flow(below) for below in value) + "]"
    if isinstance(value, str) and _WORD.fullmatch(value) and value.lower() not in _NO_WORDS:
        return value
    if (
        isinstance(value, str)
        and re.fullmatch(r"[A-Za-z0-9./][A-Za-z0-9._/-]*", value)
        and re.search("[A-Za-z]/|/[A-Za-z]", value)
    ):
        return value
    # YAML 1.1, which is what reads it here, takes 1e-05 for a word.
    return re.sub(r"^(-?\d+)(e.*)$", r"\1.0\2", json.dumps(value))
