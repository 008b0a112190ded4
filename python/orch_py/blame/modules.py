"""Which module of a PyTorch model an exporter gets wrong: the smallest one whose file differs from the module itself,
while the files of the modules that it calls are right.

A module is exported by what it was called with in a right run, as windows of a graph are fed, so each answer speaks of
its own code alone. A file is compared on the inputs that it was made with, and on those of the other set. That a module
explains the case is proven by putting what its files give into a run of the model.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from orch_py.blame import calls, judged, module_repro
from orch_py.blame.calls import Call
from orch_py.blame.exporters import Exporter, Failed, File
from orch_py.blame.nested import Called, chosen, filled, flattened
from orch_py.blame.search import Answer
from orch_py.worker import trees
from orch_py.worker.protocol import MAX_REASON
from orch_py.worker.trees import Tensors

Named = dict[str, Any]

# The files of the sets of inputs.
SETS = (trees.INPUTS, trees.CONTROL_INPUTS)
# The most modules that are exported.
MAX_TRIES = 300
# The share of the error below which a module is no explanation.
MATTERS = 0.01


@dataclass
class Seen:
    """What the files of a module showed."""

    answer: Answer
    # The number of the set of inputs, and of the call, that showed it.
    shown: int = 0
    call: int = 0
    difference: dict[str, Any] | None = None
    # Whether the file is right on the inputs that it was made with, and wrong on others.
    is_baked: bool = False
    error: Failed | None = None
    # The files that were made, by the number of the call.
    files: dict[int, File] = field(default_factory=dict)


@dataclass
class Site:
    """A module with its calls on each set of inputs."""

    path: str
    module: torch.nn.Module
    made: list[list[Call]]
    seen: Seen


class ModuleSearch:
    """A search among the modules of one model. `sets` are its named inputs, the first of them those that it is exported
    by; `outputs` are the names of the outputs that count."""

    def __init__(
        self,
        model: torch.nn.Module,
        sets: list[Named],
        outputs: list[str],
        exporter: Exporter,
        folder: Path,
        tolerance: dict[str, float] | None = None,
        max_tries: int = MAX_TRIES,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`folder` is made, and holds a file for a moment."""
        self._model = model
        self._sets = sets
        self._outputs = outputs
        self.exporter = exporter
        self._folder = folder
        self._tolerance = tolerance
        self._max_tries = max_tries
        self._progress = progress
        self._modules = dict(model.named_modules())
        self.tries = 0
        self.is_stopped = False
        self.unresolved: list[str] = []
        self.cleared: list[str] = []
        self._expected = [self._run(inputs) for inputs in sets]
        self.root = self._tried_root()

    def finding(self, repro: Path) -> dict[str, Any] | None:
        """What the exporter gets wrong; None if the whole model's file is right. `repro` is a folder that is made if it
        shows the fault in a new process."""
        root = self.root
        if root.seen.answer is not Answer.WRONG:
            return None
        observed = self._injected(root, root.seen.shown)
        site = self._smallest(root, observed)
        finding = self._described(site, observed)
        self._progress(f"writing a program that shows `{finding['module']['path']}`")
        module_repro.write(repro, self._model, site, self._outputs, self.exporter, finding)
        return finding

    @property
    def nodes(self) -> int:
        """The number of nodes of the whole model's file; 0 without one."""
        return max((file.nodes for file in self.root.seen.files.values()), default=0)

    def outputs(self) -> Tensors:
        """What the model itself gives on the first set of inputs."""
        return {name: _array(value) for name, value in zip(self._outputs, self._expected[0], strict=True)}

    def _described(self, site: Site, observed: float | None) -> dict[str, Any]:
        seen, exporter = site.seen, self.exporter
        name = type(site.module).__name__
        found: dict[str, Any] = {
            "runtime": exporter.name,
            "version": exporter.version,
            "nodes_in_graph": self.nodes,
            "module": {
                "path": site.path,
                "class": name,
                "calls": len(site.made[0]),
                "is_baked": seen.is_baked,
                "modules": len(self._modules),
            },
            "inputs": SETS[seen.shown],
            "tries": self.tries,
        }
        if seen.error is None:
            what = "baked in" if seen.is_baked else "values"
            found |= {"verdict": "exporter", "difference": seen.difference, "observed": observed}
            injected = observed if site is self.root else self._injected(site, seen.shown)
            found |= {"injected": injected}
        else:
            what = f"refused: {seen.error.error_class}"
            error = {"class": seen.error.error_class, "message": str(seen.error)[:MAX_REASON]}
            found |= {"verdict": "exporter_refuses", "error": error}
        found["signature"] = f"{exporter.name} {exporter.version} | {what} | {name}"
        if self.cleared:
            found["cleared"] = [[path] for path in self.cleared]
        if self.unresolved:
            found["unresolved"] = len(self.unresolved)
        if self.is_stopped:
            found["stopped"] = f"stopped after {self.tries} exports; a smaller module may be wrong"
        return found

    def _smallest(self, site: Site, observed: float | None) -> Site:
        """The smallest wrong module at or below one that is wrong."""
        while (below := self._wrong_below(site, observed)) is not None:
            site = below
            self._progress(f"`{site.path}` is wrong; looking below it after {self.tries} exports")
        return site

    def _wrong_below(self, site: Site, observed: float | None) -> Site | None:
        """The first wrong one of the modules that this one calls. Below one that gives no answer, its own are tried."""
        for below in self._called_by(site):
            if self._is_stopped_now():
                return None
            below.seen = self._tried(below)
            if below.seen.answer is Answer.UNRESOLVED:
                self.unresolved.append(below.path)
                if (found := self._wrong_below(below, observed)) is not None:
                    return found
            elif below.seen.answer is Answer.WRONG:
                if self._explains(below, observed):
                    return below
                self.cleared.append(below.path)
        return None

    def _explains(self, site: Site, observed: float | None) -> bool:
        """Whether the module makes a share of the error that matters. Of errors of the exporter each does."""
        if site.seen.error is not None or observed is None:
            return True
        injected = self._injected(site, site.seen.shown)
        return injected is None or injected >= MATTERS * observed

    def _is_stopped_now(self) -> bool:
        self.is_stopped |= self.tries >= self._max_tries
        return self.is_stopped

    def _called_by(self, site: Site) -> list[Site]:
        """The modules that this one calls, in the order of their first calls."""
        below = {path: each for path, each in self._modules.items() if _is_below(path, site.path)}
        called = calls.called(lambda: self._run(self._sets[0]), below)
        nearest = calls.nearest(site.module, site.path, called)
        made = [calls.recorded(partial(self._run, inputs), nearest) for inputs in self._sets]
        order = [path for path in called if path in made[0]]
        return [
            Site(path, nearest[path], [each.get(path, []) for each in made], Seen(Answer.UNRESOLVED)) for path in order
        ]

    def _tried_root(self) -> Site:
        made = [
            [Call(*flattened(((), inputs)), expected)]
            for inputs, expected in zip(self._sets, self._expected, strict=True)
        ]
        root = Site("", self._model, made, Seen(Answer.UNRESOLVED))
        root.seen = self._tried(root)
        return root

    def _tried(self, site: Site) -> Seen:
        """What the files of a module show, each made by one of its calls on the first set."""
        self.tries += 1
        is_root = site.path == ""
        seen = Seen(Answer.RIGHT)
        for number, call in enumerate(site.made[0]):
            try:
                file = self._exported(site, call)
                seen.files[number] = file
                compared = self._compared(site, number, file)
            except Failed as failed:
                return self._failed(seen, failed, number, is_root)
            if compared is None or seen.difference is not None:
                continue
            shown, difference = compared
            # A module below one that is refused is looked for by the error alone.
            if is_root or self.root.seen.error is None:
                seen.answer = Answer.WRONG
            seen.shown, seen.call, seen.difference = shown, number, difference
            seen.is_baked = shown > 0
        return seen

    def _failed(self, seen: Seen, failed: Failed, number: int, is_root: bool) -> Seen:
        """The answer of an error: that of the whole model is what modules are searched for; another says nothing."""
        print(f"an export fails: {failed}", flush=True)
        wanted = failed if is_root else self.root.seen.error
        is_wanted = wanted is not None and wanted.error_class == failed.error_class
        answer = Answer.WRONG if is_wanted else Answer.UNRESOLVED
        return Seen(answer, call=number, error=failed, files=seen.files)

    def _exported(self, site: Site, call: Call) -> File:
        names = self._outputs if site.path == "" else None
        self._folder.mkdir(parents=True)
        try:
            called = Called(site.module, call.given, names)
            return self.exporter.export(self._model, called, call, self._folder / "module.onnx")
        finally:
            # ONNX Runtime has read the weights.
            shutil.rmtree(self._folder)

    def _compared(self, site: Site, number: int, file: File) -> tuple[int, dict[str, Any]] | None:
        """The first set on which a file differs from the module, and how. A call that is of another kind on another
        set, as in a loop that runs more often, is not compared."""
        first = site.made[0][number]
        for at, made in enumerate(site.made):
            if number >= len(made) or not made[number].is_like(first):
                continue
            expected = self._named(site, made[number].outputs)
            try:
                given = file.run(made[number].inputs)
            except Failed as failed:
                if at == 0:
                    raise
                # A size that was baked in ends in any error of a runtime.
                name, why = next(iter(expected), ""), f"the file does not run on these inputs: {failed}"
                return at, {"output": name, "max_abs": None, "ratio": None, "why": why[:MAX_REASON]}
            if len(given) != len(expected):
                raise Failed(f"the file gives {len(given)} outputs where the module gives {len(expected)}")
            ours = self._named(site, given)
            tolerance = self._tolerance if site.path == "" else None
            if (difference := judged.difference(ours, expected, tolerance)) is not None:
                return at, difference
        return None

    def _named(self, site: Site, values: list[Any]) -> Tensors:
        names = self._outputs if site.path == "" else [f"output_{at}" for at in range(len(values))]
        return {name: _array(value) for name, value in zip(names, values, strict=True)}

    def _injected(self, site: Site, at: int) -> float | None:
        """The largest error of the model's outputs on a set if this module alone gives what its files give; None where
        these do not run in it."""
        files = site.seen.files

        def compute(number: int, tensors: list[torch.Tensor]) -> list[torch.Tensor] | None:
            file = files.get(number)
            return None if file is None else [torch.from_numpy(value) for value in file.run(tensors)]

        try:
            if site.path == "":
                ours = [_array(value) for value in files[0].run(site.made[at][0].inputs)] if files else []
            else:
                with calls.replaced(site.module, compute):
                    ours = [_array(value) for value in self._run(self._sets[at])]
            if not ours:
                return None
            error = judged.error(
                dict(zip(self._outputs, ours, strict=True)),
                {name: _array(value) for name, value in zip(self._outputs, self._expected[at], strict=True)},
            )
        except Exception as error:  # noqa: BLE001 - modules raise anything on values that they do not expect.
            print(f"the values of `{site.path}` cannot be put into the model: {error}", flush=True)
            return None
        return error if np.isfinite(error) else None

    def _run(self, inputs: Named) -> list[torch.Tensor]:
        with torch.no_grad():
            given, tensors = flattened(inputs)
            result = self._model(**filled(given, [value.clone() for value in tensors]))
            return [value.detach().clone() for value in chosen(result, self._outputs)]


def _is_below(path: str, above: str) -> bool:
    return path != above and (above == "" or path.startswith(f"{above}."))


def _array(value: Any) -> np.ndarray:
    return value if isinstance(value, np.ndarray) else np.asarray(value.detach().cpu().numpy())
