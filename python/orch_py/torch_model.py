"""A transformers model as a function from named tensors to named tensors.

Builds models from a class and a config, loads them from trees, and wraps them for the exporters. Imports torch, so
only the ops that need torch import it.
"""

from __future__ import annotations

import copy
import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedConfig, PreTrainedModel

from orch_py import checkpoint, config_keys, trees
from orch_py.protocol import Refused, first_line, listed

Named = dict[str, torch.Tensor]

# Bars of carriage returns make a log unreadable.
transformers.logging.disable_progress_bar()


def model_class(name: str) -> Any:
    found = getattr(transformers, name, None)
    if found is None:
        near = difflib.get_close_matches(name, dir(transformers), n=3)
        hint = f"; did you mean {listed(near)}?" if near else ""
        raise Refused("error", f"transformers {transformers.__version__} has no class `{name}`{hint}")
    return found


def build_config(cls: Any, given: dict[str, Any]) -> PreTrainedConfig:
    """The class's own defaults overridden by `given`.

    The constructor does it, for it derives fields from others and builds the sub-configs by their own constructors.
    It also accepts any misspelt key in silence, so keys are checked.
    """
    config_class = getattr(cls, "config_class", None)
    if config_class is None:
        raise Refused("error", f"`{cls.__name__}` has no config class; seeded weights need a concrete model class")
    try:
        # A copy: some constructors take the sub-configs that they are given apart.
        config: PreTrainedConfig = config_class(**copy.deepcopy(given))
    except (TypeError, ValueError) as error:
        raise Refused("error", f"{config_class.__name__} refuses the config: {error}") from error
    config_keys.check(cls, config, given)
    return config


def plain(config: PreTrainedConfig) -> None:
    """Makes the outputs plain tensors: no caches, no tuples, here and in every sub-config."""
    for key, value in (("use_cache", False), ("return_dict", True)):
        if hasattr(config, key):
            setattr(config, key, value)
    for name in config.sub_configs:
        below = getattr(config, name, None)
        if isinstance(below, PreTrainedConfig):
            plain(below)


def implementations(cls: Any) -> dict[str, str]:
    """Eager attention and experts: the fused kernels differ between hosts and stop some exporters."""
    chosen = {"attn_implementation": "eager"}
    if getattr(cls, "_can_set_experts_implementation", lambda: False)():
        chosen["experts_implementation"] = "eager"
    return chosen


def from_pretrained(cls: Any, source: str, unused: list[str] | None = None, **more: Any) -> PreTrainedModel:
    """Loads fp32 weights and refuses a checkpoint that is not the model's whole and only one, but for weights that the
    globs `unused` name. A tree of orch's own was written by the class itself: it gives none."""
    model, info = cls.from_pretrained(
        source,
        dtype=torch.float32,
        use_safetensors=True,
        output_loading_info=True,
        # Told, and refused below by name: transformers itself refuses them without one.
        ignore_mismatched_sizes=True,
        **implementations(cls),
        **more,
    )
    checkpoint.complete(cls, info, unused)
    plain(model.config)
    result: PreTrainedModel = model.eval()
    return result


def load_tree(tree: Path) -> tuple[PreTrainedModel, dict[str, Any], Named]:
    """The model of a `model` tree, its manifest, and its inputs in the manifest's order."""
    manifest = trees.read_manifest(tree)
    more = {"trust_remote_code": True} if manifest.get("trust_remote_code") else {}
    model = from_pretrained(model_class(manifest["class"]), str(tree), local_files_only=True, **more)
    tensors = trees.read_tensors(tree, trees.INPUTS)
    return model, manifest, {name: torch.from_numpy(tensors[name]) for name in manifest["inputs"]}


def ordered(model: PreTrainedModel, inputs: Mapping[str, torch.Tensor]) -> Named:
    """`inputs` in the order of the model's `forward`: the one order that needs no second list."""
    signature = inspect.signature(model.forward).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.values())
    places = {name: place for place, name in enumerate(signature)}
    for name in inputs:
        if name not in places and not takes_any:
            near = difflib.get_close_matches(name, places, n=1)
            hint = f"; did you mean `{near[0]}`?" if near else f"; it takes {listed(places)}"
            raise Refused("error", f"the forward of {type(model).__name__} takes no `{name}`{hint}")
    return {name: inputs[name] for name in sorted(inputs, key=lambda name: (places.get(name, len(places)), name))}


