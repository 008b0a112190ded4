"""ONNX at fp16, int8 and int8-static, made for real of small graphs. Skipped where ONNX Runtime is not installed."""

from __future__ import annotations

import importlib.util
import json
import tempfile
import unittest
from pathlib import Path
from typing import Any

MODULES = ("onnx", "onnxruntime", "safetensors", "numpy")
HERE = all(importlib.util.find_spec(name) for name in MODULES)

if HERE:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    from orch_py import onnx_graph, trees
    from orch_py.ops import onnx_convert
    from orch_py.protocol import Job, Output, Refused

# fp32's lowest number, of which attention masks are made.
LOWEST = -3.4028234663852886e38


@unittest.skipUnless(HERE, "onnx is not installed")
class OnnxConvert(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def tree(self, nodes: list[Any], weights: dict[str, Any], outputs: str = "y") -> Path:
        """The graph takes `x` and gives `y`, or what `outputs` names, all 2 by 8."""
        ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 8]) for name in "x" + outputs]
        tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()]
        graph = helper.make_graph(nodes, "main", ports[:1], ports[1:], tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        tree = self.folder / "onnx"
        tree.mkdir()
        onnx_graph.save(model, tree)
        trees.write_tensors(tree, trees.INPUTS, {"x": np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)})
        trees.write_manifest(tree, {"inputs": ["x"], "outputs": [*outputs], "route": "legacy", "versions": {}})
        return tree

    def product(self) -> Path:
        """A mask of fp32's lowest number on one column, and two operators that stay in fp32 and read one tensor."""
        mask = np.zeros(8, np.float32)
        mask[3] = LOWEST
        weight = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
        nodes = [
            helper.make_node("MatMul", ["x", "w"], ["product"]),
            helper.make_node("Max", ["product", "zero"], ["most"]),
            helper.make_node("Min", ["product", "zero"], ["least"]),
            helper.make_node("Add", ["most", "least"], ["sum"]),
            helper.make_node("Add", ["sum", "mask"], ["masked"]),
            helper.make_node("Softmax", ["masked"], ["y"]),
        ]
        return self.tree(nodes, {"w": weight, "zero": np.float32(0), "mask": mask})

    def convert(self, tree: Path, precision: str, name: str = "out", **more: Any) -> tuple[Output, Path]:
        out = self.folder / f"{name}-{precision}"
        out.mkdir()
        params = {"precision": precision, **more}
        inputs = {"onnx": tree} | ({"calibration": self.sets()} if precision == "int8-static" else {})
        return onnx_convert.run(Job(params=params, inputs=inputs, out=out, progress=print)), out

    def sets(self) -> Path:
        """Other inputs of the kind of the tree's."""
        folder = self.folder / "calibration"
        folder.mkdir(exist_ok=True)
        for number in range(8):
            values = np.random.default_rng(number).uniform(-1, 1, (2, 8)).astype(np.float32)
            trees.write_tensors(folder, f"{number:04}.safetensors", {"x": values})
        return folder

    def off(self, tree: Path, out: Path) -> float:
        inputs = trees.read_tensors(tree, trees.INPUTS)
        want = onnx_graph.execute(tree / onnx_graph.MODEL, inputs)["y"]
        got = onnx_graph.execute(out / onnx_graph.MODEL, inputs)["y"]
        self.assertEqual(got.dtype, np.float32)
        return float(np.abs(got - want).max()) / max(1.0, float(np.abs(want).max()))

    def test_fp16_keeps_inputs_and_outputs_and_bounds_its_masks(self) -> None:
        tree = self.product()
        output, out = self.convert(tree, "fp16")
        self.assertTrue(0 < self.off(tree, out) < 5e-3)
        model = onnx.load(out / onnx_graph.MODEL)
        tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        self.assertEqual((tensors["w"].dtype, tensors["mask"].min()), (np.float16, -65504))
        # `Max` and `Min` stay; both read the one cast of what they share.
        self.assertEqual(output.facts["nodes"], {"fp16": 4, "fp32": 2})
        manifest = json.loads((out / trees.MANIFEST).read_text())
        self.assertEqual((manifest["precision"], manifest["opset"], manifest["route"]), ("fp16", 17, "legacy"))

    def test_int8_multiplies_integers(self) -> None:
        tree = self.product()
        output, out = self.convert(tree, "int8")
        self.assertTrue(1e-5 < self.off(tree, out) < 2e-2)
        self.assertEqual(output.facts["nodes"]["integer"], 1)

    def test_int8_weights_keep_to_the_range_that_no_cpu_saturates(self) -> None:
        """By the file, for which CPU computes its sums is not known here: 255 x 127 twice does not fit 16 bits."""
        tree = self.product()

        def weights(name: str, **more: Any) -> tuple[Any, Output, dict[str, Any]]:
            output, out = self.convert(tree, "int8", name, **more)
            model = onnx.load(out / onnx_graph.MODEL)
            (weight,) = (t for t in model.graph.initializer if t.data_type == TensorProto.INT8 and len(t.dims) == 2)
            return numpy_helper.to_array(weight), output, json.loads((out / trees.MANIFEST).read_text())

        for name, more in (("usual", {}), ("asked", {"range": "reduced"})):
            values, output, manifest = weights(name, **more)
            self.assertEqual(abs(values.astype(int)).max(), 64)
            self.assertEqual((output.facts["range"], manifest["range"]), ("reduced", "reduced"))
            self.assertIn("in a reduced range", output.facts["scheme"])
        values, output, manifest = weights("full", range="full")
        self.assertEqual(abs(values.astype(int)).max(), 127)
        self.assertEqual((output.facts["range"], manifest["range"]), ("full", "full"))
        self.assertIn("without VNNI saturate", output.facts["scheme"])
        with self.assertRaisesRegex(Refused, "`half` is not known; known: `reduced`, `full`"):
            self.convert(tree, "int8", "slip", range="half")

    def test_fp16_of_an_output_that_is_a_constant(self) -> None:
        nodes = [
            helper.make_node("MatMul", ["x", "w"], ["product"]),
            helper.make_node("Add", ["product", "y"], ["sum"]),
        ]
        weight = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
        mean = np.full((2, 8), 0.5, np.float32)
        tree = self.tree([*nodes, helper.make_node("Relu", ["sum"], ["z"])], {"w": weight, "y": mean}, outputs="yz")
        _, out = self.convert(tree, "fp16")
        inputs = trees.read_tensors(tree, trees.INPUTS)
        want, got = (onnx_graph.execute(folder / onnx_graph.MODEL, inputs) for folder in (tree, out))
        self.assertEqual(got["y"].tolist(), mean.tolist())
        self.assertLess(np.abs(got["z"] - want["z"]).max(), 5e-3)

    def test_int8_of_a_product_with_a_stack_of_matrices(self) -> None:
        """ONNX Runtime's tool would give the stack a zero point for each column, which its own kernel refuses."""
        random = np.random.default_rng(0)
        nodes = [
            helper.make_node("MatMul", ["x", "w"], ["product"]),
            helper.make_node("Unsqueeze", ["product", "middle"], ["row"]),
            helper.make_node("MatMul", ["row", "stack"], ["stacked"]),
            helper.make_node("Squeeze", ["stacked", "middle"], ["y"]),
        ]
        weights = {
            "w": random.standard_normal((8, 8)).astype(np.float32),
            "stack": random.standard_normal((2, 8, 8)).astype(np.float32),
            "middle": np.array([1]),
        }
        tree = self.tree(nodes, weights)
        for precision in ("int8", "int8-static"):
            output, out = self.convert(tree, precision)
            self.assertTrue(1e-5 < self.off(tree, out) < 5e-2)
            self.assertGreaterEqual(output.facts["nodes"]["integer"], 1 if precision == "int8-static" else 2)
            self.assertGreaterEqual(output.facts["weights"]["int8"], 64 + 128)

    def test_int8_of_a_product_with_a_vector(self) -> None:
        """ONNX Runtime's tool would give the vector a scale for each of its values, which the product has not."""
        nodes = [
            helper.make_node("MatMul", ["x", "v"], ["product"]),
            helper.make_node("Unsqueeze", ["product", "last"], ["column"]),
            helper.make_node("Expand", ["column", "shape"], ["y"]),
        ]
        vector = np.random.default_rng(0).standard_normal(8).astype(np.float32)
        tree = self.tree(nodes, {"v": vector, "last": np.array([1]), "shape": np.array([2, 8])})
        output, out = self.convert(tree, "int8")
        self.assertTrue(1e-5 < self.off(tree, out) < 5e-2)
        self.assertEqual(output.facts["nodes"]["integer"], 1)

    def test_static_int8_multiplies_integers_in_the_ranges_of_its_calibration(self) -> None:
        tree = self.product()
        output, out = self.convert(tree, "int8-static")
        self.assertTrue(1e-5 < self.off(tree, out) < 2e-2)
        self.assertEqual(output.facts["nodes"]["integer"], 1)
        scheme = output.facts["scheme"]
        self.assertIn("static: weights int8 by channel in a reduced range", scheme)
        self.assertIn("calibrated on 8 other sets of inputs", scheme)
        model = onnx.load(out / onnx_graph.MODEL)
        held = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        # -1 to 1 in 255 steps: what the sets hold, not what the mask does.
        scales = [float(held[node.input[1]]) for node in model.graph.node if node.op_type == "QuantizeLinear"]
        self.assertTrue(scales and all(abs(scale - 2 / 255) < 2e-4 for scale in scales[:1]), scales)
        (weight,) = (values for values in held.values() if values.dtype == np.int8 and values.ndim == 2)
        self.assertEqual(abs(weight.astype(int)).max(), 64)
        full, _ = self.convert(tree, "int8-static", "full", range="full")
        self.assertIn("without VNNI saturate", full.facts["scheme"])

    def test_static_int8_without_further_sets_says_on_what_it_was_calibrated(self) -> None:
        tree, out = self.product(), self.folder / "own"
        out.mkdir()
        job = Job(params={"precision": "int8-static"}, inputs={"onnx": tree}, out=out, progress=print)
        self.assertIn("calibrated on the model's own inputs", onnx_convert.run(job).facts["scheme"])

    def test_equal_models_give_equal_bytes(self) -> None:
        tree = self.product()
        for precision in ("fp16", "int8", "int8-static"):
            one, two = (self.convert(tree, precision, name)[1] for name in ("one", "two"))
            for name in (onnx_graph.MODEL, trees.MANIFEST):
                self.assertEqual((one / name).read_bytes(), (two / name).read_bytes())

    def test_a_large_model_keeps_its_weights_in_a_file_of_their_own(self) -> None:
        limit = onnx_graph._EMBED_LIMIT
        self.addCleanup(setattr, onnx_graph, "_EMBED_LIMIT", limit)
        onnx_graph._EMBED_LIMIT = 1
        weight = np.random.default_rng(0).standard_normal((8, 1024)).astype(np.float32)
        nodes = [helper.make_node("MatMul", ["x", "w"], ["wide"]), helper.make_node("MatMul", ["wide", "v"], ["y"])]
        tree = self.tree(nodes, {"w": weight, "v": weight.T.copy()})
        self.assertTrue((tree / onnx_graph.DATA).is_file())
        for precision, bound in (("fp16", 5e-3), ("int8", 5e-2), ("int8-static", 5e-2)):
            _, out = self.convert(tree, precision)
            self.assertTrue((out / onnx_graph.DATA).is_file())
            self.assertTrue(0 < self.off(tree, out) < bound)

    def test_what_would_not_be_what_it_is_called_is_refused(self) -> None:
        whole = self.tree([helper.make_node("Relu", ["x"], ["y"])], {})
        with self.assertRaisesRegex(Refused, "holds no fp32 weights"):
            self.convert(whole, "fp16")
        for file in whole.iterdir():
            file.unlink()
        whole.rmdir()
        added = self.tree([helper.make_node("Add", ["x", "w"], ["y"])], {"w": np.ones(8, np.float32)})
        with self.assertRaisesRegex(Refused, "nothing in the model became int8"):
            self.convert(added, "int8")
        with self.assertRaisesRegex(Refused, "nothing in the model became int8"):
            self.convert(added, "int8-static")
        with self.assertRaisesRegex(Refused, "`bf16` is not known"):
            self.convert(added, "bf16", "other")


if __name__ == "__main__":
    unittest.main()
