"""Cells of a run of the zoo that passed, drawn at random and done again without orch.

    python benches/outside.py orch-out [--cells 30] [--seed 14] [--openvino-python PYTHON]

Class and config are taken from the row in `specs`, and built by transformers; the weights, the ONNX file and the IR are
those that the run kept under `orch-out/artefacts`. Inputs are drawn anew by the row's recipes, from another seed
than the run's: neither the exporter nor orch has ever seen them. Only where a graph takes other inputs than its class,
the kept ones serve. An eager cell is the reference itself: there, the class must repeat what was kept.

Drawn from are cells on ONNX Runtime's CPU, OpenVINO and eager PyTorch of classes of transformers. How many others
passed is said, with the reason.

Needs torch, transformers, onnxruntime and PyYAML; openvino may be in another interpreter. Prints a Markdown table, and
ends with 1 if a cell is wrong or if another input would have passed for this one.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

SPECS = Path(__file__).parents[1] / "specs"
SEED = 20261123
# How far a value may be off, in terms of the output's largest one, and how alike the outputs' directions must be.
BOUNDS = {"fp32": (2e-3, 0.9999), "fp16": (5e-2, 0.999), "int8": (0.5, 0.98)}
COLUMNS = {("cpu", "fp32"), ("eager-cpu", "fp32"), *(("openvino", precision) for precision in BOUNDS)}


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("out", type=Path)
    arguments.add_argument("--cells", type=int, default=30)
    arguments.add_argument("--seed", type=int, default=14)
    arguments.add_argument("--openvino-python", default=sys.executable)
    arguments.add_argument("--infer", nargs=2, type=Path, help="IR and inputs: what the other interpreter is asked")
    given = arguments.parse_args()
    if given.infer:
        infer_openvino(*given.infer, given.out)
        return 0
    rows = known_rows()
    cells, left = drawn(given.out, rows, given.cells, given.seed)
    print(f"{len(cells)} of the cells that passed, drawn with seed {given.seed}\n")
    for why, count in sorted(left.items()):
        print(f"- {count} not drawn from: {why}")
    print()
    if not cells:
        print("nothing to check")
        return 1
    print("| cell | inputs | max_abs of scale | cosine | another input | |\n|---|---|--:|--:|--:|---|")
    bad = 0
    for case in cells:
        line, right = checked(given.out, rows[case["model"]], case, given.openvino_python)
        print(line, flush=True)
        bad += not right
    print(f"\n{len(cells) - bad} of {len(cells)} right")
    return int(bad > 0)


def drawn(out: Path, rows: dict[str, dict], count: int, seed: int) -> tuple[list[dict], Counter[str]]:
    """The cells, and how many that passed were left out, by why."""
    import transformers

    cases = json.loads((out / "report" / "matrix.json").read_text())["cases"]
    passed = sorted((case for case in cases if case["status"] == "PASS"), key=lambda case: case["case"])
    classes = set(dir(transformers))
    whys = [why_not(case, rows, classes) for case in passed]
    fit = [case for case, why in zip(passed, whys, strict=True) if why is None]
    return random.Random(seed).sample(fit, min(count, len(fit))), Counter(why for why in whys if why)


def why_not(case: dict, rows: dict[str, dict], classes: set[str]) -> str | None:
    """Why the cell cannot be done again here."""
    row = rows.get(case["model"])
    if (case["target"], case["precision"]) not in COLUMNS:
        return f"no runtime here for {case['target']}-{case['precision']}"
    if row is None or Path(case["row"].rpartition(":")[0]).name != row["file"]:
        return "no row in specs/models or specs/composed.yaml"
    if "compose" in row:
        return "a loop over several models"
    return None if row["class"] in classes else "a class of diffusers"


def checked(out: Path, row: dict, case: dict, openvino_python: str) -> tuple[str, bool]:
    """A line of the table, and whether the cell is right."""
    kept = out / "artefacts" / case["model"]
    model = built(row, kept / "model")
    own, reference = tensors(kept / "model", "inputs"), tensors(kept / "model", "reference")
    if case["target"].startswith("eager"):
        which, got, expected, other = "kept", forward(model, own), reference, None
    else:
        folder = kept / ("onnx" if case["target"] == "cpu" else f"openvino-{case['precision']}")
        taken = json.loads((folder / "manifest.json").read_text())["inputs"]
        new = {name: made(recipe, SEED + place) for place, (name, recipe) in enumerate(row["inputs"].items())}
        is_own = set(taken) <= set(new) and all(new[name].shape == own[name].shape for name in taken)
        which, inputs = ("new", new) if is_own else ("kept", own)
        fed = {name: new[name] for name in taken} if is_own else tensors(folder, "inputs")
        expected = forward(model, inputs)
        other = forward(model, own) if is_own else None
        got = infer_onnx(folder, fed) if case["target"] == "cpu" else ask_openvino(folder, fed, openvino_python)
    far, alike = compared(got, expected, list(reference))
    moved = None if other is None else compared(other, expected, list(reference))[0]
    most, least = BOUNDS[case["precision"]]
    right = far <= most and alike >= least and (moved is None or moved > most)
    told = "" if moved is None else f"{moved:.2g}"
    return f"| {case['case']} | {which} | {far:.1e} | {alike:.6f} | {told} | {'' if right else 'WRONG'} |", right


def known_rows() -> dict[str, dict]:
    import yaml

    paths = [*sorted((SPECS / "models").glob("*.yaml")), SPECS / "composed.yaml"]
    # The loader in C: the other takes minutes for these files.
    named = [(path.name, yaml.load(path.read_text(), yaml.CSafeLoader)["models"]) for path in paths]
    return {name: row | {"file": file} for file, models in named for name, row in models.items()}


def built(row: dict, folder: Path):
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    cls = getattr(transformers, row["class"])
    config = cls.config_class(**row["config"])
    return cls.from_pretrained(folder, config=config, dtype=torch.float32, local_files_only=True).eval()


def forward(model, inputs: dict) -> dict:
    import torch

    with torch.inference_mode():
        result = model(**{name: torch.from_numpy(value) for name, value in inputs.items()}, return_dict=True)
    found = {}
    for name, value in result.items():
        for place, part in enumerate(value if isinstance(value, (tuple, list)) else [value]):
            key = f"{name}.{place}" if isinstance(value, (tuple, list)) else name
            if isinstance(part, torch.Tensor):
                found[key] = part.numpy()
    return found


def made(recipe: dict, seed: int) -> np.ndarray:
    shape, dtype, chance = recipe["shape"], np.dtype(recipe["dtype"]), np.random.default_rng(seed)
    match recipe:
        case {"randint": [low, high]}:
            return chance.integers(low, high, shape).astype(dtype)
        case {"normal": [mean, deviation]}:
            return chance.normal(mean, deviation, shape).astype(dtype)
        case {"uniform": [low, high]}:
            return chance.uniform(low, high, shape).astype(dtype)
        case {"data": values}:
            return np.array(values, dtype).reshape(shape)
        case _:
            return np.full(shape, recipe["value"], dtype)


def tensors(folder: Path, name: str) -> dict:
    from safetensors.numpy import load_file

    return load_file(folder / f"{name}.safetensors")


def infer_onnx(folder: Path, inputs: dict) -> dict:
    import onnxruntime

    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def ask_openvino(folder: Path, inputs: dict, python: str) -> dict:
    with tempfile.TemporaryDirectory() as place:
        fed, got = Path(place) / "inputs.npz", Path(place) / "outputs.npz"
        np.savez(fed, **inputs)
        subprocess.run([python, __file__, str(got), "--infer", str(folder / "model.xml"), str(fed)], check=True)
        return dict(np.load(got))


def infer_openvino(model: Path, inputs: Path, out: Path) -> None:
    import openvino

    core = openvino.Core()
    # As orch asks: what is compared is the model, and not what the device would rather compute in.
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    given = dict(np.load(inputs))
    names = json.loads((model.parent / "manifest.json").read_text())["inputs"]
    result = compiled([given[name] for name in names])
    np.savez(out, **{name: value for port, value in result.items() for name in port.get_names()})


def compared(got: dict, expected: dict, names: list[str]) -> tuple[float, float]:
    """The largest difference in terms of the output's largest value, and the least cosine, over the outputs."""
    far, alike = 0.0, 1.0
    for name in names:
        one, other = got[name].astype(np.float64).ravel(), expected[name].astype(np.float64).ravel()
        if one.shape != other.shape or not np.isfinite(one).all():
            return float("inf"), -1.0
        far = max(far, float(np.abs(one - other).max() / max(np.abs(other).max(), 1e-30)))
        length = np.linalg.norm(one) * np.linalg.norm(other)
        alike = min(alike, float(one @ other / length) if length else float((one == other).all()))
    return far, alike


if __name__ == "__main__":
    sys.exit(main())
