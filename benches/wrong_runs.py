"""How many wrong runs would pass: outputs and ONNX models of passed cases are spoilt, and judged as orch judges.

    cargo run --release -- run specs/all.yaml -t cpu -t cpu-small -t openvino
    PYTHON benches/wrong_runs.py --orch target/release/orch

PYTHON is that of orch's environment `ort` (onnx, onnxruntime, numpy, safetensors). Each passed case is spoilt in these
ways, on both of its inputs:

- outputs: two of one shape are swapped, or all are another input's;
- columns and rows: one index of the last axis, or of the one before, is negated, 0, its mean, another index's, or the
  other input's. The slices of least magnitude are among those that are drawn;
- ids: whole numbers, of any type, are greater by 2;
- masks: of ONNX artefacts with a mask, it hides nothing in the run;
- layers: of ONNX artefacts, all weights of one layer are 0, and the model is run again.

A change is a wrong run if it is one by the magnitude of what it changes: of the changed places of an output, the ratio
of signal to noise is below what the case's tolerance asks, and they are farther from the reference than they were. A
wrong run "passes" if the verdict is PASS.
Prints a table by precision and ends with 1 if any passed.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import load_file

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

from orch_py.judge import judge  # noqa: E402

Tensors = dict[str, np.ndarray]


def swapped(outputs: Tensors) -> Iterator[tuple[str, Tensors]]:
    names = sorted(outputs)
    for at, one in enumerate(names):
        for other in names[at + 1 :]:
            a, b = outputs[one], outputs[other]
            if a.shape == b.shape and a.dtype == b.dtype and not np.array_equal(a, b):
                yield f"{one} and {other} swapped", outputs | {one: b, other: a}


def is_wrong(spoilt: Tensors, right: Tensors, reference: Tensors, least: float) -> bool:
    """Whether any output is off by more than the tolerance allows, by the magnitude of the places that changed.

    A change that brings what it changes nearer to the reference makes nothing wrong.
    """
    for name, value in right.items():
        a, b, r = (judge.widened(side).astype(np.float64) for side in (spoilt[name], value, reference[name]))
        places = (a != b) & np.isfinite(a) & np.isfinite(b) & (np.abs(b) < 1e30)
        if not places.any():
            continue
        noise, signal = ((a - b)[places] ** 2).sum(), (b[places] ** 2).sum()
        is_farther = ((a - r)[places] ** 2).sum() > ((b - r)[places] ** 2).sum()
        if value.dtype.kind in "iub" or (signal < noise * 10 ** (least / 10) and is_farther):
            return True
    return False


SLICES: dict[str, Callable[[np.ndarray, np.ndarray, int], np.ndarray]] = {
    "negated": lambda rows, _, at: -rows[at],
    "zero": lambda rows, _, at: np.zeros_like(rows[at]),
    "mean": lambda rows, _, at: np.full_like(rows[at], rows[at].mean()),
    "another's": lambda rows, _, at: rows[(at + 1) % len(rows)],
    "other input's": lambda _, other, at: other[at],
}


def sliced(outputs: Tensors, other: Tensors, name: str, axis: int, at: int, how: str) -> Tensors:
    """The outputs with one index of an axis spoilt."""
    value = np.array(outputs[name])
    rows, others = np.moveaxis(value, axis, 0), np.moveaxis(other[name], axis, 0)
    rows[at] = SLICES[how](rows.copy(), others, at)
    return outputs | {name: value}


def drawn(value: np.ndarray, axis: int, chance: random.Random) -> list[int]:
    """An index by chance, and that of the least magnitude that is not 0 and not what rounding leaves."""
    size = np.sqrt((by_axis(np.nan_to_num(value.astype(np.float64), posinf=0, neginf=0), axis) ** 2).mean(axis=1))
    told = np.flatnonzero(size > 1e-6 * size.max(initial=0.0))
    return sorted({chance.choice(told.tolist()), int(told[np.argmin(size[told])])}) if told.size else []


def by_axis(value: np.ndarray, axis: int) -> np.ndarray:
    return np.moveaxis(value, axis, 0).reshape(value.shape[axis], -1)


def renumbered(outputs: Tensors) -> Iterator[tuple[str, Tensors]]:
    for name, value in outputs.items():
        if value.dtype.kind in "iu" and value.size:
            yield name, outputs | {name: value + value.dtype.type(2)}
        elif value.dtype.kind == "f" and value.ndim and value.size >= 4 * value.shape[-1]:
            rows = by_axis(value, value.ndim - 1)
            for at in np.flatnonzero((rows == np.round(rows)).all(axis=1) & (rows != 0).any(axis=1))[:1]:
                spoilt = value.copy()
                spoilt[..., at] += 2
                yield f"{name}, column {at}", outputs | {name: spoilt}


LAYER = re.compile(r"^.*?[./]\w*\.?\d+(?=[./])")


def layers(model: onnx.ModelProto) -> dict[str, list[str]]:
    """The names of weights by the layer that they belong to, by their own name or that of the node that takes them."""
    found: dict[str, list[str]] = collections.defaultdict(list)
    weights = {weight.name for weight in model.graph.initializer}
    for node in model.graph.node:
        for name in weights.intersection(node.input):
            if layer := LAYER.match(name) or LAYER.match(node.name):
                found[layer.group().replace("/", ".").strip(".")].append(name)
    # One that the exporter has taken apart, or of which a single kernel has kept its name, is no layer to drop.
    large = {weight.name for weight in model.graph.initializer if len(weight.dims) >= 2}
    return {layer: names for layer, names in found.items() if len(large.intersection(names)) >= 2}


def weightless(path: Path, chance: random.Random) -> Iterator[tuple[str, onnx.ModelProto]]:
    """The model with all weights of one layer zero."""
    model = onnx.load(path)
    found = layers(model)
    for layer in chance.sample(sorted(found), min(2, len(found))):
        spoilt = onnx.ModelProto()
        spoilt.CopyFrom(model)
        for weight in spoilt.graph.initializer:
            values = onnx.numpy_helper.to_array(weight)
            # Sizes and indices of a layer are no weights of it.
            is_weight = values.dtype.kind == "f" or weight.name.endswith("_quantized")
            if weight.name in found[layer] and is_weight:
                weight.CopyFrom(onnx.numpy_helper.from_array(np.zeros_like(values), weight.name))
        yield f"{layer} zeroed", spoilt


def executed(model: onnx.ModelProto, feeds: Tensors, names: list[str]) -> Tensors:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(None, feeds), strict=True))


class Case:
    """A passed case with all that its verdict rests on."""

    def __init__(self, args: argparse.Namespace, case: dict[str, Any], folder: Path) -> None:
        self.name, self.precision = case["case"], case["precision"]
        self.tolerance = case["numerics"]["tolerance"]
        self.tokens = [name for name, found in case["numerics"]["tensors"].items() if found.get("tokens") is not None]
        steps = [step for step in case["steps"] if not step.startswith(("inputs:", "judge:"))]
        self.result = self.fetched(args, next(s for s in steps if s.startswith("run:")), folder / "result")
        made = [step for step in steps if step.startswith("generate:") and not step.endswith(":run")]
        self.model = self.fetched(args, made[-1], folder / "model")
        converted = [s for s in steps if s.startswith("convert:")]
        artefact = self.fetched(args, converted[-1], folder / "artefact") if converted else None
        self.artefact = artefact if artefact and (artefact / "model.onnx").exists() else None

    @staticmethod
    def fetched(args: argparse.Namespace, step: str, to: Path) -> Path:
        command = [args.orch, "output", step, "--latest", "--to", str(to)]
        command += ["--cache-dir", args.cache_dir] if args.cache_dir else []
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return to

    def tensors(self, folder: Path, name: str) -> Tensors | None:
        path = folder / f"{name}.safetensors"
        return load_file(path) if path.exists() else None

    def verdict(self, outputs: Tensors, control: Tensors | None) -> str:
        reference = self.tensors(self.model, "reference")
        assert reference is not None
        theirs = self.tensors(self.model, "control-reference")
        dropped = self.tensors(self.model, "dropped-reference")
        return judge.decide(outputs, reference, self.tolerance, control, theirs, dropped, tokens=self.tokens)[0]

    def spoilt(self, chance: random.Random) -> Iterator[tuple[str, str, str]]:
        """Way, detail, verdict."""
        outputs, control = self.tensors(self.result, "outputs"), self.tensors(self.result, "control-outputs")
        assert outputs is not None
        right = self.verdict(outputs, control)
        if right != "PASS":
            yield "as it was", "", "not reproduced: " + right
            return
        reference, least = self.tensors(self.model, "reference"), self.tolerance["snr"]
        theirs = self.tensors(self.model, "control-reference")
        assert reference is not None
        for way, detail, wrong, also in self.made(outputs, control, chance):
            is_one = is_wrong(wrong, outputs, reference, least)
            if is_one or (control and also and theirs and is_wrong(also, control, theirs, least)):
                yield way, detail, self.verdict(wrong, also)

    def made(
        self, outputs: Tensors, control: Tensors | None, chance: random.Random
    ) -> Iterator[tuple[str, str, Tensors, Tensors | None]]:
        """Way, detail, and the outputs for both inputs."""
        for detail, wrong in swapped(outputs):
            yield "swapped outputs", detail, wrong, dict(swapped(control)).get(detail) if control else None
        for name, ids in renumbered(outputs):
            yield "ids", name, ids, dict(renumbered(control)).get(name, control) if control else None
        if control:
            yield "another input", "", control, outputs
            if all(control[name].shape == value.shape for name, value in outputs.items()):
                yield from self.slices(outputs, control, chance)
        if self.artefact:
            yield from self.executed(self.artefact, outputs, chance)

    def slices(
        self, outputs: Tensors, control: Tensors, chance: random.Random
    ) -> Iterator[tuple[str, str, Tensors, Tensors | None]]:
        floats = [
            name
            for name, value in outputs.items()
            if value.dtype.kind == "f" and value.ndim and value.size >= 4 * max(value.shape[-2:], default=1)
        ]
        for name in chance.sample(floats, min(2, len(floats))):
            value = outputs[name]
            for axis, way in ((value.ndim - 1, "column"), (value.ndim - 2, "row")):
                if axis < 0 or value.shape[axis] < 2:
                    continue
                for at in drawn(value, axis, chance):
                    for how in SLICES:
                        wrong, also = (
                            sliced(one, two, name, axis, at, how)
                            for one, two in ((outputs, control), (control, outputs))
                        )
                        yield f"{way} {how}", f"{name}[{axis}: {at}]", wrong, also

    def executed(
        self, artefact: Path, outputs: Tensors, chance: random.Random
    ) -> Iterator[tuple[str, str, Tensors, Tensors | None]]:
        names = json.loads((artefact / "manifest.json").read_text())["outputs"]
        feeds, second = self.tensors(artefact, "inputs"), self.tensors(artefact, "control-inputs")
        assert feeds is not None
        models = [(f"dropped layer {detail}", model) for detail, model in weightless(artefact / "model.onnx", chance)]
        for detail, model in models:
            # A model that does not run passes nothing.
            with contextlib.suppress(Exception):
                yield (
                    "dropped layer",
                    detail,
                    executed(model, feeds, names),
                    executed(model, second, names) if second else None,
                )
        for name, value in (second or {}).items():
            if "mask" in name and value.ndim == 2 and set(np.unique(value)) == {0, 1}:
                seen = second | {name: np.ones_like(value)}
                yield "mask", name, outputs, executed(onnx.load(artefact / "model.onnx"), seen, names)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--orch", default="target/release/orch")
    parser.add_argument("--cache-dir")
    parser.add_argument("--report", default="orch-out/report/matrix.json", help="of the run that is spoilt")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    chance = random.Random(args.seed)
    counts: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(collections.Counter)
    passed = 0
    for case in json.loads(Path(args.report).read_text())["cases"]:
        if case["status"] != "PASS" or case["target"].startswith("tasks"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            for way, detail, verdict in Case(args, case, Path(folder)).spoilt(chance):
                counts[case["precision"], way][verdict] += 1
                if verdict == "PASS":
                    passed += 1
                    print(f"WRONG PASS  {case['case']}: {way} {detail}", flush=True)
    for (precision, way), verdicts in sorted(counts.items()):
        print(f"{precision:5} {way:16} {dict(verdicts)}")
    print(f"{sum(sum(v.values()) for v in counts.values())} wrong runs, {passed} of them pass")
    return 1 if passed else 0


if __name__ == "__main__":
    sys.exit(main())
