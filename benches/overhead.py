#!/usr/bin/env python3
"""orch's loop beside ONNX Runtime's own and beside OpenVINO's `benchmark_app`: the same file and options.

    cargo build --release
    python3 benches/overhead.py [--rounds 15] [--env-dir cache/envs]

Two models of one kind: one of some 0.1 ms, where a loop's own cost would show, and one of some 50 ms. Each round
is a process of its own, and rounds follow each other in random order. What is compared is the least wall time of all
rounds (docs/performance.md, "Statistics"); the median over rounds stands beside it. Of ONNX Runtime the 10th percentile
of the thread's CPU time is compared too, which `benchmark_app` does not tell.

Ends with 1 if a loop of orch's takes more than `--bound` percent longer. Needs orch's environments `ort`, `openvino`
and `torch` (for the package onnx).
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# Rows, width and layers of a chain of products; warm-up and samples of a round. The small one's weights fit the second
# cache: of one that waits for the third, where the pages of a process lie decides by 8 %.
MODELS = {"small": (64, 96, 17, 50, 250), "large": (256, 2048, 6, 2, 20)}
SPEC = """version: 1
pipelines: {{tabular: {{description: numbers to numbers, tasks: [regression], template: text}}}}
targets:
  ort: {{runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32], options: {{threads: 1}}}}
  openvino: {{runtime: openvino, backend: openvino, device: CPU, artefact: openvino, precisions: [fp32],
    options: {{threads: 1}}}}
measure: {{warmup: {warmup}, samples: {samples}, max_seconds: 60}}
models:
  chain: {{onnx: chain.onnx, task: regression, pipeline: tabular,
    inputs: {{x: {{dtype: float32, shape: [{rows}, {width}], normal: [0, 1]}}}}}}
"""
Times = dict[str, list[float]]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--orch", type=Path, default=Path("target/release/orch"))
    parser.add_argument("--env-dir", type=Path, default=Path("cache/envs"))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--model", choices=MODELS, help="only this one")
    parser.add_argument("--bound", type=float, default=2.0, help="percent")
    parser.add_argument("--seed", type=int, default=0, help="of the order of rounds")
    # What this file does in the interpreter of an environment.
    parser.add_argument("--make", nargs=4, metavar=("FILE", "ROWS", "WIDTH", "LAYERS"), help=argparse.SUPPRESS)
    parser.add_argument("--loop", nargs=3, metavar=("FILE", "WARMUP", "SAMPLES"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.make:
        make(Path(args.make[0]), *map(int, args.make[1:]))
        return 0
    if args.loop:
        print(json.dumps(loop(args.loop[0], int(args.loop[1]), int(args.loop[2]))))
        return 0
    args.orch, args.env_dir = args.orch.resolve(), args.env_dir.resolve()
    print("| model | loop | least, ms | against it | median over rounds, ms | CPU p10, ms | against it |")
    print("|---|---|--:|--:|--:|--:|--:|")
    is_within = True
    for name in [args.model] if args.model else MODELS:
        with tempfile.TemporaryDirectory() as folder:
            is_within &= compare(name, Path(folder), args)
    return 0 if is_within else 1


def compare(name: str, folder: Path, args: argparse.Namespace) -> bool:
    """Whether orch's loops are within the bound for this model."""
    rows, width, layers, warmup, samples = MODELS[name]
    here = str(Path(__file__).resolve())
    call([python(args, "torch"), here, "--make", folder / "chain.onnx", rows, width, layers])
    (folder / "spec.yaml").write_text(SPEC.format(rows=rows, width=width, warmup=warmup, samples=samples))
    orch = [args.orch, "--cache-dir", folder / "cache", "--env-dir", args.env_dir]
    call([*orch, "run", "spec.yaml"], folder)
    call([*orch, "output", "convert:chain:openvino-fp32", "--spec", "spec.yaml", "--to", "ir"], folder)
    ir = next((folder / "ir").rglob("*.xml"))
    # What it has no argument for, or refuses beside a hint: the same settings as orch's.
    settings = {"CPU": {"INFERENCE_NUM_THREADS": "1"}}
    (folder / "settings.json").write_text(json.dumps(settings))
    interpreter = python(args, "openvino")
    app = [interpreter, interpreter.parent / "benchmark_app", "-m", ir, "-d", "CPU", "-hint", "latency", "-api", "sync"]
    app += ["-load_config", folder / "settings.json", "-infer_precision", "f32", "-niter", warmup + samples]

    def by_orch(target: str) -> dict[str, float]:
        argv = [*orch, "run", "spec.yaml", "-t", target, "--rerun", "run", "--json"]
        figures = json.loads(call(argv, folder))["cases"][0]["metrics"]
        return {"least": figures["min_ms"], "median": figures["median_ms"], "cpu": figures["rounds"][0]["cpu_p10_ms"]}

    loops = {
        "orch, ONNX Runtime": lambda: by_orch("ort"),
        "ONNX Runtime by itself": lambda: json.loads(
            call([python(args, "ort"), here, "--loop", folder / "chain.onnx", warmup, samples])
        ),
        "orch, OpenVINO": lambda: by_orch("openvino"),
        "benchmark_app": lambda: told(call(app, folder)),
    }
    taken: dict[str, Times] = {loop: {} for loop in loops}
    order = random.Random(args.seed)
    for number in range(args.rounds):
        for loop in order.sample(list(loops), len(loops)):
            for figure, value in loops[loop]().items():
                taken[loop].setdefault(figure, []).append(value)
        print(f"{name}: round {number + 1} of {args.rounds}", file=sys.stderr)
    pairs = [("orch, ONNX Runtime", "ONNX Runtime by itself"), ("orch, OpenVINO", "benchmark_app")]
    return all([row(name, taken, *pair, args.bound) for pair in pairs])


