"""What is found out about a model before any of its weights exist: that the class can be used here, that the checkpoint
is one of its own, that it takes the inputs and gives the outputs, and that it fits into memory.

Builds the model without weights (on the device `meta`), in a fraction of a second at any size.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, get_args

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel
from transformers.utils.import_utils import BACKENDS_MAPPING

from orch_py.generate import checkpoint, forward_names, torch_model
from orch_py.worker.memory import whole_memory
from orch_py.worker.protocol import Refused, first_line, listed

# fp32 weights may take this share of the memory; outputs, exporters and their copies need the rest.
_SHARE = 2
_BYTES = 4


def before_weights(
    cls: Any,
    config: PreTrainedConfig,
    inputs: Mapping[str, torch.Tensor | None],
    outputs: list[str],
    most: int | None = None,
    **remote: Any,
) -> None:
    """`inputs` by name, as far as they are known by now; `most` is the user's own `max_parameters`."""
    model = _without_weights(cls, config, **remote)
    _small_enough(model, most)
    forward_names.check(model, inputs)
    _outputs(model, inputs, outputs)


@contextmanager
def packages(name: str, cls: Any) -> Iterator[None]:
    """Says whose environment lacks what, where the class or a part of it needs a package that is not there:
    transformers has a stand-in for such a class, or finds it out as it builds one."""
    if getattr(cls, "is_dummy", False):
        raise _lacking(name, _absent(cls._backends))
    try:
        yield
    except Refused:
        raise
    except Exception as error:
        if (missing := _import_error(error)) is None:
            raise
        told = set(re.findall(r"\w+", str(missing)))
        absent = [missing.name] if missing.name else _absent(one for one in BACKENDS_MAPPING if one in told)
        raise _lacking(name, absent, f" ({first_line(missing)})") from error


def _import_error(error: BaseException | None) -> ImportError | None:
    while error is not None and not isinstance(error, ImportError):
        error = error.__cause__ or error.__context__
    return error


def _absent(backends: Iterable[str]) -> list[str]:
    return [one for one in backends if one in BACKENDS_MAPPING and not BACKENDS_MAPPING[one][0]()]


def _lacking(name: str, packages: list[str], more: str = "") -> Refused:
    return Refused(
        "unavailable",
        f"orch's environment `torch` lacks {listed(packages) if packages else 'a package'}, which {name} needs{more}; "
        "`--python` takes an interpreter that has it",
    )


def config_of(cls: Any, source: str, where: dict[str, Any], **remote: Any) -> PreTrainedConfig:
    """The config of a checkpoint, after it was found to be one of the class."""
    checkpoint.same_type(cls, source, **where)
    kind = getattr(cls, "config_class", None) or AutoConfig
    config: PreTrainedConfig = kind.from_pretrained(source, **where, **(remote if kind is AutoConfig else {}))
    return config


def _without_weights(cls: Any, config: PreTrainedConfig, **remote: Any) -> PreTrainedModel:
    make = getattr(cls, "_from_config", None) or cls.from_config
    with torch.device("meta"):
        model: PreTrainedModel = make(config, **(remote if torch_model.takes_remote_code(cls) else {}))
    return model.eval()


def _small_enough(model: PreTrainedModel, most: int | None) -> None:
    count = sum(parameter.numel() for parameter in model.parameters())
    weights = f"{type(model).__name__} has {count:,} parameters, {_gib(count * _BYTES)} in fp32"
    if most is not None:
        if count > most:
            raise Refused("error", f"{weights}; `max_parameters` is {most:,}")
        return
    memory = whole_memory()
    if memory is not None and count * _BYTES * _SHARE > memory:
        raise Refused(
            "oom",
            f"{weights}; this machine has {_gib(memory)} of memory, of which weights may take half: "
            f"{memory // _BYTES // _SHARE:,} parameters; make `config` smaller, or allow more by `max_parameters`",
        )


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def _outputs(model: PreTrainedModel, inputs: Mapping[str, torch.Tensor | None], wanted: list[str]) -> None:
    """Refuses an output that the class does not return, where that can be known. The type that its forward declares may
    be wrong, so a name that is not in it is refused only after a forward without numbers."""
    declared = _declared(model)
    missing = [name for name in wanted if name not in declared]
    tensors = {name: value for name, value in inputs.items() if value is not None}
    if not declared or not missing or len(tensors) < len(inputs):
        return
    try:
        # By the mode of tracers, in which models ask no mask for its values: here there are none.
        with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
            given = {
                name: torch.empty_like(value, device="meta") for name, value in inputs.items() if value is not None
            }
            got = model(**given)
        returned = list(torch_model.named_tensors(got))
    except Exception:  # noqa: BLE001 - a forward that decides by values needs them; the real one will tell.
        return
    if missing := [name for name in missing if name not in returned]:
        name = type(model).__name__
        raise Refused("error", f"{name} returns no tensor {listed(missing)}; it returns {listed(returned)}")


def _declared(model: PreTrainedModel) -> set[str]:
    annotation = inspect.signature(model.forward).return_annotation
    kinds = (annotation, *get_args(annotation))
    return {name for kind in kinds for name in getattr(kind, "__dataclass_fields__", {})}
