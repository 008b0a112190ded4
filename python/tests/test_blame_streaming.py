"""Graphs whose weights stay in files: the same windows, values and finding as with all of it in memory."""

from __future__ import annotations

import importlib.util
import json
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from orch_py.worker.protocol import Job

HAS_ONNX = all(importlib.util.find_spec(name) for name in ("numpy", "onnx", "onnxruntime", "safetensors"))
if HAS_ONNX:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    from orch_py.blame import windows
    from orch_py.blame.windows import Graph, weights_in
    from orch_py.export import onnx_weights
    from orch_py.ops import blame
    from orch_py.worker import trees


@unittest.skipUnless(HAS_ONNX, "onnxruntime is not installed")
class Streaming(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        # All constants of a file are beyond it, and all values are computed two nodes at a time.
        for name, value in (("HELD", 0), ("SEGMENT", 2)):
            patch = mock.patch.object(windows, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        patch = mock.patch.object(blame, "HELD", 0)
        patch.start()
        self.addCleanup(patch.stop)

    def model(self, layers: int = 3) -> Any:
        """Products with a weight, then a padding with 0 that ONNX Runtime merges into the MaxPool behind it."""
        random = np.random.default_rng(0)
        nodes, weights, value = [], [], "x"
        for at in range(layers):
            weights.append(numpy_helper.from_array(random.standard_normal((18, 18)).astype(np.float32), f"w{at}"))
            nodes.append(helper.make_node("MatMul", [value, f"w{at}"], [f"m{at}"], f"product{at}"))
            nodes.append(helper.make_node("Tanh", [f"m{at}"], [f"t{at}"], f"tanh{at}"))
            value = f"t{at}"
        nodes += [
            helper.make_node("Sub", [value, "three"], ["low"], "low"),
            helper.make_node("Pad", ["low", "pads"], ["padded"], "pad"),
            helper.make_node("MaxPool", ["padded"], ["y"], "pool", kernel_shape=[3, 3], strides=[2, 2]),
        ]
        weights.append(numpy_helper.from_array(np.array([3.0], np.float32), "three"))
        weights.append(numpy_helper.from_array(np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64), "pads"))
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 18, 18])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def tree(self, model: Any) -> Path:
        tree = self.folder / "artefact"
        tree.mkdir()
        onnx.save_model(model, tree / "model.onnx", save_as_external_data=True, location="model.onnx.data")
        return tree

    def test_values_in_files_are_those_in_memory(self) -> None:
        model = self.model()
        inputs = {"x": np.random.default_rng(1).standard_normal((1, 2, 18, 18)).astype(np.float32)}
        held = Graph(model, inputs)
        tree = self.tree(model)
        referring = onnx_weights.load(tree / "model.onnx")
        with weights_in(tree):
            streamed = Graph(referring, inputs)
            self.assertEqual(set(streamed.values), set(held.values))
            for name, value in held.values.items():
                np.testing.assert_array_equal(streamed.values[name], value)
            window = streamed.window(range(len(streamed.nodes)))
            assert window is not None
            self.assertTrue(windows.has_files(window.model), "the constants of a large window stay in their files")
            np.testing.assert_array_equal(windows.plain(window.model, window.feeds)["y"], held.values["y"])

    def test_a_fault_is_found_and_shown_with_weights_in_files(self) -> None:
        model = self.model()
        inputs = {"x": np.random.default_rng(1).standard_normal((1, 2, 18, 18)).astype(np.float32)}
        right = {"y": Graph(model, inputs).values["y"]}
        tree, reference, out = self.tree(model), self.folder / "reference", self.folder / "out"
        reference.mkdir()
        out.mkdir()
        trees.write_tensors(tree, trees.INPUTS, inputs)
        trees.write_tensors(reference, trees.REFERENCE, right)
        blame.run(Job({}, {"artefact": tree, "reference": reference}, out, lambda _: None))
        finding = json.loads((out / "finding.json").read_text("utf-8"))
        self.assertEqual(finding["verdict"], "runtime")
        self.assertEqual([node["name"] for node in finding["nodes"]], ["pad", "pool"])
        self.assertEqual(finding["pass"]["name"], "Pad_Fusion")
        self.assertTrue((out / "repro" / "run.py").is_file())

    def test_a_process_of_a_runtime_reads_constants_from_files(self) -> None:
        from orch_py.blame.accused import SeparateOnnxRuntime

        model = self.model()
        inputs = {"x": np.ones((1, 2, 18, 18), np.float32)}
        expected = Graph(model, inputs).values["y"].copy()
        tree = self.tree(model)
        accused = SeparateOnnxRuntime(Path(blame.__file__).parents[2], self.folder)
        self.addCleanup(accused.close)
        with weights_in(tree):
            ours = accused.oracle(onnx_weights.load(tree / "model.onnx"), inputs)
        np.testing.assert_array_equal(ours["y"], expected)


if __name__ == "__main__":
    unittest.main()
