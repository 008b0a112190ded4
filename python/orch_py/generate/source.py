"""Questions to Python source that more than one check asks. Knows nothing of models."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def last_name(node: ast.expr) -> str | None:
    """`c` of `c` and of `a.b.c`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return None


def looked_up(tree: ast.AST, mapping: str) -> Iterator[str]:
    """Constant keys with which `mapping` is asked: `.get("a")`, `.pop("a")`, `["a"]`, `"a" in`."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="get" | "pop" | "setdefault"),
                args=[ast.Constant(value=str(key)), *_],
            ) if name == mapping:
                yield key
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))) if name == mapping:
                yield key
            case ast.Compare(left=ast.Constant(value=str(key)), comparators=[ast.Name(id=name)]) if name == mapping:
                yield key
