"""How many wrong runs would pass: outputs and ONNX models of passed cases are spoilt, and judged as orch judges.

    cargo run --release -- run specs/all.yaml -t cpu -t cpu-small -t openvino
    PYTHON benches/wrong_runs.py --orch target/release/orch

PYTHON is that of orch's environment `ort` (onnx, onnxruntime, numpy, safetensors). Each passed case is spoilt in these
ways: two outputs of one shape are swapped; one channel is negated; the outputs are another input's; and, of ONNX
artefacts, all weights of one layer are zero and the model is run again. A wrong run "passes" if the verdict is PASS;
it is "FAINT" if the case counts the negated channel among those that are too small for its tolerance.
Prints a table by precision and ends with 1 if any passed.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import load_file

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

from orch_py import judge  # noqa: E402

Tensors = dict[str, np.ndarray]


def swapped(outputs: Tensors) -> Iterator[tuple[str, Tensors]]:
    names = sorted(outputs)
    for at, one in enumerate(names):
        for other in names[at + 1 :]:
            a, b = outputs[one], outputs[other]
            if a.shape == b.shape and a.dtype == b.dtype and not np.array_equal(a, b):
                yield f"{one} and {other} swapped", outputs | {one: b, other: a}


def negated(outputs: Tensors, channel: int) -> Tensors:
    """The first output of floats with one channel of its last axis negated."""
    name = first_of_floats(outputs)
    spoilt = outputs[name].copy()
    spoilt[..., channel % spoilt.shape[-1]] *= -1
    return outputs | {name: spoilt}


def first_of_floats(outputs: Tensors) -> str:
    return next(name for name, value in outputs.items() if value.dtype.kind == "f" and value.ndim)


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
        self.faint = {name: found["faint_columns"] for name, found in case["numerics"]["tensors"].items()}
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
        return judge.decide(outputs, reference, self.tolerance, control, theirs, dropped)[0]

    def is_told(self, channel: int) -> bool:
        """Whether the case says of channels that they are too small for its tolerance, and this is one: even the
        reference with it negated agrees with the reference."""
        reference = self.tensors(self.model, "reference")
        assert reference is not None
        told = self.faint.get(first_of_floats(reference), 0) > 0
        return told and judge.verdict(negated(reference, channel), reference, self.tolerance)["agrees"]

    def spoilt(self, chance: random.Random) -> Iterator[tuple[str, str, str]]:
        """Way, detail, verdict."""
        outputs, control = self.tensors(self.result, "outputs"), self.tensors(self.result, "control-outputs")
        assert outputs is not None
        right = self.verdict(outputs, control)
        if right != "PASS":
            yield "as it was", "", "not reproduced: " + right
            return
        for detail, wrong in swapped(outputs):
            also = dict(swapped(control)).get(detail) if control else None
            yield "swapped outputs", detail, self.verdict(wrong, also)
        for channel in chance.sample(range(10_000), 3):
            wrong, also = negated(outputs, channel), negated(control, channel) if control else None
            # The padding's channel is zero with tied embeddings: negated it is what it was.
            if any(not np.array_equal(wrong[name], outputs[name]) for name in outputs):
                found = self.verdict(wrong, also)
                yield "negated channel", str(channel), "FAINT" if found == "PASS" and self.is_told(channel) else found
        if control:
            yield "another input", "", self.verdict(control, outputs)
        if self.artefact:
            names = json.loads((self.artefact / "manifest.json").read_text())["outputs"]
            feeds = self.tensors(self.artefact, "inputs")
            second = self.tensors(self.artefact, "control-inputs")
            assert feeds is not None
            for detail, model in weightless(self.artefact / "model.onnx", chance):
                try:
                    wrong, also = executed(model, feeds, names), executed(model, second, names) if second else None
                except Exception as error:  # noqa: BLE001 - a model that does not run passes nothing.
                    yield "dropped layer", detail, f"does not run: {type(error).__name__}"
                    continue
                yield "dropped layer", detail, self.verdict(wrong, also)


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
