"""Another expert, box or code that was chosen from scores that agree: no fault of an operator."""

from __future__ import annotations

import importlib.util
import tempfile
import unittest
from pathlib import Path
from typing import Any

from orch_py.worker.protocol import Job

HAS_ONNX = all(importlib.util.find_spec(name) for name in ("numpy", "onnx", "onnxruntime", "safetensors"))
if HAS_ONNX:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    from orch_py.blame import choices
    from orch_py.blame.accused import OnnxRuntime
    from orch_py.blame.windows import Graph
    from orch_py.ops import blame
    from orch_py.worker.trees import Tensors

    class Rounding(OnnxRuntime):
        """ONNX Runtime, which multiplies by weights that are off by a share of each."""

        share = 2e-6

        def run(self, model: Any, feeds: Tensors, times: int = 1) -> list[Tensors]:
            other = onnx.ModelProto()
            other.CopyFrom(model)
            for tensor in other.graph.initializer:
                if tensor.name == "weight":
                    value = numpy_helper.to_array(tensor).copy()
                    value[:, 1] *= 1 + self.share
                    tensor.CopyFrom(numpy_helper.from_array(value, "weight"))
            return super().run(other, feeds, times)

    class Faulty(OnnxRuntime):
        """ONNX Runtime, whose TopK and ArgMax take the worst."""

        def run(self, model: Any, feeds: Tensors, times: int = 1) -> list[Tensors]:
            other = onnx.ModelProto()
            other.CopyFrom(model)
            for node in other.graph.node:
                if node.op_type == "ArgMax":
                    node.op_type = "ArgMin"
                elif node.op_type == "TopK":
                    node.attribute.append(helper.make_attribute("largest", 0))
            return super().run(other, feeds, times)


@unittest.skipUnless(HAS_ONNX, "onnxruntime is not installed")
class Choosing(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def graph(self, operator: str, gap: float) -> Graph:
        """Scores of four experts, of which the first two are as near as `gap`, and the row of the chosen one."""
        if operator == "TopK":
            nodes = [helper.make_node("TopK", ["scores", "k"], ["top", "chosen"], "choose")]
        else:
            nodes = [helper.make_node("ArgMax", ["scores"], ["chosen"], "choose", axis=-1, keepdims=0)]
        nodes = [
            helper.make_node("Mul", ["x", "one"], ["scaled"], "scale"),
            helper.make_node("MatMul", ["scaled", "weight"], ["scores"], "score"),
            *nodes,
            helper.make_node("Gather", ["table", "chosen"], ["row"], "look"),
            helper.make_node("Tanh", ["row"], ["y"], "last"),
        ]
        weight = np.ones((4, 4), np.float32)
        weight[:, 0] = 1 + gap
        weight[:, 2:] = 0.5
        constants = {
            "one": np.array([1], np.float32),
            "weight": weight,
            "table": np.arange(8, dtype=np.float32).reshape(4, 2) / 4,
            "k": np.array([1], np.int64),
        }
        made = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(value, name) for name, value in constants.items()],
        )
        model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return Graph(model, {"x": np.full((3, 4), 2, np.float32)})

    def blamed(self, graph: Graph, accused: OnnxRuntime) -> dict[str, Any] | None:
        oracle = {name: graph.values[name] for name in graph.outputs}
        return blame._of_runtime(Job({}, {}, self.folder, lambda _: None), graph, oracle, accused)

    def test_a_choice_by_less_than_rounding_is_no_fault_and_has_its_margin(self) -> None:
        for operator in ("ArgMax", "TopK"):
            with self.subTest(operator):
                finding = self.blamed(self.graph(operator, 1e-6), Rounding(self.folder))
                assert finding is not None
                self.assertEqual(finding["verdict"], "choice")
                (choice,) = finding["choices"]
                self.assertEqual((choice["operator"], choice["name"]), (operator, "choose"))
                self.assertEqual((choice["changed"], choice["of"]), (3, 3))
                self.assertGreater(choice["margin"], 1e-7)
                self.assertLess(choice["margin"], 1e-5)
                self.assertAlmostEqual(finding["injected"], finding["observed"], places=5)
                self.assertIn(f"| choice | {operator}", finding["signature"])

    def test_an_operator_that_chooses_by_more_than_rounding_is_at_fault(self) -> None:
        for operator in ("ArgMax", "TopK"):
            with self.subTest(operator):
                finding = self.blamed(self.graph(operator, 1e-6), Faulty(self.folder))
                assert finding is not None
                self.assertEqual(finding["verdict"], "runtime")
                self.assertIn(operator, [node["operator"] for node in finding["nodes"]])
                self.assertEqual(finding["choices"], [])

    def test_scores_that_are_wrong_are_no_choice(self) -> None:
        accused = Rounding(self.folder)
        accused.share = 0.5
        finding = self.blamed(self.graph("ArgMax", 1e-6), accused)
        assert finding is not None
        self.assertEqual(finding["verdict"], "runtime")
        self.assertEqual(finding["nodes"][0]["operator"], "MatMul")

    def test_a_margin_is_a_share_of_the_scale(self) -> None:
        node = helper.make_node("ArgMax", ["s"], ["c"], axis=1, keepdims=1)
        scores = np.array([[4.0, 3.0, 4.0], [2.0, 2.0, 2.0]], np.float32)
        margin = choices.margin_of(node, scores, np.array([[0], [0]]), np.array([[1], [2]]))
        assert margin is not None
        self.assertEqual((margin.changed, margin.of, margin.is_rounding), (2, 2, False))
        self.assertGreater(margin.gap, 0.2)
        tie = choices.margin_of(node, scores, np.array([[0], [0]]), np.array([[2], [1]]))
        assert tie is not None
        self.assertEqual((tie.changed, tie.gap, tie.is_rounding), (2, 0.0, True))


if __name__ == "__main__":
    unittest.main()
