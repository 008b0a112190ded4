"""Which keys of a config a model takes, and which it would ignore in silence.

A transformers config accepts any key at all and keeps it as an attribute that nobody may ever read. So a key counts as
known if the config class declares it, if its constructor uses it up, or if the source of the model reads it. Needs
transformers; builds no model.
"""

from __future__ import annotations

import ast
import difflib
import functools
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from transformers import CONFIG_MAPPING, GenerationConfig, PreTrainedConfig

from orch_py.generate.source import last_name, looked_up
from orch_py.worker.protocol import Refused, listed

# What the class that all models derive from reads of any config and acts on; of the rest that it reads (such as
# `sliding_window`) the model itself must know.
OF_ALL = {"initializer_range", "init_std", "initializer_factor", "tie_word_embeddings", "gradient_checkpointing"}


@dataclass(frozen=True)
class Read:
    """One place in a source that reads `key` of a config: the name of what it reads it of (`config`,
    `vision_config`), and the class of that config as the source says it, if it does."""

    of: str
    key: str
    config: str | None


def check(cls: Any, config: PreTrainedConfig, given: dict[str, Any]) -> None:
    """Refuses the first key of `given` that `config`, which was made of it, would ignore; also in its sub-configs."""
    for _, told in ignored(cls, config, given):
        raise Refused("error", told)


