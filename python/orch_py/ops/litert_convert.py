"""Makes the LiteRT artefact, one .tflite file, from the model: litert-torch converts it, and ai-edge-quantizer stores
its weights in fp16 where that is asked. Checked against the reference, on these inputs and on the control's, after it
has been loaded back from its file.

LiteRT knows its inputs by place, `args_0` and so on, and takes 32-bit whole numbers where PyTorch takes 64: the inputs
are kept in these types, and the manifest names them in this order.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import litert_torch
import numpy as np
import torch
from ai_edge_litert import interpreter
from ai_edge_quantizer import qtyping, quantizer, recipe_manager

from orch_py import stand_ins
from orch_py.generate import torch_model
from orch_py.generate.attention import Difference
from orch_py.judge.parity import LOOSE, Expected
from orch_py.stand_ins import litert
from orch_py.worker import trees
from orch_py.worker.protocol import Job, Output, Refused, first_line, is_out_of_memory, listed

MODEL = "model.tflite"
PRECISIONS = ("fp32", "fp16")
# How litert-torch begins what it says of an operator that it does not know.
_NO_LOWERING = "Lowering not found"


def run(job: Job) -> Output:
    precision = job.param("precision", "fp32")
    if precision not in PRECISIONS:
        raise Refused("unsupported", f"no LiteRT model is made at `{precision}`; known: {listed(PRECISIONS)}")
    tree = job.tree("model")
    expected = Expected.of(tree, job.param("tokens", []))
    cls = torch_model.model_class(trees.read_manifest(tree)["class"])
    loaded = torch_model.load_tree(tree, **torch_model.for_export(cls)[0])
    model, names = loaded.model, loaded.outputs
    seconds: dict[str, float] = {}

    started = time.perf_counter()
    with torch.no_grad(), stand_ins.recorded() as used, litert.standing_in():
        try:
            traced = torch_model.traceable(model, loaded.inputs, loaded.control, partial(_convert, model, names))
        except torch_model.OneInputOnly as error:
            raise Refused("error", str(error)) from error
    seconds["convert"] = time.perf_counter() - started
    started = time.perf_counter()
    _export(traced.made, job.out / MODEL, precision)
    seconds["export"] = time.perf_counter() - started
    figures: dict[str, Any] = {}
    if precision == "fp16":
        figures["fp16_weights"] = _fp16_weights(job.out / MODEL)

    given = _narrow(traced.inputs)
    control = None if traced.control is None else _narrow(traced.control)
    if wrong := expected.wrong(partial(_execute, job.out / MODEL), given, control, LOOSE[precision], figures):
        raise Refused("numerics", f"{wrong}{_cause(tree, figures)}", figures)

    trees.write_tensors(job.out, trees.INPUTS, given)
    if control is not None:
        trees.write_tensors(job.out, trees.CONTROL_INPUTS, control)
    versions = trees.versions("torch", "transformers", "litert-torch", "litert-converter", "ai-edge-litert")
    trees.write_manifest(
        job.out,
        {
            "format": "tflite",
            "inputs": list(given),
            "outputs": names,
            "shared": _shared(job.out / MODEL),
            "route": "litert-torch",
            **({"stand_ins": stand_ins.by_name(used)} if used else {}),
            "precision": precision,
            "versions": versions,
        },
    )
    helped = {"stand_ins": stand_ins.by_name(used)} if used else {}
    return Output(facts={"versions": versions, "route": "litert-torch", **helped, **figures, "seconds": seconds})


class _Named(torch_model.Positional):
    """A dict of outputs keeps their names in the file."""

    def forward(self, *tensors: torch.Tensor) -> Any:
        return dict(zip(self.outputs, super().forward(*tensors), strict=True))


def _convert(model: Any, names: list[str], tensors: torch_model.Named, fixed: dict[str, Any]) -> Any:
    wrapper = _Named(model, list(tensors), names, fixed).eval()
    try:
        return litert_torch.convert(wrapper, tuple(tensors.values()))
    except Exception as error:
        if _NO_LOWERING not in str(error) or is_out_of_memory(error):
            raise
        version = trees.versions("litert-torch")["litert-torch"]
        raise Refused("unsupported", f"litert-torch {version}: {first_line(error)}") from error


def _export(made: Any, path: Path, precision: str) -> None:
    if precision == "fp32":
        made.export(str(path))
        return
    recipe = recipe_manager.RecipeManager()
    recipe.add_weight_only_config(
        ".*", qtyping.TFLOperationName.ALL_SUPPORTED, 16, algorithm_key=recipe_manager.AlgorithmName.FLOAT_CASTING
    )
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / MODEL
        made.export(str(whole))
        cast = quantizer.Quantizer(str(whole), recipe.get_quantization_recipe()).quantize()
    cast.export_model(str(path))


def _shared(path: Path) -> list[list[str]]:
    """Names of outputs that are one tensor of the file: LiteRT's C library calls each of them by the same one."""
    by_tensor: dict[int, list[str]] = {}
    for name, told in interpreter.Interpreter(str(path)).get_signature_runner().get_output_details().items():
        by_tensor.setdefault(told["index"], []).append(name)
    return [names for names in by_tensor.values() if len(names) > 1]


def _fp16_weights(path: Path) -> int:
    """How many tensors of the file are fp16: only its weights can be."""
    tensors = interpreter.Interpreter(str(path)).get_tensor_details()
    found = sum(tensor["dtype"] is np.float16 for tensor in tensors)
    if not found:
        raise Refused("unsupported", "the model has no weight that LiteRT stores in fp16: it would be the fp32 one")
    return found


def _narrow(tensors: torch_model.Named) -> trees.Tensors:
    """In the types that LiteRT takes: whole numbers in 32 bits."""
    found = {}
    for name, tensor in tensors.items():
        value = tensor.numpy()
        if value.dtype == np.int64:
            limits = np.iinfo(np.int32)
            if value.size and (value.min() < limits.min or value.max() > limits.max):
                raise Refused("unsupported", f"LiteRT takes 32-bit whole numbers, and `{name}` holds larger ones")
            value = value.astype(np.int32)
        found[name] = value
    return found


def _execute(path: Path, given: trees.Tensors) -> trees.Tensors:
    runner = interpreter.Interpreter(str(path)).get_signature_runner()
    made = runner(**{f"args_{place}": value for place, value in enumerate(given.values())})
    return {name: np.array(value) for name, value in made.items()}


def _cause(tree: Path, figures: dict[str, Any]) -> str:
    difference = Difference.of(tree)
    return f" ({difference})" if difference.explains([figures | {"attention": "eager"}]) else ""