def row(name: str, taken: dict[str, Times], own: str, other: str, bound: float) -> bool:
    """Prints a pair. Of a long sample CPU time counts where both tell it: no wall time of it escapes pre-emption."""

    def excess(figure: str) -> float | None:
        if figure not in taken[own] or figure not in taken[other]:
            return None
        return 100 * (min(taken[own][figure]) / min(taken[other][figure]) - 1)

    wall, cpu = excess("least"), excess("cpu")
    for loop in (own, other):
        times = taken[loop]
        cpu_ms = f"{min(times['cpu']):.4f}" if "cpu" in times else ""
        against = [f"{value:+.1f} %" if loop == own and value is not None else "" for value in (wall, cpu)]
        median = statistics.median(times["median"])
        print(
            f"| {name} | {loop} | {min(times['least']):.4f} | {against[0]} | {median:.4f} | {cpu_ms} | {against[1]} |"
        )
    counts = cpu if cpu is not None and min(taken[own]["least"]) >= 2 else wall
    return counts is not None and counts <= bound


def told(text: str) -> dict[str, float]:
    """What `benchmark_app` prints of its samples: microseconds below a millisecond."""

    def figure(name: str) -> float:
        found = re.search(rf"{name}:\s+([\d.]+) (\w+)", text)
        if not found:
            sys.exit(f"benchmark_app told no {name}:\n{text}")
        return float(found[1]) / (1 if found[2] == "ms" else 1000)

    return {"least": figure("Min"), "median": figure("Median")}


def loop(path: str, warmup: int, samples: int) -> dict[str, float]:
    """ONNX Runtime's own way to infer again and again: a session with bound inputs and outputs."""
    import numpy as np  # type: ignore[import-not-found]
    import onnxruntime  # type: ignore[import-not-found]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    binding, port = session.io_binding(), session.get_inputs()[0]
    binding.bind_cpu_input(port.name, np.random.default_rng(0).standard_normal(port.shape, dtype=np.float32))
    binding.bind_output(session.get_outputs()[0].name)
    for _ in range(warmup + 1):
        session.run_with_iobinding(binding)
    wall, cpu = [], []
    for _ in range(samples):
        cpu_begin, begin = time.thread_time_ns(), time.perf_counter_ns()
        session.run_with_iobinding(binding)
        wall.append((time.perf_counter_ns() - begin) / 1e6)
        cpu.append((time.thread_time_ns() - cpu_begin) / 1e6)
    return {"least": min(wall), "median": statistics.median(wall), "cpu": float(np.quantile(cpu, 0.1))}


def make(path: Path, rows: int, width: int, layers: int) -> None:
    """A chain of products, each with a tanh behind it."""
    import numpy as np  # type: ignore[import-not-found]
    import onnx  # type: ignore[import-not-found]
    from onnx import TensorProto, helper, numpy_helper  # type: ignore[import-not-found]

    draw = np.random.default_rng(0)
    nodes, weights, value = [], [], "x"
    for layer in range(layers):
        weight = draw.standard_normal((width, width), dtype=np.float32) / np.float32(width**0.5)
        weights.append(numpy_helper.from_array(weight, f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [value, f"w{layer}"], [f"p{layer}"]))
        nodes.append(helper.make_node("Tanh", [f"p{layer}"], [f"t{layer}"]))
        value = f"t{layer}"
    port: Any = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, width])  # noqa: E731
    graph = helper.make_graph(nodes, "chain", [port("x")], [port(value)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)


def python(args: argparse.Namespace, name: str) -> Path:
    """The newest environment of this name that holds an interpreter."""
    found = [path for path in args.env_dir.glob(f"{name}-*/bin/python") if path.exists()]
    if not found:
        sys.exit(f"{args.env_dir} holds no environment `{name}`: run `orch setup {name}`")
    return max(found, key=lambda path: path.lstat().st_mtime)


def call(argv: list[Any], folder: Path | None = None) -> str:
    words = [str(word) for word in argv]
    ended = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if ended.returncode:
        sys.exit(f"{' '.join(words)}\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    return ended.stdout


if __name__ == "__main__":
    sys.exit(main())
