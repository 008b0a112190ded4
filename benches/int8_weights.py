"""Whether int8 weights are why cells of OpenVINO are wrong: the same weights, in fp32 arithmetic.

    python benches/int8_weights.py orch-out MODEL…

The IR that a run kept under `orch-out/artefacts` holds its weights in 8 bits, with a scale and a zero point for each
channel. Here numpy multiplies them out, and OpenVINO gets a model of fp32 constants: of int8, only the rounding of the
weights is left. If that is beyond the bounds of int8 too, on the inputs or the control's, the weights are the cause.

Needs openvino, numpy and safetensors, and the bounds from `python/orch_py`. Prints a Markdown table.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

import openvino

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))
from orch_py.judge import judge

Tensors = dict[str, np.ndarray]


def main() -> None:
    out, *names = sys.argv[1:]
    print("| model | int8, as OpenVINO runs it | the same weights in fp32 | the cause |\n|---|--:|--:|---|")
    for name in names:
        kept = Path(out) / "artefacts" / name
        path = kept / "openvino-int8" / "model.xml"
        as_is, multiplied = judged(path, kept), judged(multiplied_out(path), kept)
        cause = "the weights" if not multiplied[1] else "something else" if not as_is[1] else "none: it is right"
        print(f"| {name} | {as_is[0]:.3f} | {multiplied[0]:.3f} | {cause} |", flush=True)


def judged(model: Path | openvino.Model, kept: Path) -> tuple[float, bool]:
    """The largest difference in terms of the output's scale, and whether all is within the bounds of int8."""
    folder = kept / "openvino-int8"
    names = json.loads((folder / "manifest.json").read_text())["inputs"]
    compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    far, agrees = 0.0, True
    for prefix in ("", "control-"):
        given, reference = load_file(folder / f"{prefix}inputs.safetensors"), kept / "model"
        expected = load_file(reference / f"{prefix}reference.safetensors")
        result = compiled([given[name] for name in names])
        got = {name: np.array(value) for port, value in result.items() for name in port.get_names()}
        found = judge.verdict({name: got[name] for name in expected}, expected, judge.TOLERANCES["int8"])
        rows = [row for row in found["tensors"].values() if row["max_abs"] is not None]
        far = max([far, *(row["max_abs"] / row["scale"] for row in rows)])
        agrees = agrees and found["agrees"]
    return far, agrees


def multiplied_out(path: Path) -> openvino.Model:
    model = openvino.Core().read_model(path)
    for product in model.get_ordered_ops():
        if product.get_type_name() == "Multiply" and (value := weights(product)) is not None:
            product.output(0).replace(openvino.op.Constant(value).output(0))
    model.validate_nodes_and_infer_types()
    return model


def weights(product: openvino.Node) -> np.ndarray | None:
    """`(integers - zero points) * scales`, if that is what the node computes."""
    node, scale = (product.input_value(place).get_node() for place in (0, 1))
    zero = np.float32(0)
    if node.get_type_name() == "Subtract":
        if (constant := below(node.input_value(1).get_node())) is None:
            return None
        zero, node = constant.data.astype(np.float32), node.input_value(0).get_node()
    integers, scales = below(node), below(scale)
    if integers is None or scales is None or integers.get_element_type().get_type_name() not in ("u8", "i8"):
        return None
    return (integers.data.astype(np.float32) - zero) * scales.data.astype(np.float32)


def below(node: openvino.Node) -> openvino.Node | None:
    """The constant under conversions, if it is one."""
    while node.get_type_name() == "Convert":
        node = node.input_value(0).get_node()
    return node if node.get_type_name() == "Constant" else None


if __name__ == "__main__":
    main()
