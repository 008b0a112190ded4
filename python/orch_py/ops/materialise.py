"""Makes the `model` tree: weights, config, complete inputs, and the reference outputs that every run is held to.

The reference comes from the model as loaded back from the tree, not from the one in memory: so it is a statement
about the bytes that are published. fp32, CPU, and the library's own choice of attention, which is what users run.

Beside it stands what shows whether agreeing with it means anything: the outputs on other inputs (the control), and
those of the model without one of its layers.
"""

from __future__ import annotations

import gc
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from orch_py.generate import class_checks, excerpt, generation, seeded, steady, torch_model
from orch_py.inputs import text_inputs
from orch_py.worker import hub_errors, trees
from orch_py.worker.protocol import Job, Output, Refused, first_line, listed

# Larger than any file: one model.safetensors, never shards.
_ONE_FILE = "100000GB"
# Sums in one order give the same reference bytes on hosts of any size.
_THREADS = 1
# An input is the control at once if it changes an output by this share of its scale: twice what int8 may be off.
_ENOUGH = 0.5

# Inputs, and those that the control's may be.
Made = tuple[trees.Tensors, list[trees.Tensors]]


def run(job: Job, made: Made = ({}, [])) -> Output:
    """`made` are inputs that neither a recipe nor a tokenizer fills."""
    if job.param("threads") is None:
        torch.set_num_threads(_THREADS)
    seconds: dict[str, float] = {}
    cls = torch_model.model_class(job.required("class"))
    weights: dict[str, Any] = job.param("weights", {"kind": "seeded"})

    if weights.get("kind") == "hub":
        hub_errors.leave_alone_if_unreachable()
    with class_checks.packages(job.required("class"), cls):
        _examine(job, cls, weights, made[0])

    started = time.perf_counter()
    model, lacking = _load(job, cls, weights)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    torch_model.plain(model.config)
    model.save_pretrained(job.out, max_shard_size=_ONE_FILE)
    _drop_strays(job.out)
    seconds["build"] = time.perf_counter() - started

    texts = _text_inputs(job, weights)
    inputs, controls, no_control = _inputs(job, texts, made)
    del model
    gc.collect()

    started = time.perf_counter()
    model = _made(job, cls)
    reference, named = _outputs(model, inputs, job.param("outputs", []))
    steady.require_without_effect(model, lacking, named, reference)
    seconds["reference"] = time.perf_counter() - started
    started = time.perf_counter()
    trees.write_tensors(job.out, trees.INPUTS, inputs)
    trees.write_tensors(job.out, trees.REFERENCE, reference)
    control = None
    seen = None
    is_long = excerpt.is_long(parameters, named)
    # The reference is of one thread on every host; what only shows its worth takes all of them where it takes long.
    with excerpt.all_cores(is_long):
        if controls:
            control, seen, no_control = _control(job.out, model, controls, reference)
        examined = _Examined.of(model, named, seen, reference, is_long)
        idle = examined.idle(model)
        dropped, no_dropped = examined.write_without_a_layer(job.out, model, named, reference)
    attention = torch_model.attention(model)
    steps = job.param("generate")
    generates = None
    if steps is not None:
        asked = generation.asked(model, steps, named, list(reference), texts.lengths, job.param("positions"))
        with excerpt.all_cores(is_long):
            generates = generation.write(job.out, model, asked, named, control, dropped)
    with excerpt.all_cores(is_long):
        fp64 = examined.require_steady(model, job.param("tokens", []))
    if parameters <= steady.MOST_LOADED_TWICE:
        del model
        gc.collect()
        steady.require_repeatable(lambda: _made(job, cls), named, reference)
    seconds["steady"] = time.perf_counter() - started

    versions = trees.versions("torch", "transformers", "safetensors", "tokenizers")
    manifest: dict[str, Any] = {
        "class": cls.__name__,
        "task": job.param("task"),
        "inputs": list(named),
        "outputs": list(reference),
        "parameters": parameters,
        "weights": {key: weights[key] for key in ("kind", "id", "revision") if weights.get(key) is not None},
        "reference": f"torch {versions['torch']} cpu fp32",
        "versions": versions,
    }
    if no_control is not None:
        manifest["no_control"] = no_control
    if idle is not None and any(idle):
        manifest["control"] = {"idle": idle[0], "idle_rows": idle[1]}
    if dropped is not None:
        manifest["dropped"] = dropped
    if generates is not None:
        manifest["generation"] = generates
    if (positions := job.param("positions")) is not None:
        manifest["positions"] = positions
    if job.param("trust_remote_code", False):
        manifest["trust_remote_code"] = True
    trees.write_manifest(job.out, manifest)
    facts = {
        "versions": versions | {"torch_build": torch.__version__},
        "seconds": seconds,
        "parameters": parameters,
        "threads": torch.get_num_threads(),
        "attention": attention,
        "fp64": fp64,
        "dropped": dropped or no_dropped,
        "outputs": {name: {"shape": list(value.shape), "dtype": str(value.dtype)} for name, value in reference.items()},
    }
    return Output(facts=facts)


