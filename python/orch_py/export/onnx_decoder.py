"""The decoder of a model that generates, as ONNX: ids and the past in, scores and the present out (`cached.py`), of any
length. It stands in a folder of its own in the artefact, beside the graph of fixed shapes. The encoder of an
encoder-decoder model, which makes what its decoder sees of the source, stands in a folder of the decoder's.

Held to PyTorch step by step before it is published: the prompt in one piece and then token by token, and in two pieces.
"""

from __future__ import annotations

import gc
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from orch_py import stand_ins
from orch_py.export import onnx_graph, onnx_routes
from orch_py.export.decoder_tree import ENCODER, FOLDER
from orch_py.generate import cached, torch_model
from orch_py.generate.greedy import Take
from orch_py.generate.torch_model import Named
from orch_py.judge import judge, parity
from orch_py.stand_ins.onnx_equals import Equals
from orch_py.worker import trees
from orch_py.worker.protocol import first_line, is_out_of_memory, listed

# onnxscript knows no older operators.
_DYNAMO_LEAST_OPSET = 18

# The axes of a graph that are of any length, each with its name, by the names of inputs and outputs.
Open = dict[str, dict[int, str]]
# Module, inputs, outputs, the axes that are open, opset and the folder for weights.
Route = Callable[[torch.nn.Module, Named, list[str], Open, int, Path], onnx.ModelProto]


