"""Makes the ONNX artefact: tries exporters in order, and the first whose graph computes the reference wins.

Exporters can be silently wrong, so a graph that was made is worth nothing until ONNX Runtime has repeated the
reference with it, on the inputs that it was made with and on the control's.
"""

from __future__ import annotations

import gc
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from orch_py import stand_ins
from orch_py.export import onnx_decoder, onnx_graph, onnx_messages, rewrites
from orch_py.export.onnx_routes import ROUTES
from orch_py.generate import excerpt, torch_model
from orch_py.generate.attention import Difference
from orch_py.judge.parity import BAKED, LOOSE, Expected
from orch_py.worker import isolated, trees
from orch_py.worker.protocol import Job, Output, Refused, first_line, listed

DEFAULT_ROUTES = ["legacy", "dynamo", "transformers"]
DEFAULT_OPSET = 17
# onnxscript knows no older operators; an older `opset` asks the dynamo routes for more than they can do.
DYNAMO_LEAST_OPSET = 18


def run(job: Job) -> Output:
    routes: list[str] = job.param("routes", DEFAULT_ROUTES)
    unknown = [route for route in routes if route not in ROUTES]
    if unknown or not routes:
        raise Refused("error", f"no such export route: {listed(unknown)}; known: {listed(ROUTES)}")
    opset = int(job.param("opset", DEFAULT_OPSET))
    tree = job.tree("model")
    manifest = trees.read_manifest(tree)
    helped = bool(job.param("stand_ins", True))
    is_rewritten = bool(job.param("rewrites", True))
    inputs = {name: torch.from_numpy(value) for name, value in trees.read_tensors(tree, trees.INPUTS).items()}
    is_long = excerpt.is_long(manifest["parameters"], inputs)
    expected = Expected.of(tree, job.param("tokens", []))
    work = _Work(tree, manifest["outputs"], expected, job.out, is_rewritten, is_long)
    attempts: list[dict[str, Any]] = []

    def publish(made: Made) -> Output:
        about: dict[str, Any] = {}
        if "generation" in manifest:
            job.progress("exporting the decoder with a cache")
            about["decoder"], more = onnx_decoder.export(tree, job.out, routes, opset, helped)
            attempts.extend(more)
        return _publish(job.out, made, work.names, about, attempts)

    chosen = torch_model.for_export(torch_model.model_class(manifest["class"]))
    # Last of all the library's own attention, and only where eager attention is shown to be another function.
    default = {name: value for name, value in chosen[0].items() if name != "attn_implementation"}
    cause = ""
    later: list[tuple[dict[str, str], dict[str, Any]]] = []
    baked: list[tuple[dict[str, str], dict[str, Any]]] = []
    for implementations in (*chosen, default):
        if implementations is default:
            if not (cause := _cause(tree, attempts)):
                break
            print(f"trying the exporters with the library's default:{cause}", flush=True)
        for route, allowed in stand_ins.variants(routes, helped):
            job.progress(f"exporting by {route}")
            used = opset if route == "legacy" else max(opset, DYNAMO_LEAST_OPSET)
            attempt = {"route": route, "opset": used, "attention": "default", **_named(implementations), "ok": False}
            attempt |= {
                "allowed_stand_ins": allowed.value,
                "error": None,
                "max_abs": None,
                "control_max_abs": None,
            }
            attempts.append(attempt)
            if made := work.attempt(implementations, attempt):
                return publish(made)
            if attempt.get("open_sizes"):
                later.append((implementations, attempt | {"error": None}))
            if BAKED in str(attempt["error"]):
                baked.append((implementations, attempt | {"traced_on": "control", "error": None}))
    # A mask of ones lets models take a branch that is wrong for padded rows; the control's masks hide some.
    for implementations, attempt in baked:
        job.progress(f"exporting by {attempt['route']}, traced on the control's inputs")
        attempts.append(attempt)
        if made := work.attempt(implementations, attempt):
            return publish(made)
    # Outputs of as many values as are found, such as keypoints: no NPU compiles them, but others run them.
    for implementations, attempt in later:
        job.progress(f"exporting by {attempt['route']}, with open sizes")
        attempts.append(attempt)
        if made := work.attempt(implementations, attempt):
            return publish(made)
    reasons = "; ".join(f"{attempt['route']}: {attempt['error']}" for attempt in _last_of_each(attempts))
    wrong = any(attempt["max_abs"] is not None for attempt in attempts)
    raise Refused("numerics" if wrong else "error", f"no export route works{cause}: {reasons}", {"attempts": attempts})


def _named(implementations: dict[str, str]) -> dict[str, str]:
    return {
        name.removesuffix("_implementation").replace("attn", "attention"): what
        for name, what in implementations.items()
    }