def _made(job: Job, cls: Any) -> transformers.PreTrainedModel:
    """The model as it is loaded back from the tree."""
    model = torch_model.from_pretrained(cls, str(job.out), local_files_only=True, **_remote_code(job))
    torch_model.keep_last(model, job.param("positions"))
    return model


@dataclass
class _Examined:
    """The inputs, the control's and the reference by which a reference's worth is found out: an excerpt where a forward
    pass takes long and the model runs on one."""

    inputs: torch_model.Named
    control: trees.Tensors | None
    reference: trees.Tensors
    # Positions of each text that are in it; None where all are.
    positions: int | None
    # Whether a pass on them takes long.
    is_long: bool

    @classmethod
    def of(
        cls,
        model: transformers.PreTrainedModel,
        inputs: torch_model.Named,
        control: trees.Tensors | None,
        reference: trees.Tensors,
        is_long: bool,
    ) -> _Examined:
        whole = cls(inputs, control, reference, None, is_long)
        cut = excerpt.of(inputs) if is_long else None
        if cut is None:
            return whole
        try:
            outputs = steady.computed(model, cut, reference)
        except Exception as error:  # noqa: BLE001 - a model that is made for one length may fail in any way.
            print(f"the model does not run on an excerpt: {first_line(error)}", flush=True)
            return whole
        others = None
        if control is not None:
            named = excerpt.of({name: torch.from_numpy(value) for name, value in control.items()}) or {}
            others = {name: value.numpy() for name, value in named.items()}
        return cls(cut, others, outputs, 2 * excerpt.EDGE, is_long=False)

    def idle(self, model: transformers.PreTrainedModel) -> tuple[list[str], list[int]] | None:
        return steady.idle(model, self.inputs, self.control, self.reference) if self.control is not None else None

    def write_without_a_layer(
        self,
        out: Path,
        model: transformers.PreTrainedModel,
        inputs: torch_model.Named,
        reference: trees.Tensors,
    ) -> tuple[str | None, str | None]:
        """Writes what the model gives without the layer of least effect; its name, or why there is none."""
        dropped, without, why_not = steady.without_a_layer(model, self.inputs, self.reference, few=self.is_long)
        if dropped is not None and self.positions is not None:
            with steady.zeroed(model.get_submodule(dropped)):
                without = steady.computed(model, inputs, reference)
            if steady.effect(without, reference) <= steady.LEAST_EFFECT:
                return None, f"`{dropped}`, of least effect on an excerpt, has none on all outputs"
        if without is not None:
            trees.write_tensors(out, trees.DROPPED_REFERENCE, without)
        return dropped, why_not

    def require_steady(self, model: transformers.PreTrainedModel, tokens: list[str]) -> dict[str, Any]:
        found = steady.require_steady(model, self.inputs, self.reference, tokens)
        return found if self.positions is None else found | {"positions": self.positions}


def _outputs(
    model: transformers.PreTrainedModel, inputs: trees.Tensors, names: list[str], when: str = ""
) -> tuple[trees.Tensors, torch_model.Named]:
    """What the model gives, and the inputs as it takes them."""
    named = torch_model.ordered(model, {name: torch.from_numpy(value) for name, value in inputs.items()})
    got = torch_model.select(torch_model.forward(model, named), names, type(model).__name__)
    outputs = {name: value.numpy() for name, value in got.items()}
    for name, value in outputs.items():
        if wrong := trees.not_a_number(name, value):
            raise Refused(
                "indecisive", f"{wrong}{when}: no run can be compared with it; change the config, seed or inputs"
            )
    return outputs, named