def export(
    tree: Path, out: Path, routes: list[str], opset: int, helped: bool
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the artefact's manifest says of its decoder, and each attempt at one.

    `helped` is whether orch's functions may stand in for torch's while an exporter traces.
    """
    manifest = trees.read_manifest(tree)
    asked = manifest["generation"]
    attempts: list[dict[str, Any]] = []
    if "cache" not in asked:
        return {"why_not": asked["no_cache"]}, attempts
    known = [route for route in routes if route in ROUTES]
    for implementations in torch_model.for_export(torch_model.model_class(manifest["class"])):
        for route, allowed in stand_ins.variants(known, helped):
            used = opset if route == "legacy" else max(opset, _DYNAMO_LEAST_OPSET)
            attempt: dict[str, Any] = {"route": route, "opset": used, "decoder": True, "error": None}
            attempt |= {"allowed_stand_ins": allowed.value, "max_abs": None}
            attempts.append(attempt)
            folder = out / FOLDER
            folder.mkdir()
            try:
                with stand_ins.recorded(allowed) as used_functions:
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
    examples = cached.examples(loaded.model, asked, loaded.inputs)
    open_axes = {asked["input"]: {1: "new"}, asked["output"]: {1: "new"}}
    open_axes |= {each["input"]: {2: "past"} for each in cache} | {each["output"]: {2: "known"} for each in cache}
    made = _graph(cached.Cached(loaded.model, asked), examples, names, open_axes, folder, told)
    told["nodes"] = made.nodes
    # A decoder need not look at the source's mask.
    unseen = set(examples) - set(made.inputs)
    if strange := [*(set(made.inputs) - set(examples)), *(unseen - set(cached.constants(asked)))]:
        raise onnx_graph.Wrong(f"the graph takes {listed(made.inputs)}, and not {listed(examples)}: {listed(strange)}")
    encoder = None
    if "encoder" in asked:
        given = {name: loaded.inputs[name] for name in asked["encoder"]["inputs"]}
        outputs = asked["encoder"]["outputs"]
        encoder = _graph(cached.Encoded(loaded.model, asked), given, outputs, {}, folder / ENCODER, told)
        about = {"inputs": encoder.inputs, "outputs": outputs, "route": told["route"], "opset": told["opset"]}
        trees.write_manifest(folder / ENCODER, {"format": "onnx", "precision": "fp32", **about})
    del loaded
    gc.collect()
    _require_right(tree, made, encoder, asked, told)
    about = {"inputs": made.inputs, "outputs": names, "cache": cache, "route": told["route"], "opset": told["opset"]}
    if encoder is not None:
        constants = (name for name in made.inputs if name in cached.constants(asked))
        about["constants"] = [{"input": name, "shape": list(examples[name].shape)} for name in constants]
    trees.write_manifest(folder, {"format": "onnx", "precision": "fp32", **about})


@dataclass(frozen=True)
class _Graph:
    """A graph that was published."""

    path: Path
    inputs: list[str]
    outputs: list[str]
    nodes: int


def _graph(
    module: torch.nn.Module, inputs: Named, outputs: list[str], open_axes: Open, folder: Path, told: dict[str, Any]
) -> _Graph:
    """Exports a module by the route of an attempt into a folder, which is made where there is none."""
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        weights = Path(temporary)
        with torch.no_grad():
            made = ROUTES[told["route"]](module.eval(), inputs, outputs, open_axes, told["opset"], weights)
        graph = onnx_graph.tidy(made, outputs, weights, fixed=not open_axes, of_any_length=bool(open_axes)).model
        taken = [value.name for value in graph.graph.input]
        path = onnx_graph.save(graph, folder, weights)[0]
    return _Graph(path, taken, outputs, len(graph.graph.node))


def _legacy(
    module: torch.nn.Module, inputs: Named, outputs: list[str], open_axes: Open, opset: int, folder: Path
) -> onnx.ModelProto:
    with Equals():
        torch.onnx.export(
            module,
            tuple(inputs.values()),
            str(folder / onnx_routes.EXPORTED),
            dynamo=False,
            input_names=list(inputs),
            output_names=outputs,
            dynamic_axes=open_axes,
            opset_version=opset,
            do_constant_folding=True,
        )
    return onnx_routes.read_exported(folder)


def _dynamo(
    module: torch.nn.Module, inputs: Named, outputs: list[str], open_axes: Open, opset: int, folder: Path
) -> onnx.ModelProto:
    sizes = {name: torch.export.Dim(name) for name in ("new", "past")}
    shapes = [{axis: sizes[name] for axis, name in open_axes.get(each, {}).items()} for each in inputs]
    # The first input of a module has a name, and the rest are its `*others`.
    named_first = type(module) is cached.Cached
    program = torch.onnx.export(
        module,
        tuple(inputs.values()),
        dynamo=True,
        input_names=list(inputs),
        output_names=outputs,
        dynamic_shapes=(shapes[0], tuple(shapes[1:])) if named_first else (tuple(shapes),),
        opset_version=opset,
        optimize=True,
        verbose=False,
    )
    assert program is not None, "BUG: a dynamo export without a program"
    program.save(folder / onnx_routes.EXPORTED, external_data=True)
    return onnx_routes.read_exported(folder)


ROUTES: dict[str, Route] = {"legacy": _legacy, "dynamo": _dynamo}


def _require_right(tree: Path, decoder: _Graph, encoder: _Graph | None, asked: dict[str, Any], told: Any) -> None:
    # With the library's own choice of attention, as the reference.
    loaded = torch_model.load_tree(tree)
    session = onnx_graph.open_session(decoder.path)
    encoding = None if encoder is None else onnx_graph.open_session(encoder.path)
    for which in filter(None, (loaded.inputs, loaded.control)):
        feeds = {name: value.numpy() for name, value in which.items()}
        if encoder is not None and encoding is not None:
            given = {name: feeds[name] for name in encoder.inputs}
            feeds |= dict(zip(encoder.outputs, encoding.run(encoder.outputs, given), strict=True))
        constants = {name: feeds[name] for name in decoder.inputs if name in cached.constants(asked)}
        ids = feeds[asked["input"]].astype(np.int64)
        prompt = max(asked["prompts"])
        for pieces in ([prompt, *[1] * (asked["tokens"] - 1)], [(ids.shape[1] + 1) // 2, ids.shape[1] // 2]):
            theirs = cached.take(loaded.model, asked, which)
            ours = _take(session, asked, constants)
            for number, (expected, found) in enumerate(_both(theirs, ours, ids, pieces)):
                verdict = judge.verdict({"logits": found}, {"logits": expected}, parity.LOOSE["fp32"])
                told["max_abs"] = max(told["max_abs"] or 0.0, parity.worst(verdict) or 0.0)
                if not verdict["agrees"]:
                    raise onnx_graph.Wrong(f"at step {number + 1} of {len(pieces)} {parity.told(verdict)}")


def _both(theirs: Take, ours: Take, ids: np.ndarray, pieces: list[int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Scores of two decoders for the same ids in pieces of these lengths."""
    at = 0
    for length in filter(None, pieces):
        piece = np.ascontiguousarray(ids[:, at : at + length])
        yield theirs(piece), ours(piece)
        at += length


def _take(session: Any, asked: dict[str, Any], constants: trees.Tensors) -> Take:
    """A decoder as a runtime runs it: the present of a step is the past of the next, and constants stay as they are."""
    past = {each["input"]: np.zeros(each["shape"], np.float32) for each in asked["cache"]}
    names = [asked["output"], *(each["output"] for each in asked["cache"])]

    def taken(ids: np.ndarray) -> np.ndarray:
        nonlocal past
        scores, *present = session.run(names, {asked["input"]: ids, **past, **constants})
        past = dict(zip(past, present, strict=True))
        return np.asarray(scores)

    return taken
