"""The decoder of a model that generates, as ONNX: ids and the past in, scores and the present out (`cached.py`), of any
length. It stands in a folder of its own in the artefact, beside the graph of fixed shapes.

Held to PyTorch step by step before it is published: the prompt in one piece and then token by token, and in two pieces.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from orch_py import cached, judge, onnx_graph, onnx_routes, parity, stand_ins, torch_model, trees
from orch_py.decoder_tree import FOLDER
from orch_py.greedy import Take
from orch_py.onnx_equals import Equals
from orch_py.protocol import first_line, is_out_of_memory, listed
from orch_py.torch_model import Named

# onnxscript knows no older operators.
_DYNAMO_LEAST_OPSET = 18

# Module, inputs, outputs, opset and the folder for weights.
Route = Callable[[torch.nn.Module, Named, list[str], int, Path], onnx.ModelProto]


def export(
    tree: Path, out: Path, routes: list[str], opset: int, helped: bool
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the artefact's manifest says of its decoder, and each attempt at one.

    `helped` is whether orch's functions may stand in for torch's while an exporter traces.
    """
    manifest = trees.read_manifest(tree)
    asked, attempts = manifest["generation"], []
    if "cache" not in asked:
        return {"why_not": asked["no_cache"]}, attempts
    known = [route for route in routes if route in ROUTES]
    for implementations in torch_model.for_export(torch_model.model_class(manifest["class"])):
        for route, is_helped in stand_ins.variants(known, helped):
            used = opset if route == "legacy" else max(opset, _DYNAMO_LEAST_OPSET)
            attempt: dict[str, Any] = {"route": route, "opset": used, "decoder": True, "error": None}
            attempt |= {"helped": is_helped, "max_abs": None}
            attempts.append(attempt)
            folder = out / FOLDER
            folder.mkdir()
            try:
                with stand_ins.recorded(is_helped) as used_functions:
                    _make(tree, folder, implementations, attempt)
                if used_functions:
                    attempt["stand_ins"] = stand_ins.by_name(used_functions)
                return {"folder": FOLDER}, attempts
            except Exception as error:  # exporters raise anything; the next route may do better.
                if is_out_of_memory(error):
                    raise
                attempt["error"] = str(error) if isinstance(error, onnx_graph.Wrong) else first_line(error)
                print(f"route {route} made no decoder with a cache: {error}", flush=True)
                shutil.rmtree(folder)
    reasons = "; ".join({attempt["route"]: f"{attempt['route']}: {attempt['error']}" for attempt in attempts}.values())
    why = reasons or f"of its routes {listed(routes)} none exports one; known: {listed(ROUTES)}"
    return {"why_not": f"no export with a cache works: {why}"}, attempts


def _make(tree: Path, folder: Path, implementations: dict[str, str], told: dict[str, Any]) -> None:
    # A fresh model each time: a route that fails half-way may leave its patches behind.
    loaded = torch_model.load_tree(tree, **implementations)
    asked = loaded.manifest["generation"]
    cache = asked["cache"]
    names = [asked["output"], *(each["output"] for each in cache)]
    with tempfile.TemporaryDirectory() as temporary:
        weights = Path(temporary)
        with torch.no_grad():
            inputs = cached.examples(loaded.model, cache, loaded.inputs[asked["input"]])
            module = cached.Cached(loaded.model).eval()
            made = ROUTES[told["route"]](module, inputs, names, told["opset"], weights)
        # Its weights lie in files now.
        del loaded, module
        graph = onnx_graph.tidy(made, names, weights, fixed=False, of_any_length=True).model
        taken = [value.name for value in graph.graph.input]
        if sorted(taken) != sorted(inputs):
            raise onnx_graph.Wrong(f"the graph takes {listed(taken)}, and not {listed(inputs)}")
        path = onnx_graph.save(graph, folder, weights)[0]
    told["nodes"] = len(graph.graph.node)
    _require_right(tree, path, cache, asked, told)
    about = {"inputs": taken, "outputs": names, "cache": cache, "route": told["route"], "opset": told["opset"]}
    trees.write_manifest(folder, {"format": "onnx", "precision": "fp32", **about})


