"""Weights of ONNX models in files beside their graphs. Skipped where onnx is not installed."""

from __future__ import annotations

import importlib.util
import tempfile
import unittest
from pathlib import Path

if HERE := all(importlib.util.find_spec(name) for name in ("onnx", "numpy")):
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    from orch_py.export import onnx_weights


@unittest.skipUnless(HERE, "onnx is not installed")
class Weights(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def model(self) -> onnx.ModelProto:
        """Constants of each kind that exporters make: initializers of several encodings, nodes, and a branch's."""
        random = np.random.default_rng(0)

        def drawn(*shape: int) -> np.ndarray:
            return random.standard_normal(shape).astype(np.float32)

        named = {"w": drawn(32, 64), "v": drawn(64, 32), "small": drawn(4)}
        initializers = [numpy_helper.from_array(value, name) for name, value in named.items()]
        initializers.append(helper.make_tensor("typed", TensorProto.FLOAT, [32, 64], drawn(2048).tolist()))
        branches = {}
        for name in ("then", "else"):
            constant = numpy_helper.from_array(drawn(32, 32), "in_branch")
            branches[f"{name}_branch"] = helper.make_graph(
                [helper.make_node("Add", ["product", "in_branch"], [f"{name}.out"])],
                name,
                [],
                [helper.make_tensor_value_info(f"{name}.out", TensorProto.FLOAT, [32, 32])],
                [constant],
            )
        nodes = [
            helper.make_node("Constant", [], ["constant"], value=numpy_helper.from_array(drawn(32, 64), "c")),
            helper.make_node("Add", ["w", "constant"], ["wide"]),
            helper.make_node("Add", ["wide", "typed"], ["wider"]),
            helper.make_node("MatMul", ["wider", "v"], ["product"]),
            helper.make_node("If", ["x"], ["y"], **branches),
        ]
        graph = helper.make_graph(
            nodes,
            "main",
            [helper.make_tensor_value_info("x", TensorProto.BOOL, [])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [32, 32])],
            initializers,
        )
        return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])

    def values(self, model: onnx.ModelProto, folder: Path | None) -> list[list[float]]:
        found = (onnx_weights.array(tensor, folder) for tensor in onnx_weights.tensors(model.graph))
        return sorted(value.reshape(-1).tolist() for value in found)

    def test_a_file_is_read_without_its_weights_and_written_with_the_same_bytes(self) -> None:
        model = self.model()
        whole = self.folder / "whole.onnx"
        whole.write_bytes(model.SerializeToString(deterministic=True))
        read = onnx_weights.load(whole)
        self.assertEqual(onnx_weights.size(read), onnx_weights.size(model))
        self.assertEqual(self.values(read, self.folder), self.values(model, None))
        onnx_weights.write(read, self.folder, again := self.folder / "again.onnx")
        self.assertEqual(again.read_bytes(), whole.read_bytes())

    def test_what_messages_hold_is_detached_gathered_and_still_the_same_function(self) -> None:
        model = self.model()
        expected = self.values(model, None)
        detached = onnx_weights.detach(model, self.folder / "weights")
        self.assertLess(detached.ByteSize(), 4096)
        self.assertNotIn("Constant", [node.op_type for node in detached.graph.node])
        self.assertEqual(self.values(detached, self.folder), expected)
        out = self.folder / "out"
        out.mkdir()
        onnx_weights.gather(detached, self.folder, out / "model.onnx.data")
        (out / "model.onnx").write_bytes(detached.SerializeToString())
        onnx.checker.check_model(out / "model.onnx", full_check=True)
        self.assertEqual(self.values(onnx.load(out / "model.onnx"), None), expected)

    def test_tied_weights_are_gathered_once(self) -> None:
        model = onnx_weights.detach(self.model(), self.folder / "weights")
        before = onnx_weights.size(model)
        tied = model.graph.initializer.add()
        tied.CopyFrom(model.graph.initializer[0])
        tied.name = "tied"
        onnx_weights.gather(model, self.folder, gathered := self.folder / "gathered")
        self.assertLess(gathered.stat().st_size, before + 8 * 4096)
        self.assertEqual(*(onnx_weights.array(model.graph.initializer[at], self.folder).tolist() for at in (0, -1)))

    @unittest.skipUnless(importlib.util.find_spec("onnxruntime"), "onnxruntime is not installed")
    def test_a_model_above_two_gibibytes_is_folded_published_and_computed(self) -> None:
        from orch_py.export import onnx_graph

        rows, width, count = 131_072, 1024, 5
        size = rows * width * 4
        with (self.folder / "zeros").open("wb") as file:
            # Holes, which take no room on the disk.
            file.truncate(count * size)
        nodes, weights, sums = [], [], "one"
        for number in range(count):
            weight = TensorProto(name=f"w{number}", data_type=TensorProto.FLOAT, dims=[rows, width])
            onnx_weights._refer(weight, "zeros", number * size, size)
            weights.append(weight)
            nodes.append(helper.make_node("Gather", [weight.name, "x"], [f"row{number}"]))
            nodes.append(helper.make_node("Add", [sums, f"row{number}"], [sums := f"sum{number}"]))
        ports = [
            helper.make_tensor_value_info("x", TensorProto.INT64, [2]),
            helper.make_tensor_value_info(sums, TensorProto.FLOAT, [2, width]),
        ]
        one = numpy_helper.from_array(np.ones(1, np.float32), "one")
        graph = helper.make_graph(nodes, "main", ports[:1], ports[1:], [*weights, one])
        model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])

        tidied = onnx_graph.tidy(model, [sums], self.folder).model
        self.assertEqual(onnx_weights.size(tidied), count * size + 4)
        out = self.folder / "out"
        out.mkdir()
        written = onnx_graph.save(tidied, out, self.folder)
        self.assertEqual([path.name for path in written], [onnx_graph.MODEL, onnx_graph.DATA])
        [found] = onnx_graph.execute(written[0], {"x": np.array([0, rows - 1])}).values()
        self.assertTrue((found == 1).all())


if __name__ == "__main__":
    unittest.main()
