"""Constants of an ONNX graph, folded. Skipped where onnx is not installed."""

from __future__ import annotations

import importlib.util
import tempfile
import unittest
from pathlib import Path
from unittest import mock

if HERE := all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime")):
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    from orch_py.export import onnx_fold, onnx_graph, onnx_messages, onnx_weights


@unittest.skipUnless(HERE, "onnx and onnxruntime are not installed")
class Folding(unittest.TestCase):
    """What is left out of a graph while its constants are folded, and comes back."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def model(self, *more: onnx.NodeProto) -> onnx.ModelProto:
        """Rows of a table by the ids `x`, a matrix times a vector that no input decides, and a matrix in a Gemm."""
        size = 512
        random = np.random.default_rng(0)
        names = ("table", "matrix", "folded", "gemm")
        weights = [numpy_helper.from_array(random.random((size, size), np.float32), name) for name in names]
        weights.append(numpy_helper.from_array(np.ones((1, size), np.float32), "row"))
        nodes = [
            helper.make_node("Gather", ["table", "x"], ["rows"]),
            helper.make_node("MatMul", ["rows", "matrix"], ["product"]),
            helper.make_node("MatMul", ["row", "folded"], ["constant"]),
            helper.make_node("Add", ["product", "constant"], ["sum"]),
            helper.make_node("Gemm", ["sum", "gemm"], ["y"]),
            *more,
        ]
        given = [helper.make_tensor_value_info("x", TensorProto.INT64, [2])]
        made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, size])]
        graph = helper.make_graph(nodes, "main", given, made, weights)
        model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
        return onnx_weights.detach(model, self.folder / "weights")

    def written(self) -> dict[str, int]:
        """Bytes of each constant in the file that ONNX Runtime read, by name."""
        read = onnx.load(self.folder / "unfolded.onnx", load_external_data=False)
        return {tensor.name: onnx_weights.bytes_of(tensor) for tensor in read.graph.initializer}

    def computed(self, model: onnx.ModelProto) -> np.ndarray:
        path = onnx_messages.write_graph(model, self.folder, "computed.onnx")
        [found] = onnx_graph.execute(path, {"x": np.array([3, 500])}, optimised=False).values()
        return found

    def test_weights_that_are_only_computed_with_are_left_out_and_come_back(self) -> None:
        model = self.model()
        before = model.SerializeToString(deterministic=True)
        found = onnx_fold.fold(model, self.folder)
        self.assertEqual(set(self.written()), {"folded", "row"})
        self.assertEqual(model.SerializeToString(deterministic=True), before, "the graph that was given has changed")
        with mock.patch.object(onnx_fold, "_LEAST", 1 << 60):
            expected = onnx_fold.fold(model, self.folder)
        self.assertEqual([value.name for value in found.graph.input], ["x"])
        operators = [[node.op_type for node in each.graph.node] for each in (found, expected)]
        self.assertEqual(*operators)
        outputs = [self.computed(each) for each in (found, expected)]
        np.testing.assert_array_equal(*outputs)

    def test_a_weight_that_a_normalisation_is_merged_into_stays(self) -> None:
        statistics = [f"table_{name}" for name in ("scale", "bias", "mean", "variance")]
        model = self.model(helper.make_node("BatchNormalization", ["y", *statistics], ["normal"]))
        for name in statistics:
            model.graph.initializer.append(numpy_helper.from_array(np.ones(512, np.float32), name))
        onnx_fold.fold(model, self.folder)
        self.assertIn("matrix", self.written())


if __name__ == "__main__":
    unittest.main()
