"""Makes affine.onnx, its inputs and its expected outputs. Needs `onnx` and `numpy`; run it only to change the files.

The expected outputs are computed by numpy, not by the runtime under test: relu(x @ w + b).
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).parent / "specs"


def main() -> None:
    draw = np.random.default_rng(0)
    w, b = draw.standard_normal((8, 4), dtype=np.float32), draw.standard_normal(4, dtype=np.float32)
    x = draw.standard_normal((2, 8), dtype=np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["xw"]),
            helper.make_node("Add", ["xw", "b"], ["sum"]),
            helper.make_node("Relu", ["sum"], ["y"]),
        ],
        "affine",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, HERE / "affine.onnx")
    np.savez(HERE / "inputs.npz", x=x)
    np.savez(HERE / "expected.npz", y=np.maximum(x @ w + b, 0))


if __name__ == "__main__":
    main()
