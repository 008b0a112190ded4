"""The rules of `onnx_lowering`, each against the graph as it was in ONNX Runtime. Skipped where that is absent."""

from __future__ import annotations

import importlib.util
import tempfile
import unittest
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import onnx

MODULES = ("onnx", "onnxruntime", "numpy")


def installed(*modules: str) -> bool:
    return all(importlib.util.find_spec(name) for name in modules)


@unittest.skipUnless(installed(*MODULES), "onnxruntime is not installed")
class Lowering(unittest.TestCase):
    def lowered(
        self, model: onnx.ModelProto, feed: dict[str, np.ndarray]
    ) -> tuple[onnx.ModelProto, dict[str, int], list[np.ndarray]]:
        """The model as it is published and the rules, after both were found to give equal outputs."""
        import numpy as np
        import onnx

        from orch_py.export import onnx_graph

        before = executed(model, feed)
        copy = onnx.ModelProto.FromString(model.SerializeToString())
        tidied = onnx_graph.tidy(copy, [value.name for value in model.graph.output])
        after, rules = tidied.model, tidied.rules
        onnx.checker.check_model(after, full_check=True)
        outputs = executed(after, feed)
        for one, other in zip(before, outputs, strict=True):
            self.assertEqual((one.dtype, one.shape), (other.dtype, other.shape))
            # A mean may add in another order than a pool; whole numbers are equal.
            np.testing.assert_allclose(other, one, rtol=3e-7 if one.dtype.kind == "f" else 0)
        return after, rules, outputs

    def test_sums_of_int64_are_taken_in_int32(self) -> None:
        import numpy as np
        from onnx import helper

        mask = np.array([[0, 1, 1, 0, 1], [1, 1, 1, 1, 1]], np.int64)
        for how in ({}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}):
            node = helper.make_node("CumSum", ["x", "axis"], ["y"], "n", **how)
            model = made([node], {"x": mask}, {"y": mask}, {"axis": np.array(1, np.int32)})
            after, rules, _ = self.lowered(model, {"x": mask})
            self.assertEqual((rules, operators(after)), ({"cumsum-int32": 1}, ["Cast", "CumSum", "Cast"]))
            self.assertEqual({a.name: a.i for a in after.graph.node[1].attribute if a.i}, how)

    def test_other_sums_stay(self) -> None:
        import numpy as np
        from onnx import helper

        for kind in (np.int32, np.float32):
            node = helper.make_node("CumSum", ["x", "axis"], ["y"])
            x = np.ones((2, 3), kind)
            after, rules, _ = self.lowered(made([node], {"x": x}, {"y": x}, {"axis": np.array(1)}), {"x": x})
            self.assertEqual((rules, operators(after)), ({}, ["CumSum"]))

    def test_a_choice_among_equal_values_leaves_no_node(self) -> None:
        import numpy as np
        from onnx import helper

        places, table = np.array([[3, 1], [0, 2]], np.int64), np.array([[1.5, 2.5], [3.5, 4.5]], np.float32)
        nodes = [
            helper.make_node("GatherElements", ["types", "places"], ["chosen"], "n", axis=1),
            helper.make_node("Gather", ["table", "chosen"], ["rows"]),
            helper.make_node("Add", ["rows", "x"], ["y"]),
        ]
        x = np.ones((2, 2, 2), np.float32)
        for types, rule in ((np.ones((2, 4), np.int64), True), (np.eye(2, 4, dtype=np.int64), False)):
            model = made(nodes, {"places": places, "x": x}, {"y": x}, {"types": types, "table": table})
            after, rules, outputs = self.lowered(model, {"places": places, "x": x})
            if rule:
                self.assertEqual((rules, operators(after)), ({"uniform-gather": 1}, ["Add"]))
                np.testing.assert_array_equal(outputs[0], np.broadcast_to(table[1] + 1, (2, 2, 2)))
            else:
                self.assertEqual((rules, operators(after)), ({}, ["GatherElements", "Gather", "Add"]))

    def test_an_output_of_equal_values_stays_the_output_of_a_node(self) -> None:
        import numpy as np
        from onnx import helper

        places, types = np.array([[3, 1]], np.int64), np.full((1, 4), 7, np.int64)
        node = helper.make_node("GatherElements", ["types", "places"], ["y"], axis=1)
        model = made([node], {"places": places}, {"y": places}, {"types": types})
        after, rules, _ = self.lowered(model, {"places": places})
        self.assertEqual((rules, operators(after)), ({}, ["GatherElements"]))

    def test_a_pool_over_one_axis_is_a_mean_in_every_opset(self) -> None:
        import numpy as np
        from onnx import helper

        node = helper.make_node("GlobalAveragePool", ["x"], ["y"], "n")
        random = np.random.default_rng(0)
        for opset in (17, 18, 21):
            for shape, rules in (((2, 3, 5), {"pool-mean": 1}), ((2, 3, 5, 4), {})):
                x = random.uniform(0.5, 1.5, shape).astype(np.float32)
                y = np.zeros((2, 3, *(1 for _ in shape[2:])), np.float32)
                after, done, _ = self.lowered(made([node], {"x": x}, {"y": y}, {}, opset), {"x": x})
                expected = "ReduceMean" if rules else "GlobalAveragePool"
                self.assertEqual((done, operators(after)), (rules, [expected]))

    def test_an_einsum_that_is_a_product_of_matrices_is_one(self) -> None:
        import numpy as np
        from onnx import helper

        random = np.random.default_rng(0)
        x, w = (random.uniform(0.5, 1.5, shape).astype(np.float32) for shape in ((2, 3, 4), (2, 4, 5)))
        for equation, result, rules in (
            ("...si,...id->...sd", (2, 3, 5), {"einsum-matmul": 1}),
            (" bsi, bid -> bsd", (2, 3, 5), {"einsum-matmul": 1}),
            ("...si,...id->...ds", (2, 5, 3), {}),
            ("bsi,bid->sd", (3, 5), {}),
            ("...si,...id->...s", (2, 3), {}),
        ):
            y = np.zeros(result, np.float32)
            node = helper.make_node("Einsum", ["x", "w"], ["y"], "n", equation=equation)
            after, done, _ = self.lowered(made([node], {"x": x}, {"y": y}, {"w": w}), {"x": x})
            self.assertEqual((done, operators(after)), (rules, ["MatMul" if rules else "Einsum"]))

    def test_what_is_joined_to_nothing_stays_as_it_is(self) -> None:
        import numpy as np
        from onnx import helper

        x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        # The rest behind the fourth value, by way of an operator that passes nothing on.
        rest = [
            helper.make_node("Slice", ["x", "four", "end", "last"], ["cut"]),
            helper.make_node("Neg", ["cut"], ["rest"]),
            helper.make_node("Neg", ["x"], ["minus"]),
        ]
        constants = {"four": np.array([4]), "end": np.array([2**62]), "last": np.array([2])}
        for axis in (2, -1):
            for parts, left in (
                (["minus", "rest"], ["Neg", "Add"]),
                (["rest", "x", "minus"], ["Neg", "Concat", "Add"]),
            ):
                y = np.zeros((2, 3, 4 * (len(left) - 1)), np.float32)
                last = helper.make_node("Add", ["joined", "one"], ["y"])
                join = helper.make_node("Concat", parts, ["joined"], axis=axis)
                given = constants | {"one": np.float32(1)}
                after, rules, _ = self.lowered(made([*rest, join, last], {"x": x}, {"y": y}, given), {"x": x})
                self.assertEqual((rules, sorted(operators(after))), ({"empty-concat": 1}, sorted(left)))
        # Nothing but nothing, and nothing that only another axis lacks, stay.
        join = helper.make_node("Concat", ["rest", "rest"], ["y"], axis=1)
        y = np.zeros((2, 6, 0), np.float32)
        _, rules, _ = self.lowered(made([*rest, join], {"x": x}, {"y": y}, constants), {"x": x})
        self.assertEqual(rules, {})

    def test_a_graph_without_such_operators_keeps_its_bytes(self) -> None:
        import numpy as np
        from onnx import helper

        from orch_py.export import onnx_lowering

        x = np.ones((1, 2), np.float32)
        model = made([helper.make_node("Relu", ["x"], ["y"])], {"x": x}, {"y": x}, {})
        before = model.SerializeToString(deterministic=True)
        self.assertEqual(onnx_lowering.lower(model), {})
        self.assertEqual(model.SerializeToString(deterministic=True), before)

    def test_masks_are_looked_up_where_they_were_cast(self) -> None:
        import numpy as np
        import onnx
        from onnx import TensorProto, helper

        from orch_py.export import onnx_lowering

        nodes = [
            helper.make_node("Cast", ["mask"], ["flags"], to=TensorProto.BOOL),
            helper.make_node("Cast", ["mask"], ["share"], to=TensorProto.FLOAT),
            helper.make_node("Cast", ["ids"], ["number"], to=TensorProto.FLOAT),
            helper.make_node("Where", ["flags", "share", "number"], ["y"]),
        ]
        mask, ids = np.array([[1, 0, 1]], np.int64), np.array([[5, 6, 7]], np.int64)
        feed = {"mask": mask, "ids": ids}
        model = made(nodes, feed, {"y": ids.astype(np.float32)}, {})
        before = executed(model, feed)
        self.assertEqual(onnx_lowering.look_up_masks(model, ["mask", "other"]), {"mask-gather": 1})
        onnx.checker.check_model(model, full_check=True)
        self.assertEqual(operators(model), ["Gather", "Cast", "Cast", "Cast", "Where"])
        self.assertEqual([node.input[0] for node in model.graph.node[1:4]], ["mask.int32", "mask.int32", "ids"])
        np.testing.assert_array_equal(executed(model, feed), before)
        self.assertEqual(onnx_lowering.look_up_masks(model, ["mask"]), {}, "there is nothing left to do")

    def test_what_is_of_another_domain_stays(self) -> None:
        import numpy as np
        from onnx import helper

        from orch_py.export import onnx_lowering

        x = np.ones((1, 2), np.int64)
        node = helper.make_node("CumSum", ["x", "axis"], ["y"], domain="vendor")
        self.assertEqual(onnx_lowering.lower(made([node], {"x": x}, {"y": x}, {"axis": np.array(1)})), {})


