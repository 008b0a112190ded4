"""Whether rounding alone makes a case as wrong as it is: on a graph that amplifies, and on one that chooses."""

from __future__ import annotations

import importlib.util
import json
import tempfile
import unittest
from pathlib import Path
from typing import Any

from orch_py.worker.protocol import Job, Refused

HAS_ONNX = all(importlib.util.find_spec(name) for name in ("numpy", "onnx", "onnxruntime", "safetensors"))
if HAS_ONNX:
    import numpy as np

    from orch_py.worker import trees

INPUTS = 16


@unittest.skipUnless(HAS_ONNX, "onnxruntime is not installed")
class Noise(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.weights = np.random.default_rng(1).standard_normal((INPUTS, 8)).astype(np.float32)
        self.x = np.random.default_rng(2).standard_normal((1, INPUTS)).astype(np.float32)

    def model(self, last: str) -> Any:
        """A product, an amplifier of 1,000, and `last`."""
        from onnx import TensorProto, helper, numpy_helper

        nodes = [
            helper.make_node("MatMul", ["x", "w"], ["scores"], "product"),
            helper.make_node("Mul", ["scores", "large"], ["large_scores"], "large"),
            helper.make_node(last, ["large_scores"], ["y"], "last", **({"axis": 1} if last == "ArgMax" else {})),
        ]
        kind = TensorProto.INT64 if last == "ArgMax" else TensorProto.FLOAT
        weights = [
            numpy_helper.from_array(self.weights, "w"),
            numpy_helper.from_array(np.array([1000.0], np.float32), "large"),
        ]
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, INPUTS])
        graph = helper.make_graph(nodes, "g", [given], [helper.make_tensor_value_info("y", kind, None)], weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def outputs(self, model: Any, weights: Any) -> dict[str, Any]:
        from onnx import ModelProto, numpy_helper

        from orch_py.blame.windows import Graph

        other = ModelProto()
        other.CopyFrom(model)
        other.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "w"))
        return {"y": Graph(other, {"x": self.x}).values["y"]}

    def blamed(self, model: Any, ours: dict[str, Any], precision: str = "fp16") -> dict[str, Any]:
        """The finding on a case that loads something made of this graph and gave `ours`."""
        import onnx

        from orch_py.ops import blame

        names = ("artefact", "source-0", "reference", "result", "out")
        folders = {name: self.folder / name for name in names}
        for folder in folders.values():
            folder.mkdir()
        onnx.save(model, folders["source-0"] / "model.onnx")
        trees.write_tensors(folders["source-0"], trees.INPUTS, {"x": self.x})
        trees.write_tensors(folders["reference"], trees.REFERENCE, self.outputs(model, self.weights))
        trees.write_tensors(folders["result"], blame.OUTPUTS, ours)
        out = folders.pop("out")
        tight = {"atol": 1e-6, "rtol": 1e-6, "budget": 0.0}
        params = {"precision": precision, "has_windows": False, "tolerance": tight}
        blame.run(Job(params, folders, out, lambda _: None))
        finding: dict[str, Any] = json.loads((out / blame.FINDING).read_text("utf-8"))
        return finding

    def test_what_rounded_weights_give_is_roundings(self) -> None:
        model = self.model("Exp")
        model.graph.node[2].input[0] = "scores"
        ours = self.outputs(model, self.weights.astype(np.float16).astype(np.float32))
        finding = self.blamed(model, ours)
        self.assertEqual(finding["verdict"], "rounding")
        rounding = finding["rounding"]
        self.assertLessEqual(rounding["ratio"], 1.0)
        self.assertEqual((rounding["output"], rounding["precision"]), ("y", "fp16"))

    def test_an_error_beyond_rounding_is_not(self) -> None:
        model = self.model("Softmax")
        model.graph.node[2].input[0] = "scores"
        ours = self.outputs(model, self.weights)
        ours["y"] = ours["y"][:, ::-1].copy()
        finding = self.blamed(model, ours)
        self.assertEqual(finding["verdict"], "beyond_rounding")
        self.assertGreater(finding["rounding"]["ratio"], 4.0)

    def test_the_amplifier_and_the_choice_are_named(self) -> None:
        # The first two columns differ by less than eight bits tell, and the others are far below.
        self.weights = np.repeat(self.x.T, 8, axis=1)
        self.weights[:, 1] *= np.float32(1 + 1e-5)
        self.weights[:, 2:] *= -1
        from orch_py.blame import noise
        from orch_py.blame.windows import Graph

        model = self.model("ArgMax")
        graph = Graph(model, {"x": self.x})
        right = {"y": graph.values["y"]}
        other = {"y": 1 - right["y"]}
        found = noise.compare(graph, "int8", other, right, {"atol": 0, "rtol": 0, "budget": 0, "cosine": 1, "snr": 99})
        self.assertRegex(found["choices"][0], r"^ArgMax last by a margin of .* of the scores' scale$")
        self.assertEqual(len(found["choices"]), 1)

    def test_outputs_of_another_shape_are_beyond_rounding_unless_it_changes_shapes(self) -> None:
        from orch_py.blame import noise

        model = self.model("Softmax")
        ours = {"y": self.outputs(model, self.weights)["y"][:, :3]}
        finding = self.blamed(model, ours)
        self.assertEqual(finding["verdict"], "beyond_rounding")
        self.assertEqual((finding["rounding"]["observed"], finding["rounding"]["ratio"]), (None, None))
        self.assertEqual(noise._ratio(float("inf"), float("inf")), 1.0)

    def test_single_numbers_are_not_rounded(self) -> None:
        from onnx import numpy_helper

        from orch_py.blame import noise

        model = self.model("Softmax")
        shaken = noise._shaken(model, "fp16", 0)
        weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in shaken.graph.initializer}
        self.assertEqual(weights["large"].tolist(), [1000.0])
        moved = np.abs(weights["w"] - self.weights) / np.abs(self.weights)
        held = self.weights.astype(np.float16).astype(np.float32) == self.weights
        self.assertTrue(np.allclose(moved[~held], 2.0**-11, rtol=1e-3))

    def test_values_that_the_precision_holds_are_not_rounded(self) -> None:
        from orch_py.blame import noise

        values = np.array([0, 1, -3, 2047, 2049, 0.5, 0.1], np.float32)
        for precision, held in (("fp16", [0, 1, -3, 2047, 0.5]), ("bf16", [0, 1, -3, 0.5])):
            error = noise._by_relative(precision)("w", values)
            assert error is not None
            self.assertEqual(values[error == 0].tolist(), held)

    def test_a_channel_of_eight_bits_moves_by_half_a_step(self) -> None:
        from onnx import numpy_helper

        from orch_py.blame import noise

        shaken = noise._shaken(self.model("Softmax"), "int8", 0)
        moved = np.abs(numpy_helper.to_array(shaken.graph.initializer[0]) - self.weights)
        low, high = np.minimum(self.weights.min(0), 0), np.maximum(self.weights.max(0), 0)
        self.assertTrue(np.allclose(moved, (high - low) / 510, rtol=1e-3))

    def test_a_precision_of_which_nothing_is_known_is_refused(self) -> None:
        model = self.model("Softmax")
        with self.assertRaises(Refused):
            self.blamed(model, self.outputs(model, self.weights), "int4")

    def test_rounding_that_many_nodes_amplify_is_no_fault(self) -> None:
        from onnx import helper

        from orch_py.blame import noise
        from orch_py.blame.windows import Graph

        model = self.model("Abs")
        last = model.graph.node[2]
        # Doubling ten times the angle makes its sine another number by rounding alone.
        model.graph.node.insert(2, helper.make_node("Sin", ["large_scores"], ["turned0"], "turned0"))
        for at in range(10):
            model.graph.node.insert(3 + at, helper.make_node("Add", [f"turned{at}"] * 2, [f"turned{at + 1}"]))
        last.input[0] = "turned10"
        graph = Graph(model, {"x": self.x})
        window = graph.window(range(len(graph.nodes)))
        assert window is not None
        noisy = {"y": window.expected["y"] * np.float32(1 + 1e-6)}
        self.assertTrue(noise.is_single_precision(window, noisy))
        self.assertFalse(noise.is_single_precision(window, {"y": -window.expected["y"]}))
        few = graph.window([0, 1])
        assert few is not None
        self.assertFalse(noise.is_single_precision(few, few.expected))


if __name__ == "__main__":
    unittest.main()
