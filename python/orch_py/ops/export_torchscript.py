"""Makes the TorchScript artefact: the model traced with its inputs, frozen, and checked against the reference, on these
inputs and on the control's, after it has been loaded back from its file. In half precision its weights are, and all
that is computed with them.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import torch

from orch_py import stand_ins
from orch_py.export import torchscript_file
from orch_py.generate import torch_model
from orch_py.generate.attention import Difference
from orch_py.judge.parity import LOOSE, Expected
from orch_py.worker import trees
from orch_py.worker.protocol import Job, Output, Refused, listed

MODEL = "model.pt"
# By precision: its type, and beyond what it is no rounding any more but a wrong trace.
PRECISIONS = {
    "fp32": (torch.float32, LOOSE["fp32"]),
    "fp16": (torch.float16, LOOSE["fp16"]),
    "bf16": (torch.bfloat16, LOOSE["bf16"]),
}


def run(job: Job) -> Output:
    precision = job.param("precision", "fp32")
    if precision not in PRECISIONS:
        raise Refused("unsupported", f"no TorchScript is made at `{precision}`; known: {listed(PRECISIONS)}")
    dtype, tolerance = PRECISIONS[precision]
    tree = job.tree("model")
    expected = Expected.of(tree, job.param("tokens", []))
    cls = torch_model.model_class(trees.read_manifest(tree)["class"])
    loaded = torch_model.load_tree(tree, **torch_model.for_export(cls)[0])
    model, names = loaded.model, loaded.outputs
    if dtype is not torch.float32:
        model = model.to(dtype)

    started = time.perf_counter()
    with warnings.catch_warnings(), torch.no_grad():
        # Tracing is deprecated but is the only form that libtorch's C++ side can load.
        warnings.simplefilter("ignore", category=DeprecationWarning)
        warnings.simplefilter("ignore", category=torch.jit.TracerWarning)  # type: ignore[attr-defined]
        try:
            with stand_ins.recorded() as used:
                traced = torch_model.traceable(model, loaded.inputs, loaded.control, partial(_trace, model, names))
        except torch_model.OneInputOnly as error:
            raise Refused("error", str(error)) from error
        with tempfile.TemporaryDirectory() as folder:
            raw = Path(folder) / MODEL
            torch.jit.save(traced.made, str(raw))
            torchscript_file.strip(raw, job.out / MODEL)
        seconds = time.perf_counter() - started
        given = {name: value.numpy() for name, value in traced.inputs.items()}
        control = None
        if traced.control is not None:
            control = {name: value.numpy() for name, value in traced.control.items()}
        figures: dict[str, Any] = {}
        if wrong := expected.wrong(partial(_execute, job.out / MODEL, names), given, control, tolerance, figures):
            raise Refused("numerics", f"{wrong}{_cause(tree, figures)}", figures)

    trees.write_tensors(job.out, trees.INPUTS, given)
    if control is not None:
        trees.write_tensors(job.out, trees.CONTROL_INPUTS, control)
    versions = trees.versions("torch", "transformers")
    trees.write_manifest(
        job.out,
        {
            "format": "torchscript",
            "inputs": list(given),
            "outputs": names,
            "route": "trace",
            **({"stand_ins": stand_ins.by_name(used)} if used else {}),
            "precision": precision,
            "versions": versions,
        },
    )
    helped = {"stand_ins": stand_ins.by_name(used)} if used else {}
    return Output(facts={"versions": versions, "route": "trace", **helped, **figures, "seconds": {"trace": seconds}})


def _trace(model: Any, names: list[str], tensors: torch_model.Named, fixed: dict[str, Any]) -> Any:
    wrapper = torch_model.Positional(model, list(tensors), names, fixed).eval()
    traced = torch.jit.trace(wrapper, tuple(tensors.values()), check_trace=False, strict=False)
    # Folds what the trace made on the CPU (positions, masks) into constants, which move with the module to another
    # device; a traced `arange(device="cpu")` would not.
    return torch.jit.freeze(traced, optimize_numerics=False)


def _execute(path: Path, names: list[str], given: trees.Tensors) -> trees.Tensors:
    loaded = torch.jit.load(str(path))
    made = loaded(*(torch.from_numpy(value) for value in given.values()))
    return {name: value.numpy() for name, value in zip(names, made, strict=True)}


def _cause(tree: Path, figures: dict[str, Any]) -> str:
    difference = Difference.of(tree)
    return f" ({difference})" if difference.explains([figures | {"attention": "eager"}]) else ""
