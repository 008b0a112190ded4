"""Makes the `model` tree of a model with components: their trees, the loop that calls them, inputs, and the outputs
that the libraries' own code gives on them. The loop must repeat those before it is published.

Beside them stands what the loop gives when it is least wrong: without one of its turns, or with one input exchanged for
the control's. A run that is right must be told from that.
"""

from __future__ import annotations

import json
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from orch_py.generate import diffusion, generation, rag, steady
from orch_py.generate.parts import Made, Parts
from orch_py.judge import judge
from orch_py.worker import trees
from orch_py.worker.protocol import Job, Output, Refused, listed

LOOP, CONSTANTS, COMPONENTS = "loop.json", "loop.safetensors", "components"
LABEL = "component."
KINDS: dict[str, Any] = {
    "rag": rag,
    "ddpm": diffusion.Ddpm,
    "dit": diffusion.Dit,
    "stable-diffusion": diffusion.StableDiffusion,
}


def run(job: Job) -> Output:
    torch.set_num_threads(1)
    kind = KINDS[job.required("loop")]
    started = time.perf_counter()
    given = {name.removeprefix(LABEL): job.tree(name) for name in job.inputs if name.startswith(LABEL)}
    if sorted(given) != sorted(kind.COMPONENTS):
        raise Refused("error", f"its components are {listed(sorted(given))}, and must be {listed(kind.COMPONENTS)}")
    parts = Parts(given)
    inputs = trees.read_tensors(job.tree("inputs"), trees.INPUTS)
    control = trees.read_if_present(job.tree("inputs"), trees.CONTROL_INPUTS)
    config = job.param("config", {})
    made = kind.make(parts, inputs, config, int(job.param("seed", 0)))
    found = kind.reference(parts, made, inputs, config)
    ours = made.run(parts, inputs)
    _require_same(ours, found.outputs)
    other = None if control is None else kind.reference(parts, made, control, config)
    if hasattr(kind, "require"):
        kind.require(found.outputs, other and other.outputs)
    # By the same code as the loops that are wrong, so that rounding is no difference.
    wrong = _wrong(parts, made, inputs, control, ours)
    least = _least(wrong, ours)
    if made.generates and found.text:
        text = {"dropped": wrong[_turn(made, made.turns[-1])][made.generates]}
        if other is not None:
            text["control"] = other.outputs[made.generates]
        trees.write_tensors(job.out, generation.FILE, found.text | text)

    for name, tree in given.items():
        shutil.copytree(tree, job.out / COMPONENTS / name)
    reference = _compared(made, found.outputs)
    _write(job.out, made, inputs, reference)
    trees.write_tensors(job.out, trees.DROPPED_REFERENCE, _compared(made, wrong[least]))
    versions = trees.versions("torch", "transformers", "safetensors")
    manifest: dict[str, Any] = {
        "class": job.required("loop"),
        "task": job.param("task"),
        "inputs": list(inputs),
        "outputs": list(reference),
        "components": sorted(given),
        "parameters": sum(part.manifest["parameters"] for part in parts.trees.values()),
        "weights": {"kind": "seeded"},
        "reference": f"torch {versions['torch']} cpu fp32",
        "dropped": least,
        "versions": versions,
    }
    if control is None or other is None:
        manifest["no_control"] = "the recipes of the inputs give no others than these"
    else:
        trees.write_tensors(job.out, trees.CONTROL_INPUTS, control)
        trees.write_tensors(job.out, trees.CONTROL_REFERENCE, _compared(made, other.outputs))
    trees.write_manifest(job.out, manifest)
    facts = {"versions": versions, "by": found.by, "dropped": least, "turns": len(made.turns)}
    return Output(facts=facts | {"seconds": {"compose": time.perf_counter() - started}})


def _require_same(ours: trees.Tensors, reference: trees.Tensors) -> None:
    found = judge.verdict(ours, reference, steady.STEADY)
    if not found["agrees"]:
        raise Refused("numerics", f"the loop does not give what PyTorch's own code gives: {found['reason']}")


def _compared(made: Made, outputs: trees.Tensors) -> trees.Tensors:
    """Without text, which is judged by itself."""
    return {name: value for name, value in outputs.items() if name != made.generates}


def _turn(made: Made, turn: int) -> str:
    return f"turn {turn} of {len(made.turns)}"


def _wrong(
    parts: Parts, made: Made, inputs: trees.Tensors, control: trees.Tensors | None, right: trees.Tensors
) -> dict[str, trees.Tensors]:
    """The outputs of loops that are wrong in one place, by what they leave out."""
    wrong = {}
    for turn in made.turns:
        # Without a turn that makes what later ones need nothing runs at all.
        with suppress(KeyError):
            wrong[_turn(made, turn)] = made.run(parts, inputs, turn)
    if control is not None:
        for name in inputs:
            wrong[f"its own {name}"] = made.run(parts, inputs | {name: control[name]})
    for name in parts.trees:
        layer, got, _ = steady.least_layer(parts[name], lambda: made.run(parts, inputs), right)
        if got is not None:
            wrong[f"{name}: {layer}"] = got
    return wrong


def _least(wrong: dict[str, trees.Tensors], right: trees.Tensors) -> str:
    """The one whose outputs are nearest."""
    effects = {name: steady.effect(got, right) for name, got in wrong.items()}
    for name, effect in effects.items():
        if effect <= steady.LEAST_EFFECT:
            raise Refused("numerics", f"without {name} the outputs are the same: no run could be shown to need it")
    return min(effects, key=lambda name: effects[name])


def _write(out: Path, made: Made, inputs: trees.Tensors, reference: trees.Tensors) -> None:
    trees.write_tensors(out, trees.INPUTS, inputs)
    trees.write_tensors(out, trees.REFERENCE, reference)
    trees.write_tensors(out, CONSTANTS, made.constants)
    (out / LOOP).write_text(json.dumps(made.written(), indent=1) + "\n", "utf-8")
