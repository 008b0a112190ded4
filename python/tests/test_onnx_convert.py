"""ONNX at fp16, int8, int8-static, a16w8 and int4, made for real of small graphs. Skipped without ONNX Runtime."""

from __future__ import annotations

import importlib.util
import json
import tempfile
import unittest
from pathlib import Path
from typing import Any

MODULES = ("onnx", "onnx_ir", "onnxruntime", "safetensors", "numpy")
HERE = all(importlib.util.find_spec(name) for name in MODULES)

if HERE:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    from orch_py.export import onnx_graph, onnx_static
    from orch_py.ops import onnx_convert
    from orch_py.worker import trees
    from orch_py.worker.protocol import Job, Output, Refused

QNN = {"for": "qnn"}
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
        inputs = {"onnx": tree} | ({"calibration": self.sets()} if precision in ("int8-static", "a16w8") else {})
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

    def test_quantised_for_qnn_is_counted_in_the_file(self) -> None:
        """The bias of the product is shared with a sum, which stays in fp32 and so must read the one in fp32."""
        random = np.random.default_rng(0)
        bias = np.linspace(0, 1, 8, dtype=np.float32)
        nodes = [
            helper.make_node("Gemm", ["x", "w", "b"], ["product"]),
            helper.make_node("Add", ["product", "b"], ["sum"]),
            helper.make_node("MatMul", ["sum", "v"], ["y"]),
        ]
        weights = {name: random.standard_normal((8, 8)).astype(np.float32) for name in "wv"} | {"b": bias}
        tree = self.tree(nodes, weights)
        for precision, kind, far in (("int8-static", TensorProto.UINT8, 3e-2), ("a16w8", TensorProto.UINT16, 1e-2)):
            output, out = self.convert(tree, precision, **QNN)
            facts = output.facts
            self.assertEqual((facts["products"], facts["quantised_products"], facts["nodes"]["integer"]), (2, 2, 2))
            bits = 8 if kind == TensorProto.UINT8 else 16
            self.assertIn(f"activations uint{bits} by tensor; calibrated on 8 other", facts["scheme"])
            self.assertTrue(1e-6 < self.off(tree, out) < far)
            graph = onnx.load(out / onnx_graph.MODEL).graph
            held = {tensor.name: tensor.data_type for tensor in graph.initializer}
            self.assertEqual({held[n.input[2]] for n in graph.node if n.op_type == "QuantizeLinear"}, {kind})
            (add,) = (node for node in graph.node if node.op_type == "Add")
            self.assertEqual([held.get(name) for name in add.input], [None, TensorProto.FLOAT])

    def test_16_bit_activations_are_nothing_that_onnx_runtime_computes(self) -> None:
        with self.assertRaisesRegex(
            Refused, "no kernels for 16-bit activations on the CPU: it computes all 1 "
        ) as told:
            self.convert(self.product(), "a16w8")
        self.assertEqual((told.exception.status, told.exception.facts["quantised_products"]), ("unsupported", 1))

    def test_products_that_stayed_in_fp32_are_not_counted(self) -> None:
        _, out = self.convert(self.product(), "a16w8", **QNN)
        model = onnx.load(out / onnx_graph.MODEL)
        self.assertEqual(onnx_static.quantised_products(model, "a16w8"), (1, 1))
        self.assertEqual(onnx_static.quantised_products(model, "int8-static"), (0, 1))
        (quantise,) = (n for n in model.graph.node if n.op_type == "QuantizeLinear" and n.input[0] != "x")
        # The product gives its output in fp32: its activations went through 16 bits, and it is not computed in them.
        for node in model.graph.node:
            for place, name in enumerate(node.input):
                if name.startswith("product") and node.op_type == "DequantizeLinear":
                    node.input[place] = quantise.output[0]
        model.graph.node.remove(quantise)
        self.assertEqual(onnx_static.quantised_products(model, "a16w8"), (0, 1))

    def test_int4_is_its_weights_multiplied_out(self) -> None:
        """With outputs as exact as fp32's: activations are not rounded, whatever a CPU could do faster."""
        random = np.random.default_rng(0)
        nodes = [
            helper.make_node("Concat", ["x"] * 4, ["wide"], axis=1),
            helper.make_node("Gemm", ["wide", "v", "b"], ["more"]),
            helper.make_node("Gemm", ["more", "u"], ["y"], transB=1),
        ]
        shapes = {"v": (32, 16), "b": (16,), "u": (8, 16)}
        tree = self.tree(
            nodes, {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        )
        output, out = self.convert(tree, "int4")
        self.assertIn("weights uint4 in groups of 16", output.facts["scheme"])
        self.assertEqual((output.facts["nodes"]["int4"], output.facts["weights"]["int4"]), (2, 32 * 16 + 16 * 8))
        self.assertNotIn("int8", output.facts["weights"])
        self.assertTrue(1e-2 < self.off(tree, out) < 0.3)
        again = self.convert(tree, "int4", "again")[1]
        self.assertEqual((out / onnx_graph.MODEL).read_bytes(), (again / onnx_graph.MODEL).read_bytes())

        graph = onnx.load(out / onnx_graph.MODEL).graph
        held = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
        given = trees.read_tensors(tree, trees.INPUTS)["x"]
        first, second = (self.multiplied_out(node, held) for node in graph.node if node.op_type == "MatMulNBits")
        right = (np.concatenate([given] * 4, 1) @ first + held["b"]) @ second
        got = onnx_graph.execute(out / onnx_graph.MODEL, {"x": given})["y"]
        np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-5)

    @staticmethod
    def multiplied_out(node: Any, held: dict[str, Any]) -> Any:
        """The weights (K, N) of a `MatMulNBits`: two to a byte, the lower bits first, as are the zero points."""
        told = {attribute.name: attribute.i for attribute in node.attribute}
        packed, scales, zeros = (held[name] for name in node.input[1:4])

        def halves(values: Any) -> Any:
            return np.stack([values & 15, values >> 4], -1).reshape(told["N"], -1).astype(np.float32)

        scales = scales.reshape(told["N"], -1)
        zeros = halves(zeros.reshape(told["N"], -1))[:, : scales.shape[1]]
        groups = halves(packed).reshape(told["N"], scales.shape[1], told["block_size"])
        return ((groups - zeros[..., None]) * scales[..., None]).reshape(told["N"], told["K"]).T

    def test_int4_needs_groups_that_divide_the_widths(self) -> None:
        with self.assertRaisesRegex(
            Refused, "no product .* constant weights of a width that 16 divides; they are of 8$"
        ):
            self.convert(self.product(), "int4")

    def test_a_width_that_no_group_divides_stays_in_fp32(self) -> None:
        random = np.random.default_rng(0)
        shapes = {"w": (8, 48), "u": (48, 48), "v": (48, 8)}
        names = ["x", "wide", "more", "y"]
        nodes = [helper.make_node("MatMul", [names[i], weight], [names[i + 1]]) for i, weight in enumerate(shapes)]
        weights = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        output, _ = self.convert(self.tree(nodes, weights), "int4")
        self.assertEqual((output.facts["nodes"]["int4"], output.facts["weights"]["int4"]), (2, 48 * 48 + 48 * 8))
        self.assertGreaterEqual(output.facts["weights"]["fp32"], 8 * 48)

    def test_int4_of_less_than_half_is_refused(self) -> None:
        random = np.random.default_rng(0)
        nodes = [helper.make_node("MatMul", ["x", "w"], ["wide"]), helper.make_node("MatMul", ["wide", "v"], ["y"])]
        weights = {
            name: random.standard_normal(shape).astype(np.float32) for name, shape in (("w", (8, 48)), ("v", (48, 8)))
        }
        with self.assertRaisesRegex(Refused, "only 384 of 792 weights of the model became int4"):
            self.convert(self.tree(nodes, weights), "int4")

    def test_equal_models_give_equal_bytes(self) -> None:
        tree = self.product()
        ways: tuple[tuple[str, dict[str, str]], ...]
        ways = (("fp16", {}), ("int8", {}), ("int8-static", {}), ("int8-static", QNN), ("a16w8", QNN))
        for precision, more in ways:
            names = [f"{name}-{'-'.join(more.values())}" for name in ("one", "two")]
            one, two = (self.convert(tree, precision, name, **more)[1] for name in names)
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
        for precision, bound, more in (
            ("fp16", 5e-3, {}),
            ("int8", 5e-2, {}),
            ("int8-static", 5e-2, {}),
            ("a16w8", 2e-2, QNN),
        ):
            _, out = self.convert(tree, precision, **more)
            self.assertTrue((out / onnx_graph.DATA).is_file())
            again = self.convert(tree, precision, "again", **more)[1]
            for name in (onnx_graph.MODEL, onnx_graph.DATA):
                self.assertEqual((out / name).read_bytes(), (again / name).read_bytes(), precision)
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
        for precision in ("int8-static", "a16w8"):
            with self.assertRaisesRegex(Refused, f"only 0 of the model's 0 products became {precision}"):
                self.convert(added, precision, "npu", **QNN)
        with self.assertRaisesRegex(
            Refused, "no product of the model has a matrix of constant weights of a width that 16 divides$"
        ):
            self.convert(added, "int4")
        with self.assertRaisesRegex(Refused, "`bf16` is not known"):
            self.convert(added, "bf16", "other")


if __name__ == "__main__":
    unittest.main()
