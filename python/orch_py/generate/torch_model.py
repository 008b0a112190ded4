"""A transformers model as a function from named tensors to named tensors.

Builds models from a class and a config, loads them from trees, and wraps them for the exporters. Imports torch, so
only the ops that need torch import it.
"""

from __future__ import annotations

import copy
import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedConfig, PreTrainedModel

from orch_py.generate import checkpoint, config_keys, diffusers_models
from orch_py.stand_ins import experts, rounding
from orch_py.worker import trees
from orch_py.worker.protocol import Refused, first_line, listed

Named = dict[str, torch.Tensor]

# Bars of carriage returns make a log unreadable.
transformers.logging.disable_progress_bar()


def model_class(name: str) -> Any:
    if name in diffusers_models.CLASSES:
        return diffusers_models.CLASSES[name]
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
    if hasattr(cls, "made_of"):
        made: PreTrainedConfig = cls.config_of(given)
        return made
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


def for_export(cls: Any) -> list[dict[str, str]]:
    """Implementations of attention and experts that exporters can take, the best first.

    The library's fused attention stops some of them. Experts in `eager` are a loop over those that the router chose,
    which a trace bakes in; `batched_mm` looks the chosen ones up.
    """
    attention = {"attn_implementation": "eager"}
    if not getattr(cls, "_can_set_experts_implementation", lambda: False)():
        return [attention]
    return [attention | {"experts_implementation": name} for name in ("batched_mm", "eager")]


def takes_remote_code(cls: Any) -> bool:
    """Whether a class takes `trust_remote_code`.

    Those that choose another class by a config do; all others hand it on to the model, which knows no such argument.
    """
    return hasattr(cls, "_model_mapping")


def from_pretrained(cls: Any, source: str, **more: Any) -> PreTrainedModel:
    """Loads fp32 weights of a tree that the class itself has written, with the library's own choice of attention and
    experts unless `more` says otherwise. Refuses a tree that lacks some.
    """
    model, _ = from_checkpoint(cls, source, None, [], **more)
    return model


def from_checkpoint(
    cls: Any, source: str, unused: list[str] | None, missing: list[str], **more: Any
) -> tuple[PreTrainedModel, list[str]]:
    """Loads fp32 weights that any class may have written, and the names of those that they lack.

    Refuses a checkpoint that is not the model's whole and only one, but for weights that the globs `unused` name (all,
    where that is None), and for those that it lacks by the globs `missing`, which become zeros.
    """
    if not takes_remote_code(cls):
        more.pop("trust_remote_code", None)
    model, info = cls.from_pretrained(
        source,
        dtype=torch.float32,
        use_safetensors=True,
        output_loading_info=True,
        # Told, and refused below by name: transformers itself refuses them without one.
        ignore_mismatched_sizes=True,
        **more,
    )
    lacking = checkpoint.complete(cls, info, unused, missing)
    zero(model, lacking)
    plain(model.config)
    return model.eval(), lacking


# The argument of transformers' `forward` that is the number of last positions with scores.
_KEPT = "logits_to_keep"


def keep_last(model: PreTrainedModel, positions: int | None) -> None:
    """Lets the model compute scores of as many positions at the end of each text; of all, where `positions` is None."""
    if positions is None:
        return
    if _KEPT not in inspect.signature(model.forward).parameters:
        raise Refused(
            "error",
            f"`positions: last {positions}`: the forward of {type(model).__name__} takes no `{_KEPT}`, which computes "
            "the scores of the last positions alone; leave `positions` out",
        )
    model.forward = partial(model.forward, **{_KEPT: positions})


def last_alone(model: PreTrainedModel) -> dict[str, int]:
    """The arguments by which a model that `keep_last` was applied to computes the scores of the last position alone;
    none of other models."""
    return {_KEPT: 1} if _KEPT in getattr(model.forward, "keywords", {}) else {}


def zero(model: PreTrainedModel, names: Iterable[str]) -> None:
    """Sets these parameters and buffers of the model to zeros."""
    state = model.state_dict(keep_vars=True)
    with torch.no_grad():
        for name in names:
            state[name].zero_()


@dataclass
class Tree:
    """A `model` tree as it is loaded."""

    model: PreTrainedModel
    manifest: dict[str, Any]
    # In the manifest's order; the control's are None where it has none.
    inputs: Named
    control: Named | None

    @property
    def outputs(self) -> list[str]:
        names: list[str] = self.manifest["outputs"]
        return names


