"""Models of one to seven operators on which a runtime gives wrong numbers and no error.

    python benches/operators.py FOLDER
    orch run FOLDER/spec.yaml

Writes ONNX files, their inputs, what ONNX Runtime's CPU makes of them node by node, and a spec that runs all on ONNX
Runtime as it optimises them, OpenVINO, QNN and WebNN and expects what is known to be wrong. A runtime that was mended
is an `XPASS`. docs/zoo.md says in which models of the zoo they were found.

Needs numpy, onnx and onnxruntime.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

SPEC = """version: 1
targets:
  cpu: {runtime: ort, backend: cpu, device: cpu, artefact: onnx, precisions: [fp32]}
  openvino: {runtime: openvino, backend: openvino, device: CPU, artefact: openvino, precisions: [fp32, fp16]}
  qnn: {runtime: ort, backend: qnn, device: htp, artefact: qnn, precisions: [fp16], options: {soc_model: 60}}
  webnn: {runtime: browser, backend: webnn, device: cpu, artefact: onnx, precisions: [fp32]}
measure: none
"""
LOWEST = float(np.finfo(np.float32).min)
HEADS, WIDTH = 4, 16
Nodes = list[onnx.NodeProto]
Constants = dict[str, np.ndarray]
RANDOM = np.random.default_rng(0)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    models, expected = [], []
    as_written = onnxruntime.SessionOptions()
    as_written.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for name, (case, reason, model, given) in made().items():
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), as_written, providers=["CPUExecutionProvider"]
        )
        (output,) = session.run(None, given)
        model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, output.shape))
        onnx.checker.check_model(model)
        onnx.save(model, folder / f"{name}.onnx")
        np.savez(folder / f"{name}-inputs.npz", **given)
        np.savez(folder / f"{name}-expected.npz", y=output)
        models.append(f"  {name}: {{onnx: {name}.onnx, inputs_from: {name}-inputs.npz, expected: {name}-expected.npz}}")
        for where in case.split():
            expected.append(f'    - {{case: "{name}:{where}", status: NUMERICS, stage: run, reason: "{reason}"}}')
    matrix = ["matrix:", '  models: ["*"]', "  targets: [cpu, openvino, qnn, webnn]", "  expect:", *expected]
    (folder / "spec.yaml").write_text("\n".join([SPEC + "models:", *models, *matrix]) + "\n")


def made() -> dict[str, tuple[str, str, onnx.ModelProto, Constants]]:
    """By name: the cases that err, what is wrong there, the model and its inputs."""
    values, picture, large = normal(3, 8), normal(1, 3, 8, 8), normal(1, 16, 16, 16)
    row = np.array([[0, 0.5, -2, 300, LOWEST, 1, 0, 3]], np.float32)
    small = {"sizes": np.array([1, 3, 5, 5], np.int64)}
    reduced = {"axes": [-1], "keepdims": 1}
    window = {"kernel_shape": [3, 3], "strides": [2, 2]}
    whole = [node("Mod", "x", "step", to="rest"), node("Cast", "rest", to="y", type=TensorProto.FLOAT)]
    numbers = 7000 * np.arange(1, 17).reshape(1, 16)
    cast = [node("Cast", "x", to="is", type=TensorProto.BOOL), node("Cast", "is", to="y", type=TensorProto.FLOAT)]
    lines = {"mode": "linear"}
    edges = np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)
    padded = [node("Pad", "x", "edges", to="wide"), node("MaxPool", "wide", to="y", **window)]
    return {
        "padded-max-pool": (
            "cpu-fp32 webnn-fp32",
            "ONNX Runtime merges the padding with 0 into the MaxPool, whose own padding is the lowest number",
            *model(padded, {"x": picture - 3}, {"edges": edges}),
        ),
        "reduce-log-sum-exp": (
            "openvino-*",
            "reduces over all axes",
            *model([node("ReduceLogSumExp", "x", to="y", **reduced)], {"x": values}),
        ),
        "reduce-l1": (
            "openvino-*",
            "reduces over all axes",
            *model([node("ReduceL1", "x", to="y", **reduced)], {"x": values}),
        ),
        "resize-antialias": (
            "openvino-*",
            "resizes without antialias",
            *model(
                [node("Resize", "x", "", "", "sizes", to="y", antialias=1, **lines)], {"x": picture}, small, opset=18
            ),
        ),
        "as-many-heads-as-tokens": (
            "openvino-*",
            "mistakes heads for tokens",
            *attention(tokens=HEADS, before=[node("Tanh", "q1", to="q2")]),
        ),
        "constant-query": (
            "openvino-fp16",
            "infers otherwise the second time",
            *attention(tokens=16, query=normal(1, HEADS, 1, WIDTH)),
        ),
        "two-masks": ("openvino-*", "adds in another order, which loses a mask", *two_masks()),
        "average-without-padding": (
            "qnn-fp16",
            "averages wrongly",
            *model([node("AveragePool", "x", to="y", kernel_shape=[3, 3], pads=[1] * 4)], {"x": large}),
        ),
        "mod-of-whole-numbers": (
            "qnn-fp16",
            "computes in fp16",
            *model(whole, {"x": numbers}, {"step": np.array(16, np.int64)}),
        ),
        "resize-align-corners": (
            "webnn-fp32",
            "resizes by half_pixel",
            *model(
                [node("Resize", "x", "", "", "sizes", to="y", coordinate_transformation_mode="align_corners", **lines)],
                {"x": picture},
                {"sizes": np.array([1, 3, 16, 16], np.int64)},
            ),
        ),
        "cast-to-bool": ("qnn-fp16 webnn-fp32", "-3.4e38 becomes false", *model(cast, {"x": row})),
        "average-beyond-the-picture": (
            "qnn-fp16 webnn-fp32",
            "divides by the whole window",
            *model([node("AveragePool", "x", to="y", ceil_mode=1, **window)], {"x": picture}),
        ),
    }


def attention(
    tokens: int, query: np.ndarray | None = None, before: Nodes | None = None
) -> tuple[onnx.ModelProto, Constants]:
    """Softmax(q k) v of rows by heads; `before` makes `q2` of `q1`."""
    given = {name: normal(1, tokens, HEADS, WIDTH) for name in ("k", "v")}
    nodes = [node("Transpose", "k", to="k1", perm=[0, 2, 3, 1]), node("Transpose", "v", to="v1", perm=[0, 2, 1, 3])]
    constants = {} if query is None else {"q2": query}
    if query is None:
        given["q"] = normal(1, tokens, HEADS, WIDTH)
        nodes += [node("Transpose", "q", to="q1", perm=[0, 2, 1, 3]), *(before or [])]
    nodes += [
        node("MatMul", "q2", "k1", to="s"),
        node("Softmax", "s", to="p", axis=-1),
        node("MatMul", "p", "v1", to="y"),
    ]
    return model(nodes, given, constants)


def two_masks() -> tuple[onnx.ModelProto, Constants]:
    """(1 - x) * lowest + mask: the mask where x is 1, and nothing where it is 0."""
    causal = np.triu(np.full((1, 16, 16), LOWEST, np.float32), 1)
    constants = {"one": np.float32(1), "lowest": np.float32(LOWEST), "mask": causal}
    nodes = [
        node("Sub", "one", "x", to="is"),
        node("Mul", "is", "lowest", to="low"),
        node("Add", "low", "mask", to="m"),
    ]
    nodes.append(node("Softmax", "m", to="y", axis=-1))
    return model(nodes, {"x": np.array([[[1] * 14 + [0] * 2]], np.float32)}, constants)


def node(kind: str, *inputs: str, to: str, type: int | None = None, **attributes: object) -> onnx.NodeProto:
    more = {} if type is None else {"to": type}
    return helper.make_node(kind, list(inputs), [to], **attributes, **more)


def model(
    nodes: Nodes, given: Constants, constants: Constants | None = None, opset: int = 17
) -> tuple[onnx.ModelProto, Constants]:
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in given.items()
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()]
    graph = helper.make_graph(nodes, "main", inputs, [output], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), given


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


if __name__ == "__main__":
    main()