def ignored(cls: Any, config: PreTrainedConfig, given: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each key of `given` that would be ignored, as the keys that lead to it, and what is to be said of it."""
    return _ignored(config, given, ("config",), "config", _modules(cls), [])


def _ignored(
    config: PreTrainedConfig,
    given: dict[str, Any],
    place: tuple[str, ...],
    name: str,
    modules: list[str],
    above: list[str],
) -> Iterator[tuple[tuple[str, ...], str]]:
    own = [*modules, *_written_in(type(config))]
    known = _declared(config, given)
    for key, value in given.items():
        if key == "model_type":
            _same_type(config, value, ".".join(place))
        elif key not in known and not _is_read(config, key, name, own, above):
            yield (*place[1:], key), _unknown(config, key, ".".join(place), known)
        # Not `getattr`: some configs refuse to tell what differs between layers.
        below = vars(config).get(key)
        if isinstance(value, dict) and isinstance(below, PreTrainedConfig):
            yield from _ignored(below, value, (*place, key), key, [], own)


def _same_type(config: PreTrainedConfig, given: Any, place: str) -> None:
    """Not the attribute of `config`, which the constructor has set to whatever was given."""
    own = type(config).model_type
    if own and given != own and not (given in CONFIG_MAPPING and CONFIG_MAPPING[given] is type(config)):
        raise Refused("error", f"`{place}.model_type` is `{given}`, but {type(config).__name__} is of the type `{own}`")


def _unknown(config: PreTrainedConfig, key: str, place: str, known: set[str]) -> str:
    name = type(config).__name__
    if key in _generation():
        return f"{name} drops `{key}` (in `{place}`), which belongs to text generation and not to the model"
    near = difflib.get_close_matches(key, known, n=3)
    hint = f"; did you mean {listed(near)}?" if near else ""
    return f"{name} knows no `{key}` (in `{place}`), and its model reads none{hint}"


def _declared(config: PreTrainedConfig, given: dict[str, Any]) -> set[str]:
    """What the config class knows: its fields and parameters, names that stand for others, properties that can be set,
    and what its constructor takes of the keys that it has no field for."""
    kind = type(config)
    known = set(inspect.signature(kind.__init__).parameters) | set(config.attribute_map)
    known -= {"self", "args", "kwargs"}
    known |= set(getattr(kind, "__dataclass_fields__", {}))
    known |= {
        name
        for name, value in inspect.getmembers_static(kind)
        if isinstance(value, property) and value.fset and not name.startswith("_")
    }
    # A key that no field holds stays as an attribute, unless the constructor used it up. Generation's keys it drops.
    held = vars(config)
    known |= {key for key in given if key not in held and key not in _generation() and key != "_commit_hash"}
    known |= _taken(kind)  # type: ignore[arg-type]
    try:
        # Attributes that the constructor sets beside its fields.
        known |= {name for name in vars(kind(**{k: v for k, v in given.items() if k in known})) if name[0] != "_"}
    except Exception:  # noqa: BLE001 - whether the config as given can be made is for others to say.
        pass
    return known


@functools.cache
def _generation() -> set[str]:
    """Names that every config drops, because they belong to generation."""
    return set(GenerationConfig._get_default_generation_params())


@functools.cache
def _taken(kind: type) -> set[str]:
    """Keys that the constructors of a config class look up among those that it has no field for."""
    found: set[str] = set()
    for base in kind.__mro__:
        if base is PreTrainedConfig or not base.__module__.startswith("transformers.models."):
            continue
        for name in ("__init__", "__post_init__"):
            method = vars(base).get(name)
            if method is None:
                continue
            try:
                tree = ast.parse(inspect.cleandoc("if True:\n" + inspect.getsource(inspect.unwrap(method))))
            except (OSError, TypeError, SyntaxError):
                continue
            found |= set(looked_up(tree, "kwargs"))
    return found


def _is_read(config: PreTrainedConfig, key: str, name: str, modules: list[str], above: list[str]) -> bool:
    """Whether the model's own source reads `key` of this config, or a model above reads it by the sub-config's name."""
    if key in OF_ALL:
        return True
    kinds = {base.__name__ for base in type(config).__mro__} - {"PreTrainedConfig"}
    for module in modules:
        for read in reads(module):
            if read.key == key and (read.config in kinds if read.config else read.of in ("config", name)):
                return True
    return any(read.key == key and read.of == name for module in above for read in reads(module))


def _modules(cls: Any) -> list[str]:
    """The modules that a class and those that it derives from are written in."""
    return sorted({base.__module__ for base in cls.__mro__ if base.__module__.startswith("transformers.models.")})


def _written_in(kind: type) -> list[str]:
    """The modules of a config class and of the models that are made of it, by the names of the files."""
    own = _modules(kind)
    return [*own, *(module.replace(".configuration_", ".modeling_") for module in own)]


@functools.cache
def reads(module: str) -> tuple[Read, ...]:
    try:
        tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    except (ImportError, OSError, SyntaxError):
        return ()
    found: dict[Read, None] = {}
    for top in tree.body:
        kind = _config_class(top)
        for node in ast.walk(top):
            match node:
                case ast.Attribute(value=value, attr=key):
                    pass
                case ast.Call(func=ast.Name(id="getattr" | "hasattr"), args=[value, ast.Constant(value=str(key)), *_]):
                    pass
                case _:
                    continue
            of = last_name(value)
            if of and ("config" in of.lower() or of == "cfg"):
                # The class's own config is called so; by another name it is a part of it.
                found[Read(of, key, kind if of == "config" else None)] = None
    return tuple(found)


def _config_class(node: ast.stmt) -> str | None:
    """The config that a class is made of, by the annotation of its attribute or of its constructor's parameter."""
    if not isinstance(node, ast.ClassDef):
        return None
    for part in node.body:
        match part:
            case ast.AnnAssign(target=ast.Name(id="config"), annotation=annotation):
                return _plain_name(annotation)
            case ast.FunctionDef(name="__init__", args=arguments):
                for argument in arguments.args:
                    if argument.arg == "config" and argument.annotation is not None:
                        return _plain_name(argument.annotation)
    return None


def _plain_name(node: ast.expr) -> str | None:
    """A single class's name; a union of several says nothing."""
    match node:
        case ast.Name(id=name) | ast.Constant(value=str(name)) if name not in ("PreTrainedConfig", "PretrainedConfig"):
            return name
    return None
