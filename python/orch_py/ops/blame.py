"""Says what makes a case wrong that runs on the CPU: the exporter, or which nodes in which pass of the runtime.

The graph of the artefact is computed node by node, without optimisers, as the oracle. If that is wrong, the file
is. Else windows of the graph are fed with the oracle's values and run as the case runs; the smallest that is wrong is
cut out, and the optimiser is found that makes it wrong. Whether it explains the case is proven by putting its wrong
values into the oracle's run.

The parameter `mode` is `values` for a case with wrong outputs, and `refusal` for one that the runtime refuses or that
ends its process. The windows of the latter are searched for one that fails with the same error.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from orch_py.blame import choices, judged, noise, refusals, shown
from orch_py.blame import finding as findings
from orch_py.blame.accused import Accused, OnnxRuntime, OpenVino, SeparateOnnxRuntime
from orch_py.blame.faults import WrongValues
from orch_py.blame.reduce import Reduction
from orch_py.blame.search import MAX_TRIES, Search
from orch_py.blame.windows import HELD, Graph, Window, has_files, weights_in
from orch_py.export import onnx_weights
from orch_py.judge import judge
from orch_py.worker import trees
from orch_py.worker.protocol import Job, Output, Refused, first_line

FINDING = findings.FILE
# The share of the case's error below which a window is small. A small one that no output shows is another right answer:
# TopK may give equal values in any order.
MATTERS = 0.01
# The files in which a run leaves its outputs, and those for the control's inputs.
OUTPUTS = "outputs.safetensors"
CONTROL_OUTPUTS = "control-outputs.safetensors"
# The files of inputs, of the reference's outputs and of the case's.
SETS = (
    (trees.INPUTS, trees.REFERENCE, OUTPUTS),
    (trees.CONTROL_INPUTS, trees.CONTROL_REFERENCE, CONTROL_OUTPUTS),
)
MODES = ("values", "refusal")
# The most bytes of weights that are rounded, for which all of them are in memory.
MAX_SHAKEN = 1 << 30
# How often the whole case is run, to see whether it gives the same each time.
TIMES = 3


def run(job: Job) -> Output:
    # What is loaded is the file itself, or was converted from one.
    graphs = [tree for name, tree in job.inputs.items() if name != "reference" and (tree / "model.onnx").is_file()]
    artefact = job.tree("artefact")
    if not graphs:
        raise Refused("unsupported", "what the case loads is made of no ONNX file")
    tree = artefact if artefact in graphs else graphs[0]
    # The graph before its numbers were rounded.
    plain = next((tree for tree in graphs if tree != artefact), None)
    mode = job.param("mode", "values")
    if mode not in MODES:
        raise Refused("error", f"`mode` is `{mode}`; known: {', '.join(MODES)}")
    has_windows = job.param("has_windows", True)
    precision = job.param("precision", "fp32")
    if mode == "refusal" and not has_windows:
        raise Refused("unsupported", f"orch cuts no windows of {precision}")
    with weights_in(tree):
        accused = _accused(job, mode)
        try:
            finding = _searched(job, mode, tree, accused, has_windows)
        finally:
            accused.close()
    if finding["verdict"] == "file" and plain is not None and noise.is_known(precision):
        finding |= _rounding(job, _shaken_model(plain), plain, precision)
    elif not has_windows:
        raise Refused("unsupported", f"orch cuts no windows of {precision}, and does not know what it rounds")
    (job.out / FINDING).write_text(json.dumps(finding, indent=2) + "\n", "utf-8")
    facts = {
        "verdict": finding["verdict"],
        "runtime": finding["runtime"],
        "version": finding["version"],
        "nodes": ", ".join(f"{node['operator']} {node['name']}" for node in finding.get("nodes", ())) or None,
        "signature": finding.get("signature"),
    }
    return Output(facts={name: value for name, value in facts.items() if value is not None})


def _searched(job: Job, mode: str, tree: Path, accused: Accused, has_windows: bool) -> dict[str, Any]:
    """The finding on the graph of a tree, and the folder that shows it."""
    model = _model(tree)
    if mode == "refusal":
        finding = _refusal(job, model, tree, accused)
    else:
        finding = _finding(job, model, tree, accused) if has_windows else {"verdict": "file"}
    finding |= {"runtime": accused.name, "version": accused.version, "nodes_in_graph": len(model.graph.node)}
    finding.pop("windows", None)
    reduction = finding.pop("reduction", None)
    if reduction is not None:
        job.progress("reducing the window")
        shown.write(job.out / "repro", reduction, finding, accused)
    return finding


def _model(tree: Path, most: int = HELD) -> onnx.ModelProto:
    """The graph of a tree, with its weights if they have at most so many bytes; else they stay in their files."""
    model = onnx_weights.load(tree / "model.onnx")
    if onnx_weights.size(model) <= most:
        onnx_weights.attach(model, tree)
    return model


def _shaken_model(tree: Path) -> onnx.ModelProto:
    """The graph of a tree with all its weights, which are to be rounded."""
    model = _model(tree, MAX_SHAKEN)
    if has_files(model):
        size = onnx_weights.size(model) >> 20
        raise Refused("unsupported", f"the graph has {size} MiB of weights; orch rounds those of at most 1 GiB")
    return model


def _rounding(job: Job, model: onnx.ModelProto, tree: Path, precision: str) -> dict[str, Any]:
    """Whether rounding alone makes the case as wrong as it is, on the set of inputs where it does least of it."""
    tolerance = judge.TOLERANCES["fp32"] | job.param("tolerance", {})
    result, reference = job.tree("result"), job.tree("reference")
    worst: dict[str, Any] | None = None
    for name, expected, outputs in SETS:
        inputs = trees.read_if_present(tree, name)
        right = trees.read_if_present(reference, expected)
        ours = trees.read_if_present(result, outputs)
        if inputs is None or right is None or ours is None:
            continue
        if judge.verdict(ours, right, tolerance)["agrees"]:
            continue
        job.progress(f"rounding the weights of {len(model.graph.node)} nodes as {precision} does")
        found = noise.compare(Graph(model, inputs), precision, ours, right, tolerance)
        if worst is None or noise.ratio(found) > noise.ratio(worst["rounding"]):
            verdict = "rounding" if noise.is_rounding(found) else "beyond_rounding"
            worst = {"verdict": verdict, "inputs": name, "rounding": found}
    return worst or {"verdict": "not_reproduced"}


def _accused(job: Job, mode: str) -> Accused:
    """The runtime of the case; one that has an environment of its own is started there."""
    package = Path(__file__).resolve().parents[2]
    python = job.param("interpreter")
    if python is not None:
        return OpenVino(python, package, job.out)
    return SeparateOnnxRuntime(package, job.out) if mode == "refusal" else OnnxRuntime(job.out)


def _refusal(job: Job, model: onnx.ModelProto, tree: Path, accused: Accused) -> dict[str, Any]:
    """The finding on the first set of inputs that the runtime does not run."""
    for name, _, _ in SETS:
        inputs = trees.read_if_present(tree, name)
        if inputs is None:
            continue
        found = refusals.of_graph(model, inputs, accused, job.param("max_tries", MAX_TRIES), job.progress)
        if found is not None:
            return found | {"inputs": name}
    return {"verdict": "not_reproduced"}


def _finding(job: Job, model: onnx.ModelProto, tree: Path, accused: Accused) -> dict[str, Any]:
    """What is to blame, on the first set of inputs that shows it."""
    tolerance = judge.TOLERANCES["fp32"] | job.param("tolerance", {})
    reference = job.inputs.get("reference")
    file_is_wrong = None
    for name, expected, _ in SETS:
        inputs = trees.read_if_present(tree, name)
        if inputs is None:
            continue
        job.progress(f"computing every value of {len(model.graph.node)} nodes without optimisers")
        graph = Graph(model, inputs)
        oracle = {output: graph.values[output] for output in graph.outputs}
        right = trees.read_if_present(reference, expected) if reference is not None else None
        if right is not None and file_is_wrong is None:
            known = {output: value for output, value in oracle.items() if output in right}
            verdict = judge.verdict(known, {output: right[output] for output in known}, tolerance)
            file_is_wrong = None if verdict["agrees"] else str(verdict["reason"])
        found = _of_runtime(job, graph, oracle, accused)
        if found is not None:
            return found | {"inputs": name, "file_is_wrong": file_is_wrong}
    if file_is_wrong is not None:
        return {"verdict": "file", "file_is_wrong": file_is_wrong}
    return {"verdict": "not_reproduced"}


def _of_runtime(job: Job, graph: Graph, oracle: trees.Tensors, accused: Accused) -> dict[str, Any] | None:
    """What the runtime computes wrongly of this graph on these inputs; None if it is as right as the oracle."""
    whole = accused.run(graph.model, graph.inputs, TIMES)
    for other in whole[1:]:
        if (varies := judged.difference(other, whole[0])) is not None:
            return {"verdict": "varies", "difference": varies}
    if (is_off := judged.difference(whole[0], oracle)) is None:
        return None
    fault = WrongValues()
    search = Search(lambda nodes: accused.answer(graph.window(nodes), fault), job.param("max_tries", MAX_TRIES))
    first = search.smallest(range(len(graph.nodes)))
    if first is None and (chosen := choices.explained(graph.model, graph.inputs, oracle, accused)) is not None:
        return {
            "verdict": "choice",
            "choices": chosen.choices,
            "difference": is_off,
            "observed": judged.error(whole[0], oracle),
            "injected": judged.error(chosen.outputs, oracle),
            "signature": findings.of_choice(f"{accused.name} {accused.version}", chosen.choices),
            **findings.extent(search, len(graph.nodes), False),
        }
    if first is None:
        return {"verdict": "no_window", "difference": is_off} | findings.extent(search, len(graph.nodes), False)
    job.progress(f"found {len(first)} wrong nodes after {search.tries} windows; looking beside them")
    is_smallest = not search.is_stopped
    places = sorted([first, *search.others(len(graph.nodes), first)])
    observed = judged.error(whole[0], oracle)
    every = [window for nodes in places if (window := graph.window(nodes)) is not None]
    rounded = [
        window for window in every if noise.is_single_precision(window, accused.run(window.model, window.feeds)[0])
    ]
    of_rounding = {window.nodes for window in rounded}
    left = [window for window in every if window.nodes not in of_rounding]
    by_choice = {window.nodes: each for window in left if (each := _choices(window, accused))}
    found = [window for window in left if window.nodes not in by_choice]
    chosen_otherwise = [choice for each in by_choice.values() for choice in each]
    if not found and by_choice:
        windows = [window for window in left if window.nodes in by_choice]
        injected = _injected(graph, windows, oracle, accused)
        return {
            "verdict": "choice",
            "choices": chosen_otherwise,
            "difference": is_off,
            "cleared": [findings.operators(graph, each) for each in rounded],
            "observed": observed,
            "injected": None if injected is None else judged.error(injected, oracle),
            "signature": findings.of_choice(f"{accused.name} {accused.version}", chosen_otherwise),
            **findings.extent(search, len(first), is_smallest),
        }
    if not found:
        return {
            "verdict": "no_window",
            "difference": is_off,
            "cleared": [findings.operators(graph, each) for each in rounded],
            **findings.extent(search, len(first), is_smallest),
        }
    alone = [_injected(graph, [window], oracle, accused) for window in found]
    errors = [np.inf if outputs is None else judged.error(outputs, oracle) for outputs in alone]
    is_small = {window.nodes: error < MATTERS * observed for window, error in zip(found, errors, strict=True)}
    is_seen = [outputs is None or judged.difference(outputs, oracle) is not None for outputs in alone]
    kept = [window for window, seen in zip(found, is_seen, strict=True) if seen or not is_small[window.nodes]]
    # Small ones may make the error together.
    windows = sorted(kept or found, key=lambda window: (is_small[window.nodes], len(window.nodes)))
    to_blame = {window.nodes for window in windows}
    cleared = [window for window in every if window.nodes not in to_blame and window.nodes not in by_choice]
    window = windows[0]
    difference = judged.difference(accused.run(window.model, window.feeds)[0], window.expected)
    assert difference is not None, "BUG: a window that was wrong is right"
    guilty = accused.guilty(window, fault)
    by = "unknown pass" if guilty is None else guilty.name or guilty.stage
    nodes = [findings.node(graph, at) for at in window.nodes]
    injected = _injected(graph, windows, oracle, accused)
    return {
        "verdict": "runtime",
        "nodes": nodes,
        "places": [findings.operators(graph, each) for each in found if each.nodes in to_blame],
        "cleared": [findings.operators(graph, each) for each in cleared],
        "choices": chosen_otherwise,
        "difference": difference,
        "pass": None if guilty is None else {"stage": guilty.stage, "name": guilty.name},
        "observed": observed,
        "injected": None if injected is None else judged.error(injected, oracle),
        "signature": findings.signature(f"{accused.name} {accused.version}", by, nodes, window),
        "windows": windows,
        "reduction": Reduction(window, graph.oracle, shown.fails_alike(accused, window, fault, guilty)),
        **findings.extent(search, len(window.nodes), is_smallest),
    }


def _choices(window: Window, accused: Accused) -> list[dict[str, Any]]:
    """The choices that alone make a window's outputs what they are; empty where they do not."""
    found = choices.explained(window.model, window.feeds, window.expected, accused)
    return [] if found is None else found.choices


def _injected(graph: Graph, windows: list[Window], oracle: trees.Tensors, accused: Accused) -> trees.Tensors | None:
    """The outputs if only these windows are wrong; None where their values cannot be put into the graph."""
    replaced: trees.Tensors = {}
    for window in windows:
        replaced |= accused.run(window.model, window.feeds)[0]
    try:
        outputs = graph.rest(replaced, [at for window in windows for at in window.nodes])
    except Exception as error:  # noqa: BLE001 - runtimes raise errors of many types.
        print(f"the windows' values cannot be put into the graph: {first_line(error)}", flush=True)
        return None
    return {name: outputs[name] for name in oracle}