@unittest.skipUnless(installed(*MODULES, "torch", "transformers", "safetensors"), "torch is not installed")
class MaskedScatter(unittest.TestCase):
    def test_values_and_whole_rows_are_put_in_place(self) -> None:
        import torch

        from orch_py.export import onnx_graph, onnx_routes, onnx_weights

        class Put(torch.nn.Module):
            dtype = torch.float32

            def forward(self, ids: torch.Tensor, hidden: torch.Tensor, source: torch.Tensor) -> dict[str, torch.Tensor]:
                mask = ids == 7
                mask = mask.unsqueeze(-1).expand_as(hidden) if mask.ndim < hidden.ndim else mask
                return {"y": hidden.masked_scatter(mask, source)}

        rows = torch.tensor([[1, 7, 7, 2, 7]])
        hidden, source = torch.rand(1, 5, 4), torch.rand(3, 4)
        by_value = torch.where(torch.rand(1, 5, 4) > 0.5, 7, 0)
        none = torch.ones_like(rows)
        for ids, counted in ((rows, 5), (by_value, 20), (none, 5)):
            given = {"ids": ids, "hidden": hidden, "source": torch.rand(20) if counted == 20 else source}
            expected = Put()(**given)["y"]
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                graph = onnx_routes.legacy(Put(), given, None, ["y"], 17, folder).made
                graph = onnx_graph.tidy(graph, ["y"], folder).model
                onnx_weights.attach(graph, folder)
            [got] = executed(graph, {name: value.numpy() for name, value in given.items()})
            self.assertEqual(got.tolist(), expected.tolist())
            # Neither int64 sums nor bounds on integers, and rows are counted where rows are put.
            self.assertNotIn("Clip", operators(graph))
            [sums] = [node for node in graph.graph.node if node.op_type == "CumSum"]
            sizes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in graph.graph.value_info}
            self.assertEqual(sizes[sums.output[0]], [counted])


