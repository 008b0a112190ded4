"""The names that a model's forward takes.

Most take any keyword at all and hand it on, so a misspelt input changes nothing and nobody says so. Here a name counts
only if it is a parameter, is listed in the type of the keywords, is looked up by the code, or is one of those of a
module that the keywords are handed on to. Needs torch; the model may be one without weights.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import textwrap
from collections.abc import Callable, Iterable
from typing import Any, get_args, is_typeddict

import torch

from orch_py.generate.source import last_name, looked_up
from orch_py.worker.protocol import Refused, listed


def check(model: torch.nn.Module, inputs: Iterable[str]) -> None:
    """Refuses the first of `inputs` that the model's forward does not know."""
    known = names(model)
    for name in inputs:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            own = inspect.signature(model.forward).parameters.values()
            takes = [one.name for one in own if one.kind is not inspect.Parameter.VAR_KEYWORD]
            hint = f"; did you mean `{near[0]}`?" if near else f"; it takes {listed(takes)}"
            raise Refused("error", f"the forward of {type(model).__name__} takes no `{name}`{hint}")


def names(model: torch.nn.Module) -> set[str]:
    return _names(model.forward, model, frozenset())


def _names(method: Callable[..., Any], owner: Any, seen: frozenset[Any]) -> set[str]:
    parameters = inspect.signature(method).parameters
    known = {name for name, one in parameters.items() if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)}
    rest = next((one for one in parameters.values() if one.kind is one.VAR_KEYWORD), None)
    plain = inspect.unwrap(getattr(method, "__func__", method))
    if rest is None or (plain, id(owner)) in seen:
        return known
    known |= _typed(rest.annotation, plain)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(plain)))
    except (OSError, TypeError, SyntaxError):
        return known
    known |= set(looked_up(tree, rest.name))
    handed = _derived(tree, rest.name)
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        prefixes = {
            handed[name] for part in call.keywords if part.arg is None and (name := last_name(part.value)) in handed
        }
        target = _called(call.func, owner, plain) if prefixes else None
        if target is None:
            continue
        below = _names(*target, seen | {(plain, id(owner))}) - _given(call, target[0])
        known |= {prefix + name for prefix in prefixes for name in below}
    return known


def _typed(annotation: Any, function: Any) -> set[str]:
    """The keys of `**kwargs: Unpack[SomeTypedDict]`."""
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, vars(inspect.getmodule(function)))
        except Exception:  # noqa: BLE001 - a type that is imported only for checkers names nothing.
            return set()
    found: set[str] = set()
    for kind in (annotation, *get_args(annotation)):
        if is_typeddict(kind):
            found |= kind.__required_keys__ | kind.__optional_keys__
    return found


def _derived(tree: ast.AST, rest: str) -> dict[str, str]:
    """The names of mappings made of `rest`, each with the prefix that their keys have in it."""
    found = {rest: ""}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        if not any(isinstance(part, ast.Name) and part.id in found for part in ast.walk(node.value)):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if isinstance(node.value, ast.Dict | ast.DictComp):
            for target in targets:
                if isinstance(target, ast.Name) and target.id not in found:
                    found[target.id] = _prefix(node.value)
    return found


def _prefix(value: ast.expr) -> str:
    """`decoder_`, where the keys that begin so are picked; nothing where those that do not are."""
    denied = {id(part.operand) for part in ast.walk(value) if isinstance(part, ast.UnaryOp)}
    for part in ast.walk(value):
        match part:
            case ast.Call(func=ast.Attribute(attr="startswith"), args=[ast.Constant(value=str(prefix))]):
                if id(part) not in denied:
                    return prefix
    return ""


def _called(func: ast.expr, owner: Any, function: Any) -> tuple[Callable[..., Any], Any] | None:
    """What `self.a.b(...)` or `super().forward(...)` calls, and whose it is. What a loop goes over has no such name."""
    match func:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=attr):
            bases = type(owner).__mro__
            own = next((place for place, base in enumerate(bases) if _holds(base, function)), len(bases))
            above = next((vars(base)[attr] for base in bases[own + 1 :] if attr in vars(base)), None)
            return (above.__get__(owner), owner) if inspect.isfunction(above) else None
    path: list[str] = []
    while isinstance(func, ast.Attribute):
        path.insert(0, func.attr)
        func = func.value
    if not (isinstance(func, ast.Name) and func.id == "self" and path):
        return None
    before, found = owner, owner
    for name in path:
        before, found = found, getattr(found, name, None)
    if isinstance(found, torch.nn.Module):
        return found.forward, found
    return (found, before) if inspect.ismethod(found) else None


def _holds(base: type, function: Any) -> bool:
    return any(inspect.unwrap(value) is function for value in vars(base).values() if callable(value))


def _given(call: ast.Call, target: Callable[..., Any]) -> set[str]:
    """The parameters that the call fills itself."""
    parameters = list(inspect.signature(target).parameters)
    # How many a starred argument fills is not known.
    places = 0 if any(isinstance(part, ast.Starred) for part in call.args) else len(call.args)
    return set(parameters[:places]) | {part.arg for part in call.keywords if part.arg}