def load_tree(tree: Path, **implementations: str) -> Tree:
    """The model with the library's own choice of attention and experts, or these."""
    manifest = trees.read_manifest(tree)
    cls = model_class(manifest["class"])
    more = {"trust_remote_code": True} if manifest.get("trust_remote_code") else {}
    model = from_pretrained(cls, str(tree), local_files_only=True, **more, **implementations)
    keep_last(model, manifest.get("positions"))
    if implementations and "experts_implementation" not in implementations:
        _look_up_experts(model)

    def named(tensors: trees.Tensors) -> Named:
        return {name: torch.from_numpy(tensors[name]) for name in manifest["inputs"]}

    control = trees.read_if_present(tree, trees.CONTROL_INPUTS)
    inputs = named(trees.read_tensors(tree, trees.INPUTS))
    return Tree(model, manifest, inputs, None if control is None else named(control))


def _look_up_experts(model: PreTrainedModel) -> None:
    """As `for_export` says, in models that have experts only within a model of another class."""
    for module in model.modules():
        if isinstance(module, PreTrainedModel) and module._can_set_experts_implementation():
            module.set_experts_implementation("batched_mm")


def attention(model: PreTrainedModel) -> str:
    """The implementation in use, by the library's name of it."""
    return str(getattr(model.config, "_attn_implementation", None) or "eager")


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
        return named_tensors(model(**inputs))


def named_tensors(result: Mapping[str, Any]) -> Named:
    """The tensors among what a model returned; those of a tuple by their places in it, as in `feature_maps.0`."""
    found: dict[str, Any] = {}
    for name, value in result.items():
        parts = value if isinstance(value, (tuple, list)) else ()
        found |= {f"{name}.{place}": part for place, part in enumerate(parts)} or {name: value}
    return {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}


def select(got: Named, names: list[str], cls: str) -> Named:
    """The outputs `names` as tensors of their own. Without names all; those of tuples only if there are no others."""
    chosen = names or [name for name in got if "." not in name] or list(got)
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
        result = named_tensors(self.model(**dict(zip(self.inputs, given, strict=True)), **self.fixed))
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


@dataclass
class Traced:
    """What a tracer made of a model, with the inputs that it takes, and the control's."""

    made: Any
    inputs: Named
    control: Named | None


class OneInputOnly(Exception):
    """The graph would be right for the inputs that it was made with, and for no others."""


def traceable(
    model: PreTrainedModel, inputs: Named, control: Named | None, trace: Callable[[Named, dict[str, Any]], Any]
) -> Traced:
    """What `trace` makes of the model.

    The inputs are left as they are if that works; but one whose values Python reads would stay an input of the graph
    that changes nothing, so such inputs are fixed from the start.
    """
    tensors, fixed = prepared(model, inputs)
    with rounding.of_sizes(), experts.all_computing(model):
        if fixed:
            print(f"part of the graph, as Python code decides by their values: {listed(fixed)}", flush=True)
            # Before the work, which would be in vain.
            other = prepared_alike(model, control, tensors, fixed)
            return Traced(trace(tensors, fixed), tensors, other)
        try:
            return Traced(trace(inputs, {}), inputs, control)
        except Exception as error:
            if list(tensors) == list(inputs):
                raise
            print(f"tracing failed ({first_line(error)}); trying with {listed(tensors)}", flush=True)
            return Traced(trace(tensors, {}), tensors, prepared_alike(model, control, tensors, {}))


def prepared_alike(
    model: PreTrainedModel, control: Named | None, tensors: Named, fixed: dict[str, Any]
) -> Named | None:
    """The control's inputs as a graph with these tensors and constants takes them; an error if it cannot."""
    if control is None:
        return None
    others, constants = prepared(model, control)
    differ = [name for name in fixed if not _same(fixed[name], constants.get(name))]
    if differ:
        raise OneInputOnly(
            f"{listed(differ)} become constants of the graph, and are others for the control's inputs: it would be "
            "right for one input only; give the inputs that they follow from literal values"
        )
    require_alike(tensors, others)
    return {name: others[name] for name in tensors}


def require_alike(tensors: Named, others: Named) -> None:
    for name, value in tensors.items():
        other = others.get(name)
        if other is None or (other.shape, other.dtype) != (value.shape, value.dtype):
            found = "nothing" if other is None else f"{other.dtype}{list(other.shape)}"
            told = f"`{name}` is {value.dtype}{list(value.shape)} here and {found} for the control's inputs"
            raise OneInputOnly(f"{told}: a graph of fixed shapes would be right for one input only")


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor):
        return isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
