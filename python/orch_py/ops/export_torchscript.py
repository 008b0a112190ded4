"""Makes the TorchScript artefact: the model traced with its inputs, frozen, and checked against the reference after
it has been loaded back from its file. In half precision its weights are, and all that is computed with them.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import torch

from orch_py import torch_model, torchscript_file, trees
from orch_py.protocol import Job, Output, Refused, listed

MODEL = "model.pt"
# By precision: its type, and how far from the reference is no rounding any more but a wrong trace.
PRECISIONS = {"fp32": (torch.float32, 1e-3), "fp16": (torch.float16, 5e-2), "bf16": (torch.bfloat16, 2e-1)}


def run(job: Job) -> Output:
    precision = job.param("precision", "fp32")
    if precision not in PRECISIONS:
        raise Refused("unsupported", f"no TorchScript is made at `{precision}`; known: {listed(PRECISIONS)}")
    dtype, bound = PRECISIONS[precision]
    bound = float(job.param("max_abs", bound))
    tree = job.tree("model")
    reference = trees.read_tensors(tree, trees.REFERENCE)
    model, manifest, inputs = torch_model.load_tree(tree)
    names: list[str] = manifest["outputs"]
    if dtype is not torch.float32:
        model = model.to(dtype)

    started = time.perf_counter()
    with warnings.catch_warnings(), torch.no_grad():
        # Tracing is deprecated but is the only form that libtorch's C++ side can load.
        warnings.simplefilter("ignore", category=DeprecationWarning)
        warnings.simplefilter("ignore", category=torch.jit.TracerWarning)  # type: ignore[attr-defined]
        traced, inputs = torch_model.traceable(model, inputs, partial(_trace, model, names))
        with tempfile.TemporaryDirectory() as folder:
            raw = Path(folder) / MODEL
            torch.jit.save(traced, str(raw))
            torchscript_file.strip(raw, job.out / MODEL)
        seconds = time.perf_counter() - started
        worst = _check(job.out / MODEL, tuple(inputs.values()), names, reference, bound)

    trees.write_tensors(job.out, trees.INPUTS, {name: value.numpy() for name, value in inputs.items()})
    versions = trees.versions("torch", "transformers")
    trees.write_manifest(
        job.out,
        {
            "format": "torchscript",
            "inputs": list(inputs),
            "outputs": names,
            "route": "trace",
            "precision": precision,
            "versions": versions,
        },
    )
    return Output(facts={"versions": versions, "route": "trace", "max_abs": worst, "seconds": {"trace": seconds}})


def _trace(model: Any, names: list[str], tensors: torch_model.Named, fixed: dict[str, Any]) -> Any:
    wrapper = torch_model.Positional(model, list(tensors), names, fixed).eval()
    traced = torch.jit.trace(wrapper, tuple(tensors.values()), check_trace=False, strict=False)
    # Folds what the trace made on the CPU (positions, masks) into constants, which move with the module to another
    # device; a traced `arange(device="cpu")` would not.
    return torch.jit.freeze(traced, optimize_numerics=False)


def _check(
    path: Path, values: tuple[torch.Tensor, ...], names: list[str], reference: trees.Tensors, bound: float
) -> float:
    loaded = torch.jit.load(str(path))
    worst = 0.0
    for name, value in zip(names, loaded(*values), strict=True):
        got, want = value.numpy(), reference[name]
        if got.shape != want.shape or got.dtype != want.dtype:
            raise Refused(
                "numerics",
                f"traced `{name}` is {got.dtype}{list(got.shape)}, the reference {want.dtype}{list(want.shape)}",
            )
        if wrong := trees.not_finite(name, got):
            raise Refused("numerics", f"traced {wrong}")
        off = trees.max_abs(got, want)
        if off > bound:
            raise Refused(
                "numerics", f"traced `{name}` is off by {off:.3g} after it was loaded back, allowed {bound:.3g}"
            )
        worst = max(worst, off)
    return worst