def _control(
    out: Path, model: transformers.PreTrainedModel, candidates: list[trees.Tensors], reference: trees.Tensors
) -> tuple[trees.Tensors | None, trees.Tensors | None, str | None]:
    """Writes inputs and outputs of the control and gives the inputs, or says why there is none.

    It is the first candidate that changes the outputs enough, or else the one that changes them most. Its masks hide
    the last third, if the model takes that: the inputs with such masks come second, and those without, from which it
    generates, first.
    """
    most, found = -1.0, None
    for control in candidates:
        try:
            other, _ = _outputs(model, control, list(reference), " on the control's inputs")
        except Exception as error:
            if found is not None:
                continue
            if isinstance(error, Refused):
                raise
            # A model may need more of its inputs than their recipes say.
            return None, None, f"{type(model).__name__} takes the inputs, but not the control's: {first_line(error)}"
        moved = steady.effect(other, reference)
        if moved > most:
            most, found = moved, (control, other)
        if moved >= _ENOUGH:
            break
    assert found is not None
    control, other = found
    seen = control
    if (masked := steady.padded(control, narrowest_window(model.config.to_dict()))) is not None:
        try:
            other, _ = _outputs(model, masked, list(reference), " where masks hide the last third")
            seen = masked
        except Exception as error:  # noqa: BLE001 - a model may refuse such masks in any way, or give NaN.
            print(f"the control's masks hide nothing: {first_line(error)}", flush=True)
    trees.write_tensors(out, trees.CONTROL_INPUTS, seen)
    trees.write_tensors(out, trees.CONTROL_REFERENCE, other)
    return control, seen, None


def narrowest_window(config: dict[str, Any]) -> int | None:
    """The fewest positions that a window or chunk of attention spans, in a config or one below it."""
    found = []
    for key, value in config.items():
        if isinstance(value, dict):
            found.append(narrowest_window(value))
        elif re.search("window|chunk", str(key)) and type(value) is int and value > 0:
            found.append(value)
    return min((size for size in found if size is not None), default=None)


def _inputs(job: Job, texts: text_inputs.Encoded, made: Made) -> tuple[trees.Tensors, list[trees.Tensors], str | None]:
    """The inputs, and those that the control's may be or why there are none."""
    # A model whose inputs are all text or files has no tree of inputs made before it.
    tree = job.tree("inputs") if "inputs" in job.inputs else None
    given = trees.read_tensors(tree, trees.INPUTS) if tree else {}
    control = trees.read_if_present(tree, trees.CONTROL_INPUTS) if tree else None
    processed = texts.inputs | made[0]
    others = together([texts.controls, made[1]])
    if control is None and not others:
        return given | processed, [], "the recipes of the inputs give no others than these"
    base = given if control is None else control
    return given | processed, [base | processed | other for other in others or [{}]], None


def together(kinds: list[list[trees.Tensors]]) -> list[trees.Tensors]:
    """Candidates of which each changes the inputs of every kind that has any."""
    kinds = [kind for kind in kinds if kind]
    most = max(map(len, kinds), default=0)
    each = [[kind[min(at, len(kind) - 1)] for kind in kinds] for at in range(most)]
    return [{name: value for one in candidate for name, value in one.items()} for candidate in each]


def _load(job: Job, cls: Any, weights: dict[str, Any]) -> tuple[transformers.PreTrainedModel, list[str]]:
    """The model, and the names of weights that its checkpoint lacks, all of which the row names; they are zeros."""
    kind = weights.get("kind")
    if kind == "seeded":
        torch.manual_seed(int(job.param("seed", 0)))
        config = torch_model.build_config(cls, job.param("config", {}))
        torch_model.plain(config)
        model = cls._from_config(config, dtype=torch.float32)
        seeded.fill(model, int(job.param("seed", 0)))
        return model.eval(), []
    source, where = _source(weights)
    with _loading(source, weights), _downloading(job, weights):
        return torch_model.from_checkpoint(
            cls, source, weights.get("unused") or [], weights.get("missing") or [], **where, **_remote_code(job)
        )