@unittest.skipUnless(installed(*MODULES, "torch", "transformers", "safetensors"), "torch is not installed")
class Rotary(unittest.TestCase):
    def test_phi_3_has_no_tensor_without_elements(self) -> None:
        """Its rotary embedding is of the whole head, and joins the rest of it all the same."""
        import torch

        from orch_py.export import onnx_fold, onnx_graph, onnx_routes, onnx_weights
        from orch_py.generate import torch_model

        cls = torch_model.model_class("Phi3ForCausalLM")
        given = {
            "vocab_size": 32,
            "hidden_size": 16,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "max_position_embeddings": 16,
            "original_max_position_embeddings": 16,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "pad_token_id": 0,
        }
        config = torch_model.build_config(cls, given)
        torch_model.plain(config)
        torch.manual_seed(0)
        model = cls._from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
        inputs = {"input_ids": torch.arange(3, 11)[None], "attention_mask": torch.ones(1, 8, dtype=torch.int64)}
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with torch.no_grad():
                expected = model(**inputs).logits
                graph = onnx_routes.legacy(model, inputs, None, ["logits"], 17, folder).made
            self.assertTrue(empty(onnx_graph._inferred(onnx_fold.fold(graph, folder))), "the export itself has some")
            tidied = onnx_graph.tidy(graph, ["logits"], folder)
            graph, rules = tidied.model, tidied.rules
            onnx_weights.attach(graph, folder)
        self.assertEqual(rules["empty-concat"], 4, "queries and keys of two layers")
        self.assertEqual(empty(graph), [])
        [got] = executed(graph, {name: value.numpy() for name, value in inputs.items()})
        torch.testing.assert_close(torch.from_numpy(got), expected, rtol=1e-4, atol=1e-5)


def empty(model: onnx.ModelProto) -> list[str]:
    """Values that have no elements."""
    values = (*model.graph.value_info, *model.graph.output)
    return [
        v.name for v in values if any(d.HasField("dim_value") and not d.dim_value for d in v.type.tensor_type.shape.dim)
    ]


def made(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, np.ndarray],
    outputs: dict[str, np.ndarray],
    constants: dict[str, np.ndarray],
    opset: int = 17,
) -> onnx.ModelProto:
    """A model whose inputs and outputs are like the given values."""
    from onnx import helper, numpy_helper

    def like(values: dict[str, np.ndarray]) -> list[onnx.ValueInfoProto]:
        kind = helper.np_dtype_to_tensor_dtype
        return [helper.make_tensor_value_info(name, kind(v.dtype), v.shape) for name, v in values.items()]

    held = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", like(inputs), like(outputs), held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def executed(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs: list[np.ndarray] = session.run(None, feed)
    return outputs


if __name__ == "__main__":
    unittest.main()
