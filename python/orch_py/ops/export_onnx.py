"""Makes the ONNX artefact: tries exporters in order, and the first whose graph computes the reference wins.

Exporters can be silently wrong, so a graph that was made is worth nothing until ONNX Runtime has repeated the
reference with it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from orch_py import onnx_graph, torch_model, trees
from orch_py.onnx_routes import ROUTES
from orch_py.protocol import Job, Output, Refused, first_line, listed

DEFAULT_ROUTES = ["legacy", "dynamo", "transformers"]
DEFAULT_OPSET = 17
DEFAULT_MAX_ABS = 1e-3
# onnxscript knows no older operators; an older `opset` asks the dynamo routes for more than they can do.
_DYNAMO_LEAST_OPSET = 18


def run(job: Job) -> Output:
    routes: list[str] = job.param("routes", DEFAULT_ROUTES)
    unknown = [route for route in routes if route not in ROUTES]
    if unknown or not routes:
        raise Refused("error", f"no such export route: {listed(unknown)}; known: {listed(ROUTES)}")
    opset, bound = int(job.param("opset", DEFAULT_OPSET)), float(job.param("max_abs", DEFAULT_MAX_ABS))
    tree = job.tree("model")
    reference = trees.read_tensors(tree, trees.REFERENCE)
    names: list[str] = trees.read_manifest(tree)["outputs"]

    attempts: list[dict[str, Any]] = []
    for route in routes:
        job.progress(f"exporting by {route}")
        used = opset if route == "legacy" else max(opset, _DYNAMO_LEAST_OPSET)
        started = time.perf_counter()
        attempt: dict[str, Any] = {"route": route, "opset": used, "ok": False, "error": None, "max_abs": None}
        try:
            # A fresh model each time: a route that fails half-way may leave its patches behind.
            given, rules = _attempt(tree, route, used, names, reference, bound, job.out, attempt)
        except Exception as error:  # noqa: BLE001 - exporters raise anything; the next route may do better.
            attempt["error"] = str(error) if isinstance(error, onnx_graph.Wrong) else first_line(error)
            print(f"route {route} failed: {error}", flush=True)
            _clear(job.out)
        attempt["seconds"] = time.perf_counter() - started
        attempts.append(attempt)
        if attempt["error"] is None:
            attempt["ok"] = True
            return _publish(job.out, route, used, given, names, rules, attempts)
    reasons = "; ".join(f"{attempt['route']}: {attempt['error']}" for attempt in attempts)
    wrong = any(attempt["max_abs"] is not None for attempt in attempts)
    raise Refused("numerics" if wrong else "error", f"no export route works: {reasons}", {"attempts": attempts})


def _attempt(
    tree: Path,
    route: str,
    opset: int,
    names: list[str],
    reference: trees.Tensors,
    bound: float,
    out: Path,
    attempt: dict[str, Any],
) -> tuple[trees.Tensors, dict[str, int]]:
    model, _, inputs = torch_model.load_tree(tree)
    # Not inference_mode: its tensors cannot be recorded by the tracers.
    with torch.no_grad():
        graph, given = ROUTES[route](model, inputs, names, opset)
    graph, rules = onnx_graph.tidy(graph, names)
    taken = {value.name for value in graph.graph.input}
    feed = {name: tensor.detach().cpu().numpy() for name, tensor in given.items() if name in taken}
    path = onnx_graph.save(graph, out)[0]
    got = onnx_graph.execute(path, feed)
    attempt["nodes"] = len(graph.graph.node)
    attempt["max_abs"] = _worst(got, reference, names, bound, attempt)
    return {value.name: feed[value.name] for value in graph.graph.input}, rules


def _worst(
    got: trees.Tensors, reference: trees.Tensors, names: list[str], bound: float, attempt: dict[str, Any]
) -> float:
    worst = 0.0
    for name in names:
        a, b = got[name], reference[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            raise onnx_graph.Wrong(f"`{name}` is {a.dtype}{list(a.shape)}, the reference {b.dtype}{list(b.shape)}")
        if wrong := trees.not_finite(name, a):
            raise onnx_graph.Wrong(wrong)
        off = trees.max_abs(a, b)
        if off > bound:
            attempt["max_abs"] = off
            raise onnx_graph.Wrong(f"`{name}` is off by {off:.3g} in ONNX Runtime, allowed {bound:.3g}")
        worst = max(worst, off)
    return worst


def _clear(out: Path) -> None:
    for entry in out.iterdir():
        entry.unlink()


def _publish(
    out: Path,
    route: str,
    opset: int,
    given: trees.Tensors,
    names: list[str],
    rules: dict[str, int],
    attempts: list[dict[str, Any]],
) -> Output:
    trees.write_tensors(out, trees.INPUTS, given)
    packages = ["torch", "transformers", "onnx", "onnxruntime"] + (["onnxscript"] if route != "legacy" else [])
    versions = trees.versions(*packages)
    trees.write_manifest(
        out,
        {
            "format": "onnx",
            "inputs": list(given),
            "outputs": names,
            "route": route,
            "opset": opset,
            **({"lowering": rules} if rules else {}),
            "precision": "fp32",
            "versions": versions,
        },
    )
    told = {"versions": versions, "route": route, "opset": opset, "lowering": rules}
    return Output(facts={**told, "attempts": attempts})