def _examine(job: Job, cls: Any, weights: dict[str, Any], made: trees.Tensors) -> None:
    """Finds what is wrong with the row before any weights exist."""
    if weights.get("kind") == "seeded":
        config = torch_model.build_config(cls, job.param("config", {}))
        remote = {}
    else:
        source, where = _source(weights)
        if weights["kind"] == "path":
            refuse_pickles(Path(source))
        remote = _remote_code(job)
        with _loading(source, weights):
            config = class_checks.config_of(cls, source, where, **remote)
    torch_model.plain(config)
    # Texts become tensors when the tokenizer is there.
    inputs: dict[str, torch.Tensor | None] = dict.fromkeys(job.param("inputs", {}))
    given = trees.read_tensors(job.tree("inputs"), trees.INPUTS) if "inputs" in job.inputs else {}
    inputs |= {name: torch.from_numpy(value) for name, value in (given | made).items()}
    class_checks.before_weights(cls, config, inputs, job.param("outputs", []), job.param("max_parameters"), **remote)


@contextmanager
def _loading(source: str, weights: dict[str, Any]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if "safetensors" in str(error):
            raise Refused(
                "error", f"`{source}` has no safetensors weights; pickled weights can run code and are refused"
            ) from error
        raise hub_errors.refusal(error, source, "cannot be loaded", weights.get("revision")) from error


def _downloading(job: Job, weights: dict[str, Any]) -> AbstractContextManager[None]:
    """The time of a download, where weights come from the Hub."""
    return job.downloading() if weights["kind"] == "hub" else nullcontext()


def _source(weights: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The arguments that tell `from_pretrained` what to load. HF_HUB_OFFLINE is obeyed by the Hub client itself."""
    kind = weights.get("kind")
    if kind == "hub":
        if not weights.get("id") or not weights.get("revision"):
            raise Refused("error", "hub weights need `id` and `revision` (a commit): a branch can change under a test")
        return weights["id"], {"revision": weights["revision"]}
    if kind == "path":
        if not weights.get("path"):
            raise Refused("error", "path weights need `path`, a folder in save_pretrained layout")
        return weights["path"], {"local_files_only": True}
    raise Refused("error", f"weights of kind `{kind}`; known: `seeded`, `hub`, `path`")


def refuse_pickles(folder: Path) -> None:
    if not folder.is_dir():
        raise Refused("unavailable", f"the weights folder `{folder}` does not exist")
    if any(folder.glob("*.safetensors")):
        return
    pickles = sorted(path.name for suffix in ("*.bin", "*.pt", "*.pth", "*.ckpt") for path in folder.glob(suffix))
    found = f"only {listed(pickles)}" if pickles else "no weights at all"
    raise Refused(
        "error",
        f"`{folder}` holds {found}; pickled weights can run code and are refused: save them as model.safetensors",
    )


def _remote_code(job: Job) -> dict[str, Any]:
    return {"trust_remote_code": True} if job.param("trust_remote_code", False) else {}


def _drop_strays(tree: Path) -> None:
    """Removes what `save_pretrained` writes beside weights and config for other uses than a forward pass."""
    for name in ("generation_config.json", "README.md"):
        (tree / name).unlink(missing_ok=True)
    shutil.rmtree(tree / ".cache", ignore_errors=True)


def _text_inputs(job: Job, weights: dict[str, Any]) -> text_inputs.Encoded:
    """The inputs that are declared as text, by the model's own tokenizer, whose files go into the tree."""
    texts = text_inputs.of_text(job.param("inputs", {}))
    if not texts:
        return text_inputs.Encoded({}, [], {})
    if weights.get("kind") == "seeded":
        raise Refused(
            "error",
            f"{listed(texts)} is filled with text, but seeded weights have no tokenizer; "
            "use hub or path weights, or fill with `randint`",
        )
    source, where = _source(weights)
    tokenizer = transformers.AutoTokenizer.from_pretrained(source, **where, **_remote_code(job))
    made = text_inputs.encoded(texts, tokenizer, source, job.param("generate") is not None)
    text_inputs.save(tokenizer, job.out)
    return made