def forward(model: PreTrainedModel, inputs: Named) -> Named:
    """Every tensor that the model returns, by name."""
    with torch.inference_mode():
        result = model(**inputs)
    return {name: value for name, value in result.items() if isinstance(value, torch.Tensor)}


def select(got: Named, names: list[str], cls: str) -> Named:
    """The outputs `names`, or all when there are none, as tensors of their own."""
    chosen = names or list(got)
    for name in chosen:
        if name not in got:
            raise Refused("error", f"{cls} returns no tensor `{name}`; it returns {listed(got)}")
    if not chosen:
        raise Refused("error", f"{cls} returns no tensor at all")
    return {name: got[name].detach().clone().contiguous() for name in chosen}


class Positional(torch.nn.Module):
    """The model as exporters like it: tensors in by position, a tuple of tensors out. `fixed` are arguments that are
    no inputs of the graph. A model in half precision still takes and gives fp32, as its reference does."""

    def __init__(
        self, model: PreTrainedModel, inputs: list[str], outputs: list[str], fixed: dict[str, Any] | None = None
    ) -> None:
        super().__init__()
        self.model = model
        self.inputs = inputs
        self.outputs = outputs
        self.fixed = fixed or {}

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        dtype = self.model.dtype
        given = [_from_to(value, torch.float32, dtype) for value in tensors]
        result = self.model(**dict(zip(self.inputs, given, strict=True)), **self.fixed)
        return tuple(_from_to(result[name], dtype, torch.float32) for name in self.outputs)


def _from_to(value: torch.Tensor, old: torch.dtype, new: torch.dtype) -> torch.Tensor:
    """A value of another type as it is: a tracer would keep a conversion that changes nothing."""
    return value.to(new) if old is not new and value.dtype is old else value


def prepared(model: PreTrainedModel, inputs: Named) -> tuple[Named, dict[str, Any]]:
    """The inputs as transformers rewrites them for its exporters: tensors, and values that become part of the graph.

    Models that decide on Python's side by an input's values, such as the sizes of images, can be traced only so.
    """
    from transformers.exporters.utils import prepare_for_export

    _, made, _ = prepare_for_export(model, {name: value.clone() for name, value in inputs.items()})
    tensors = {name: value for name, value in made.items() if isinstance(value, torch.Tensor)}
    tensors = {name: _from_to(value, model.dtype, torch.float32) for name, value in tensors.items()}
    return tensors, {name: value for name, value in made.items() if name not in tensors}


def traceable(
    model: PreTrainedModel, inputs: Named, trace: Callable[[Named, dict[str, Any]], Any]
) -> tuple[Any, Named]:
    """What `trace` makes of the model, and the inputs that it took.

    The inputs are left as they are if that works; but one whose values Python reads would stay an input of the graph
    that changes nothing, so such inputs are fixed from the start.
    """
    tensors, fixed = prepared(model, inputs)
    with _rounding():
        if fixed:
            print(f"part of the graph, as Python code decides by their values: {listed(fixed)}", flush=True)
            return trace(tensors, fixed), tensors
        try:
            return trace(inputs, {}), inputs
        except Exception as error:
            if list(tensors) == list(inputs):
                raise
            print(f"tracing failed ({first_line(error)}); trying with {listed(tensors)}", flush=True)
            return trace(tensors, {}), tensors


@contextmanager
def _rounding() -> Iterator[None]:
    """While tracing, a size is a tensor in disguise, and tensors lack the `round` by which models reckon with sizes."""
    if hasattr(torch.Tensor, "__round__"):
        yield
        return
    torch.Tensor.__round__ = lambda self, digits=None: round(self.item(), digits)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del torch.Tensor.__round__  # type: ignore[attr-defined]
