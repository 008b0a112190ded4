"""Says which module of a PyTorch model an exporter gets wrong: the exports of the case's conversion are made again, in
its order, and the modules of the first wrong one are searched for the smallest that is wrong (`blame/modules.py`).

Where all exports end with errors, the modules are searched for the smallest whose export ends with the same error.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from orch_py import stand_ins
from orch_py.blame import judged
from orch_py.blame.exporters import Exporter
from orch_py.blame.finding import FILE
from orch_py.blame.modules import MAX_TRIES, ModuleSearch
from orch_py.blame.search import Answer
from orch_py.export.onnx_routes import ROUTES
from orch_py.generate import torch_model
from orch_py.generate.attention import Difference
from orch_py.judge import judge
from orch_py.ops.export_onnx import DEFAULT_OPSET, DEFAULT_ROUTES, DYNAMO_LEAST_OPSET
from orch_py.worker import trees
from orch_py.worker.protocol import Job, Output, Refused, first_line, listed


def run(job: Job) -> Output:
    exporters = _exporters(job)
    # Without a file that was made, the artefact is the model itself.
    tree = job.tree("model" if _has_file(job) else "artefact")
    implementations = torch_model.for_export(torch_model.model_class(trees.read_manifest(tree)["class"]))[0]
    tolerance = judge.TOLERANCES["fp32"] | job.param("tolerance", {})
    # The first wrong file is what is searched; an error counts where no exporter makes a file. One model is held beside
    # the next.
    first = wrong = _search(job, tree, exporters[0], implementations, tolerance)
    are_all_refused = first.root.seen.error is not None
    for exporter in exporters[1:]:
        if _is_wrong(wrong):
            break
        wrong = _search(job, tree, exporter, implementations, tolerance)
        are_all_refused &= wrong.root.seen.error is not None
    if not _is_wrong(wrong):
        wrong = first
    finding = wrong.finding(job.out / "repro") if _is_wrong(wrong) or are_all_refused else None
    if finding is None:
        finding = _of_right_exports(tree, first, tolerance)
    (job.out / FILE).write_text(json.dumps(finding, indent=2) + "\n", "utf-8")
    module = finding.get("module")
    facts = {
        "verdict": finding["verdict"],
        "runtime": finding["runtime"],
        "version": finding["version"],
        "module": f"{module['class']} {module['path']}".strip() if module else None,
        "signature": finding.get("signature"),
    }
    return Output(facts={name: value for name, value in facts.items() if value is not None})


def _exporters(job: Job) -> list[Exporter]:
    """Those that the conversion tries, or the one that made the file."""
    opset = int(job.param("opset", DEFAULT_OPSET))
    if _has_file(job):
        made = trees.read_manifest(job.tree("artefact"))
        allowed = stand_ins.Help.ALL if made.get("stand_ins") else stand_ins.Help.LACKING
        plain = allowed if made["route"] == "legacy" else stand_ins.Help.NONE
        return [Exporter(made["route"], int(made["opset"]), plain)]
    routes: list[str] = job.param("routes", DEFAULT_ROUTES)
    unknown = [route for route in routes if route not in ROUTES]
    if unknown or not routes:
        raise Refused("error", f"no such export route: {listed(unknown)}; known: {listed(ROUTES)}")
    return [
        Exporter(route, opset if route == "legacy" else max(opset, DYNAMO_LEAST_OPSET), allowed)
        for route, allowed in stand_ins.variants(routes, bool(job.param("stand_ins", True)))
    ]


def _has_file(job: Job) -> bool:
    return "model" in job.inputs


def _is_wrong(search: ModuleSearch) -> bool:
    """Whether the whole model's file has wrong values."""
    return search.root.seen.answer is Answer.WRONG and search.root.seen.error is None


def _search(
    job: Job, tree: Path, exporter: Exporter, implementations: dict[str, str], tolerance: dict[str, float]
) -> ModuleSearch:
    """The search by an exporter, of which the whole model has been tried. A model that is traced only with inputs that
    transformers prepares for it is tried with those."""
    job.progress(f"exporting by {exporter.name}")
    # A fresh model each time: an exporter that fails half-way may leave its patches behind.
    loaded = torch_model.load_tree(tree, **implementations)
    sets = [given for given in (loaded.inputs, loaded.control) if given is not None]

    def search(sets: list[Any]) -> ModuleSearch:
        folder = job.out / "files"
        tries = job.param("max_tries", MAX_TRIES)
        return ModuleSearch(loaded.model, sets, loaded.outputs, exporter, folder, tolerance, tries, job.progress)

    found = search(sets)
    if found.root.seen.error is None:
        return found
    try:
        with torch.no_grad():
            prepared = [torch_model.prepared(loaded.model, given) for given in sets]
        other = search([tensors | fixed for tensors, fixed in prepared])
    except Exception as error:  # noqa: BLE001 - models raise anything on inputs that were prepared for another.
        print(f"the model does not run on prepared inputs: {first_line(error)}", flush=True)
        return found
    return found if other.root.seen.error is not None else other


def _of_right_exports(tree: Path, search: ModuleSearch, tolerance: dict[str, float]) -> dict[str, Any]:
    """The finding where the exporter's file does what the model does: the model may differ from the reference, by the
    attention that exporters need."""
    finding: dict[str, Any] = {
        "verdict": "not_reproduced",
        "runtime": search.exporter.name,
        "version": search.exporter.version,
        "nodes_in_graph": search.nodes,
        "tries": search.tries,
    }
    reference = trees.read_tensors(tree, trees.REFERENCE)
    if (differs := judged.difference(search.outputs(), reference, tolerance)) is not None:
        said = str(Difference.of(tree))
        finding |= {"verdict": "file", "difference": differs, "file_is_wrong": f"the file is right, and {said}"}
    return finding