def _legacy(module: torch.nn.Module, inputs: Named, outputs: list[str], opset: int, folder: Path) -> onnx.ModelProto:
    names = list(inputs)
    open_axes = {names[0]: {1: "new"}, outputs[0]: {1: "new"}}
    open_axes |= {name: {2: "past"} for name in names[1:]} | {name: {2: "known"} for name in outputs[1:]}
    with Equals():
        torch.onnx.export(
            module,
            tuple(inputs.values()),
            str(folder / onnx_routes.EXPORTED),
            dynamo=False,
            input_names=names,
            output_names=outputs,
            dynamic_axes=open_axes,
            opset_version=opset,
            do_constant_folding=True,
        )
    return onnx_routes.read_exported(folder)


def _dynamo(module: torch.nn.Module, inputs: Named, outputs: list[str], opset: int, folder: Path) -> onnx.ModelProto:
    new, past = torch.export.Dim("new"), torch.export.Dim("past")
    program = torch.onnx.export(
        module,
        tuple(inputs.values()),
        dynamo=True,
        input_names=list(inputs),
        output_names=outputs,
        dynamic_shapes=({1: new}, tuple({2: past} for _ in range(len(inputs) - 1))),
        opset_version=opset,
        optimize=True,
        verbose=False,
    )
    assert program is not None, "BUG: a dynamo export without a program"
    program.save(folder / onnx_routes.EXPORTED, external_data=True)
    return onnx_routes.read_exported(folder)


ROUTES: dict[str, Route] = {"legacy": _legacy, "dynamo": _dynamo}


def _require_right(tree: Path, path: Path, cache: list[dict[str, Any]], asked: dict[str, Any], told: Any) -> None:
    # With the library's own choice of attention, as the reference.
    loaded = torch_model.load_tree(tree)
    session = onnx_graph.open_session(path)
    for which in filter(None, (loaded.inputs, loaded.control)):
        ids = which[asked["input"]].numpy().astype(np.int64)
        prompt = max(asked["prompts"])
        for pieces in ([prompt, *[1] * (asked["tokens"] - 1)], [(ids.shape[1] + 1) // 2, ids.shape[1] // 2]):
            ours = _take(session, cache, asked["output"])
            for number, (expected, found) in enumerate(_both(loaded, cache, ours, ids, pieces)):
                verdict = judge.verdict({"logits": found}, {"logits": expected}, parity.LOOSE["fp32"])
                told["max_abs"] = max(told["max_abs"] or 0.0, parity.worst(verdict) or 0.0)
                if not verdict["agrees"]:
                    raise onnx_graph.Wrong(f"at step {number + 1} of {len(pieces)} {parity.told(verdict)}")


def _both(
    loaded: torch_model.Tree, cache: list[dict[str, Any]], ours: Take, ids: np.ndarray, pieces: list[int]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Scores of PyTorch and of `ours`, for the same ids in pieces of these lengths."""
    theirs, at = cached.take(loaded.model, cache), 0
    for length in filter(None, pieces):
        piece = np.ascontiguousarray(ids[:, at : at + length])
        yield theirs(piece), ours(piece)
        at += length


def _take(session: Any, cache: list[dict[str, Any]], output: str) -> Take:
    """As a runtime decodes: the present of a step is the past of the next."""
    past = {each["input"]: np.zeros(each["shape"], np.float32) for each in cache}
    names = [output, *(each["output"] for each in cache)]

    def taken(ids: np.ndarray) -> np.ndarray:
        nonlocal past
        scores, *present = session.run(names, {cached.INPUT: ids, **past})
        past = dict(zip(past, present, strict=True))
        return np.asarray(scores)

    return taken
