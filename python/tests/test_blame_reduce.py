"""The reduction of a window: sizes, constants, what stops it, and the folder of a reduced one."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from orch_py.worker.protocol import Job

HAS_ONNX = all(importlib.util.find_spec(name) for name in ("numpy", "onnx", "onnxruntime", "safetensors"))
if HAS_ONNX:
    import numpy as np

    from orch_py.worker import trees


@unittest.skipUnless(HAS_ONNX, "onnxruntime is not installed")
class Reducing(unittest.TestCase):
    def product(self, reshapes: bool = False) -> Any:
        """A window with a matrix of 128 by 96 numbers."""
        from onnx import TensorProto, helper, numpy_helper

        from orch_py.blame.windows import Graph

        random = np.random.default_rng(0)
        nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], "product")]
        weights = [numpy_helper.from_array(random.standard_normal((128, 96)).astype(np.float32), "w")]
        if reshapes:
            # The product of two sizes ties both to one constant.
            nodes.append(helper.make_node("Reshape", ["a", "shape"], ["y"], "reshape"))
            weights.append(numpy_helper.from_array(np.array([8 * 96], np.int64), "shape"))
        else:
            nodes.append(helper.make_node("Tanh", ["a"], ["y"], "tanh"))
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 128])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        window = Graph(model, {"x": random.standard_normal((8, 128)).astype(np.float32)}).window([0, 1])
        assert window is not None
        return window

    def reduced(self, window: Any, fails_alike: Any) -> Any:
        from orch_py.blame.reduce import Reduction
        from orch_py.blame.windows import plain

        return Reduction(window, plain, fails_alike).reduced()

    def test_sizes_go_down_wherever_they_stand(self) -> None:
        found = self.reduced(self.product(), lambda _: True)
        self.assertEqual(found.what, ("sizes",))
        self.assertLess(found.bytes_after, found.bytes_before / 50)
        self.assertLess(found.window.expected["y"].size, 5)
        self.assertGreater(found.window.expected["y"].size, 1, "an output that does not vary is no control")

    def test_a_size_below_which_the_fault_is_gone_stays(self) -> None:
        found = self.reduced(self.product(), lambda window: window.feeds["x"].shape[1] >= 64)
        self.assertEqual(found.window.feeds["x"].shape[1], 64)

    def test_sizes_that_are_tied_to_a_constant_stay_together(self) -> None:
        found = self.reduced(self.product(reshapes=True), lambda _: True)
        self.assertEqual(found.window.expected["y"].shape, (8 * 96,))
        self.assertEqual(found.window.feeds["x"].shape, (8, 1), "the summed size is free")

    def test_a_large_constant_is_made_of_fewer_numbers(self) -> None:
        def fails(window: Any) -> bool:
            return window.feeds["x"].shape == (8, 128) and window.expected["y"].shape == (8, 96)

        found = self.reduced(self.product(), fails)
        self.assertEqual(found.what, ("constants",))
        self.assertEqual(found.window.model.graph.node[0].op_type, "ConstantOfShape")
        self.assertLess(found.bytes_after, 8 * 128 * 4 + 1024)

    def test_nothing_is_reduced_where_the_fault_needs_all(self) -> None:
        self.assertIsNone(self.reduced(self.product(), lambda _: False))

    def test_a_window_that_the_oracle_does_not_compute_is_passed_over(self) -> None:
        from orch_py.blame.reduce import Reduction

        def oracle(*_: Any) -> Any:
            raise RuntimeError("no")

        self.assertIsNone(Reduction(self.product(), oracle, lambda _: True).reduced())


@unittest.skipUnless(HAS_ONNX, "onnxruntime is not installed")
class Showing(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def blamed(self) -> dict[str, Any]:
        """The finding on a padding with 0 that ONNX Runtime merges into the MaxPool behind it."""
        import onnx
        from onnx import TensorProto, helper, numpy_helper

        from orch_py.ops import blame

        nodes = [
            helper.make_node("Sub", ["x", "shift"], ["a"], "first"),
            helper.make_node("Pad", ["a", "pads"], ["padded"], "pad"),
            helper.make_node("MaxPool", ["padded"], ["y"], "pool", kernel_shape=[3, 3], strides=[2, 2]),
        ]
        weights = [
            numpy_helper.from_array(np.array([3.0], np.float32), "shift"),
            numpy_helper.from_array(np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64), "pads"),
        ]
        shape = [2, 16, 33, 33]
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        artefact, out = self.folder / "artefact", self.folder / "out"
        for folder in (artefact, out):
            folder.mkdir()
        onnx.save(model, artefact / "model.onnx")
        trees.write_tensors(
            artefact, trees.INPUTS, {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
        )
        blame.run(Job({}, {"artefact": artefact}, out, lambda _: None))
        finding: dict[str, Any] = json.loads((out / blame.FINDING).read_text("utf-8"))
        return finding

    def inputs(self) -> Any:
        with np.load(self.folder / "out" / "repro" / "inputs.npz") as inputs:
            return next(iter(dict(inputs).values()))

    def test_the_folder_has_the_reduced_window(self) -> None:
        finding = self.blamed()
        self.assertEqual(finding["pass"]["name"], "Pad_Fusion")
        reduced = finding["reduced"]
        self.assertEqual(reduced["what"], ["sizes"])
        self.assertGreater(reduced["bytes_before"], 2 * 16 * 33 * 33 * 4)
        self.assertLess(reduced["bytes_after"], 2000)
        self.assertLess(self.inputs().size, 500)
        repro = self.folder / "out" / "repro"
        ended = subprocess.run([sys.executable, "run.py"], cwd=repro, capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
        readme = (repro / "README.md").read_text("utf-8")
        self.assertIn(f"to {reduced['bytes_after']}.", readme)

    def test_a_reduced_window_that_a_new_process_does_not_show_is_dropped(self) -> None:
        from orch_py.blame.accused import OnnxRuntime

        with mock.patch.object(OnnxRuntime, "shows", return_value=False):
            finding = self.blamed()
        self.assertNotIn("reduced", finding)
        self.assertEqual(self.inputs().shape, (2, 16, 33, 33))

    def test_a_window_that_fails_by_another_pass_fails_in_another_way(self) -> None:
        from orch_py.blame.accused import OnnxRuntime
        from orch_py.blame.passes import Pass

        passes = [Pass("a stage", "one"), *[Pass("a stage", "other")] * 200]
        with mock.patch.object(OnnxRuntime, "guilty", side_effect=passes):
            finding = self.blamed()
        self.assertNotIn("reduced", finding)


if __name__ == "__main__":
    unittest.main()
