"""The memory and the time of `orch blame` on a language model of more than 1 GB.

    PYTHONPATH=python python benches/large_model.py

Makes the ONNX file of a decoder like Qwen2's with seeded weights, 24 layers of 896 by 4864 and 151,936 words: 2.3 GiB
in a file beside the graph. A fault is planted in a stand-in for the runtime (`harness/planting.py`), in one node in the
middle, and searched as `orch blame` does in a process of its own. What is printed is the largest resident memory of
that process; constants that are mapped from files count in it. It ends with 1 if the fault is not found, or if the
process takes more than `--limit` MiB.

Needs numpy, onnx, onnxruntime and safetensors: the environment `ort` of orch has them.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.planting import Planted, StandIn
from orch_py.blame.windows import weights_in
from orch_py.ops import blame
from orch_py.worker import trees
from orch_py.worker.protocol import Job

ROOT = Path(__file__).resolve().parents[1]
LAYERS, WIDTH, INNER, HEADS, GROUPS, WORDS = 24, 896, 4864, 14, 2, 151_936
HEAD = WIDTH // HEADS


class Writer:
    """A graph whose larger constants go to a file as they are made."""

    def __init__(self, folder: Path) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[TensorProto] = []
        self._data = (folder / "model.onnx.data").open("wb")
        self._random = np.random.default_rng(0)

    def weight(self, name: str, *shape: int) -> str:
        value = self._random.standard_normal(shape, dtype=np.float32)
        value *= np.float32(shape[0] ** -0.5)
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
        where = {"location": "model.onnx.data", "offset": str(self._data.tell()), "length": str(value.nbytes)}
        for key, entry in where.items():
            tensor.external_data.add(key=key, value=entry)
        value.tofile(self._data)
        self.constants.append(tensor)
        return name

    def constant(self, name: str, value: np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def node(self, operator: str, inputs: list[str], output: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [output], output, **attributes))
        return output

    def close(self) -> None:
        self._data.close()


def made(folder: Path, length: int) -> None:
    """Writes the decoder as an artefact, with its inputs."""
    to = Writer(folder)
    to.constant("eps", np.array(1e-6, np.float32))
    to.constant("two", np.array(2, np.float32))
    to.constant("last", np.array([-1], np.int64))
    to.constant("scale", np.array(HEAD**-0.5, np.float32))
    to.constant("mask", np.triu(np.full((length, length), -3.4e38, np.float32), 1))
    to.constant("heads", np.array([1, length, HEADS, HEAD], np.int64))
    to.constant("groups", np.array([1, length, GROUPS, HEAD], np.int64))
    to.constant("grouped", np.array([1, GROUPS, 1, length, HEAD], np.int64))
    to.constant("repeated", np.array([1, GROUPS, HEADS // GROUPS, length, HEAD], np.int64))
    to.constant("all_heads", np.array([1, HEADS, length, HEAD], np.int64))
    to.constant("wide", np.array([1, length, WIDTH], np.int64))
    hidden = to.node("Gather", [to.weight("words", WORDS, WIDTH), "input_ids"], "embedded")
    for at in range(LAYERS):
        hidden = layer(to, f"layer.{at}", hidden)
    hidden = normed(to, "norm", hidden)
    to.node("MatMul", [hidden, to.weight("head", WIDTH, WORDS)], "logits")
    to.close()
    graph = helper.make_graph(
        to.nodes,
        "main",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, length])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, length, WORDS])],
        to.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    ids = np.random.default_rng(1).integers(0, WORDS, (1, length))
    trees.write_tensors(folder, trees.INPUTS, {"input_ids": ids})


def normed(to: Writer, name: str, value: str) -> str:
    squared = to.node("Pow", [value, "two"], f"{name}.squared")
    mean = to.node("ReduceMean", [squared], f"{name}.mean", axes=[-1])
    root = to.node("Sqrt", [to.node("Add", [mean, "eps"], f"{name}.moved")], f"{name}.root")
    scaled = to.node("Div", [value, root], f"{name}.scaled")
    return to.node("Mul", [scaled, to.weight(f"{name}.weight", WIDTH)], name)


def layer(to: Writer, name: str, hidden: str) -> str:
    def product(value: str, part: str, rows: int, columns: int) -> str:
        return to.node("MatMul", [value, to.weight(f"{name}.{part}.weight", rows, columns)], f"{name}.{part}")

    def split(part: str, columns: int, shape: str) -> str:
        shaped = to.node("Reshape", [product(before, part, WIDTH, columns), shape], f"{name}.{part}.shaped")
        return to.node("Transpose", [shaped], f"{name}.{part}.heads", perm=[0, 2, 1, 3])

    def repeated(part: str) -> str:
        grouped = to.node("Reshape", [split(part, GROUPS * HEAD, "groups"), "grouped"], f"{name}.{part}.grouped")
        wide = to.node("Expand", [grouped, "repeated"], f"{name}.{part}.wide")
        return to.node("Reshape", [wide, "all_heads"], f"{name}.{part}.all")

    before = normed(to, f"{name}.norm", hidden)
    query, key, value = split("query", WIDTH, "heads"), repeated("key"), repeated("value")
    turned = to.node("Transpose", [key], f"{name}.turned", perm=[0, 1, 3, 2])
    scores = to.node("Mul", [to.node("MatMul", [query, turned], f"{name}.scores"), "scale"], f"{name}.scaled")
    weights = to.node("Softmax", [to.node("Add", [scores, "mask"], f"{name}.masked")], f"{name}.weights", axis=-1)
    mixed = to.node("MatMul", [weights, value], f"{name}.mixed")
    back = to.node("Transpose", [mixed], f"{name}.back", perm=[0, 2, 1, 3])
    joined = to.node("Reshape", [back, "wide"], f"{name}.joined")
    hidden = to.node("Add", [hidden, product(joined, "output", WIDTH, WIDTH)], f"{name}.attended")
    before = normed(to, f"{name}.norm2", hidden)
    gate = product(before, "gate", WIDTH, INNER)
    active = to.node("Mul", [gate, to.node("Sigmoid", [gate], f"{name}.sigmoid")], f"{name}.active")
    inner = to.node("Mul", [active, product(before, "up", WIDTH, INNER)], f"{name}.inner")
    return to.node("Add", [hidden, product(inner, "down", INNER, WIDTH)], f"{name}.out")


def search(tree: Path) -> None:
    """Searches the planted fault, and prints the finding and the memory of this process as JSON."""
    name = f"layer.{LAYERS // 2}.inner"
    with weights_in(tree), tempfile.TemporaryDirectory() as out:
        model = blame._model(tree)
        at = next(at for at, node in enumerate(model.graph.node) if node.name == name)
        accused = StandIn([Planted((at,), "sign", (name,))])
        job = Job({}, {"artefact": tree}, Path(out), lambda text: print(text, file=sys.stderr))
        started = time.perf_counter()
        finding = blame._finding(job, model, tree, accused)
        seconds = time.perf_counter() - started
    found = {
        "verdict": finding["verdict"],
        "nodes": [node["name"] for node in finding.get("nodes", ())],
        "planted": name,
        "of": len(model.graph.node),
        "tries": finding.get("tries"),
        "seconds": round(seconds),
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }
    print(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--limit", type=int, default=8192, help="MiB that the search may take")
    parser.add_argument("--model", type=Path, default=ROOT / "target/large-model", help="the folder of the model")
    parser.add_argument("--search", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.search:
        search(args.model)
        return
    args.model.mkdir(parents=True, exist_ok=True)
    made(args.model, args.tokens)
    size = sum(path.stat().st_size for path in args.model.iterdir())
    command = [sys.executable, __file__, "--search", "--model", str(args.model)]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()[-1])
    print(f"model: {size >> 20} MiB, {found['of']} nodes, {args.tokens} tokens")
    print(
        f"found {found['nodes']}, planted {found['planted']}, after {found['tries']} windows and {found['seconds']} s"
    )
    print(f"largest resident memory: {found['mib']} MiB")
    is_found = found["nodes"] == [found["planted"]]
    sys.exit(0 if is_found and found["mib"] <= args.limit else 1)


if __name__ == "__main__":
    main()