def _cause(tree: Path, attempts: list[dict[str, Any]]) -> str:
    """Whether it is eager attention by which the graphs are wrong."""
    if not any("nodes" in attempt for attempt in attempts):
        return ""

    def work() -> str:
        difference = Difference.of(tree)
        return f" ({difference})" if difference.explains(attempts) else ""

    return str(isolated.call(work))


def _last_of_each(attempts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One attempt of each route, for a reason that can be read; the facts have all of them.

    A second trace, on the control's inputs, is no reason: it was tried because the first was wrong.
    """
    first = [attempt for attempt in attempts if "traced_on" not in attempt]
    return list({attempt["route"]: attempt for attempt in first}.values())


@dataclass
class Made:
    """A graph that is right: where it is from, its inputs and the control's, how it was rewritten, which outputs have
    as many values as are found, and what is wrong once ONNX Runtime optimises it, if anything."""

    route: str
    opset: int
    # Which of the two sets of inputs the exporter was given: `inputs`, or `control`.
    traced_on: str
    # Which functions stood in for torch's while it was traced, and how often.
    stand_ins: dict[str, int]
    inputs: trees.Tensors
    control: trees.Tensors | None
    # `folded`: nodes before and after; `lowering`: how often each rule applied; `not_rewritten`: why neither was done.
    rewrites: dict[str, Any]
    open_sizes: list[str]
    optimised_wrong: str | None


@dataclass
class _Work:
    tree: Path
    names: list[str]
    expected: Expected
    out: Path
    # Whether constants may be folded and operators lowered.
    is_rewritten: bool
    # Whether a pass takes long, so that ONNX Runtime may use all cores.
    is_long: bool

    @property
    def threads(self) -> int:
        return excerpt.cores() if self.is_long else 1

    def attempt(self, implementations: dict[str, str], told: dict[str, Any]) -> Made | None:
        """A correct graph; or None, and `told` says why there is none.

        An exporter may crash on what the next one exports, so each attempt has a process of its own.
        """

        def work() -> tuple[Made | None, dict[str, Any]]:
            return self._attempted(implementations, told), told

        started = time.perf_counter()
        try:
            made, said = isolated.call(work)
        except isolated.Crashed as crash:
            _clear(self.out)
            told |= {"error": f"the exporter crashed: {crash}", "seconds": time.perf_counter() - started}
            print(f"route {told['route']} failed: {told['error']}", flush=True)
            return None
        told |= said
        return made  # type: ignore[no-any-return]

    def _attempted(self, implementations: dict[str, str], told: dict[str, Any]) -> Made | None:
        started = time.perf_counter()
        try:
            made = self._made(implementations, told)
            told["ok"] = True
            return made
        except Exception as error:  # noqa: BLE001 - exporters raise anything; the next route may do better.
            ours = isinstance(error, (onnx_graph.Wrong, torch_model.OneInputOnly))
            if isinstance(error, onnx_graph.OpenSizes):
                told["open_sizes"] = True
            told["error"] = str(error) if ours else first_line(error)
            print(f"route {told['route']} failed: {error}", flush=True)
            _clear(self.out)
            return None
        finally:
            told["seconds"] = time.perf_counter() - started

    def _made(self, implementations: dict[str, str], told: dict[str, Any]) -> Made:
        with tempfile.TemporaryDirectory() as folder:
            # On the way weights lie in files there, and in no message.
            return self._made_in(Path(folder), implementations, told)

    def _made_in(self, folder: Path, implementations: dict[str, str], told: dict[str, Any]) -> Made:
        # A fresh model each time: a route that fails half-way may leave its patches behind.
        loaded = torch_model.load_tree(self.tree, **implementations)
        route, opset = told["route"], told["opset"]
        allowed = stand_ins.Help(told["allowed_stand_ins"])
        # Not inference_mode: its tensors cannot be recorded by the tracers.
        with torch.no_grad(), excerpt.all_cores(self.is_long), stand_ins.recorded(allowed) as used:
            if told.get("traced_on") == "control" and loaded.control is not None:
                swapped = ROUTES[route](loaded.model, loaded.control, loaded.inputs, self.names, opset, folder)
                assert swapped.control is not None, "BUG: a trace on two sets of inputs gave one back"
                traced = replace(swapped, inputs=swapped.control, control=swapped.inputs)
            else:
                traced = ROUTES[route](loaded.model, loaded.inputs, loaded.control, self.names, opset, folder)
        told["stand_ins"] = stand_ins.by_name(used)
        del loaded
        # Tracers leave cycles that hold the model, which would lie beside the sessions that check the graph.
        gc.collect()
        if self.is_rewritten:
            made, why_not = self._tidied(traced, folder, told, is_rewritten=True)
            if made is not None:
                return made
            _clear(self.out)
            print(f"published as it was exported: {why_not}", flush=True)
            told["not_rewritten"] = why_not
        made, wrong = self._tidied(traced, folder, told, is_rewritten=False)
        if made is None:
            raise onnx_graph.Wrong(told.get("not_rewritten") or wrong)
        return made

    def _tidied(self, traced: Any, folder: Path, told: dict[str, Any], is_rewritten: bool) -> tuple[Made | None, str]:
        """The graph on disk, if it is right; else why it is not. A rewrite that changes what it computes is not."""
        is_fixed = not told.get("open_sizes")
        tidied = onnx_graph.tidy(traced.made, self.names, folder, fixed=is_fixed, rewrites=is_rewritten)
        graph = tidied.model
        if may_be_helped(told) and (found := onnx_graph.sized_by_values(graph.graph)):
            names = listed(sorted(found))
            raise onnx_graph.OpenSizes(f"{names} give as many values as they find; a helped export may do without")
        taken = [value.name for value in graph.graph.input]
        path = onnx_graph.save(graph, self.out, folder)[0]

        def fed(named: torch_model.Named) -> trees.Tensors:
            return {name: named[name].detach().cpu().numpy() for name in taken}

        given, control = fed(traced.inputs), None if traced.control is None else fed(traced.control)
        told["nodes"] = len(graph.graph.node)
        wrong, is_near = self._checked(path, given, control, told)
        if wrong and self._checked(path, given, control, {}, optimised=False)[0]:
            return None, wrong
        # A file that is as near to the reference as a rewritten one has to be to its original needs no second proof.
        if tidied.before is not None and not is_near:
            before = onnx_messages.write_graph(tidied.before, folder, "before.onnx")
            # A long pass takes seconds, and the file is judged on both sets of inputs as it is.
            other = None if self.is_long else control
            if changed := rewrites.difference(before, path, given, other, self.threads):
                return None, f"rewriting its graph changed what it computes: {changed}"
        about: dict[str, Any] = {}
        if tidied.folded:
            about["folded"] = tidied.folded
        if tidied.rules:
            about["lowering"] = tidied.rules
        if why_not := told.get("not_rewritten"):
            about["not_rewritten"] = why_not
        made = Made(
            told["route"],
            told["opset"],
            told.get("traced_on", "inputs"),
            told["stand_ins"],
            given,
            control,
            about,
            onnx_graph.open_sizes(graph),
            wrong,
        )
        return made, ""

    def _checked(
        self,
        path: Path,
        given: trees.Tensors,
        control: trees.Tensors | None,
        figures: dict[str, Any],
        optimised: bool = True,
    ) -> tuple[str | None, bool]:
        """Why the file does not compute the reference, if so, and whether it is as near to it as `REWRITTEN` says.

        Its weights are in memory for as long as this takes, and the outputs on one set of inputs at a time.
        """
        session = onnx_graph.open_session(path, optimised, self.threads)
        near: list[bool] = []

        def run(inputs: trees.Tensors) -> trees.Tensors:
            outputs = onnx_graph.run(session, inputs)
            near.append(self.expected.is_near(outputs, of_control=inputs is control))
            return outputs

        wrong = self.expected.wrong(run, given, control, LOOSE["fp32"], figures)
        return wrong, wrong is None and all(near)


def may_be_helped(attempt: dict[str, Any]) -> bool:
    """Whether an export with more stand-ins follows on this plainer one, which is taken later if that fails."""
    return attempt["allowed_stand_ins"] == stand_ins.Help.LACKING and not attempt.get("open_sizes")


def _clear(out: Path) -> None:
    for entry in out.iterdir():
        entry.unlink()


def _publish(out: Path, made: Made, names: list[str], about: dict[str, Any], attempts: list[dict[str, Any]]) -> Output:
    trees.write_tensors(out, trees.INPUTS, made.inputs)
    if made.control is not None:
        trees.write_tensors(out, trees.CONTROL_INPUTS, made.control)
    packages = ["torch", "transformers", "onnx", "onnxruntime"] + (["onnxscript"] if made.route != "legacy" else [])
    versions = trees.versions(*packages)
    trees.write_manifest(
        out,
        {
            "format": "onnx",
            "inputs": list(made.inputs),
            "outputs": names,
            "route": made.route,
            "opset": made.opset,
            **({"traced_on": made.traced_on} if made.traced_on != "inputs" else {}),
            **({"stand_ins": made.stand_ins} if made.stand_ins else {}),
            **made.rewrites,
            **({"open_sizes": made.open_sizes} if made.open_sizes else {}),
            "precision": "fp32",
            **about,
            "versions": versions,
        },
    )
    told = {"versions": versions, "route": made.route, "opset": made.opset, "lowering": {}, **made.rewrites}
    if made.stand_ins:
        told["stand_ins"] = made.stand_ins
    if made.traced_on != "inputs":
        told["traced_on"] = made.traced_on
    if made.optimised_wrong:
        told["optimised_wrong"] = made.optimised_wrong
    return Output(facts={**told, "attempts": attempts})
