"""What of a PyTorch model an exporter gets wrong: the smallest module, what it takes and gives, and the program that
shows it. Skipped where torch is not installed."""

from __future__ import annotations

import importlib.util
import tempfile
import unittest
from pathlib import Path
from typing import Any

from tests.support import Worker

MODULES = ("torch", "transformers", "onnx", "onnxruntime", "safetensors")
HAS_TORCH = all(importlib.util.find_spec(name) for name in MODULES)


@unittest.skipUnless(HAS_TORCH, "torch is not installed")
class Values(unittest.TestCase):
    def test_tensors_are_taken_out_of_any_value_and_put_back(self) -> None:
        import torch
        from transformers import DynamicCache

        from orch_py.blame import nested

        one, two = torch.ones(2), torch.zeros(3)
        cache = DynamicCache()
        cache.update(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2), 0)
        value = {"a": (one, [two, 3, None]), "b": one, "c": cache, "d": torch.float32}
        given, tensors = nested.flattened(value)
        self.assertEqual([tuple(tensor.shape) for tensor in tensors], [(2,), (3,), (1, 1, 2, 2), (1, 1, 2, 2)])
        back = nested.filled(given, [tensor + 1 for tensor in tensors])
        self.assertEqual(back["a"][0].tolist(), [2, 2])
        self.assertIs(back["a"][0], back["b"])
        self.assertEqual((back["a"][1][1:], back["d"]), ([3, None], torch.float32))
        self.assertEqual(back["c"].layers[0].keys.max(), 2)
        self.assertEqual(cache.layers[0].keys.max(), 1)


@unittest.skipUnless(HAS_TORCH, "torch is not installed")
class Planted(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def found(self, planted: str, route: str = "legacy", **more: Any) -> dict[str, Any] | None:
        import torch

        from orch_py.blame import modules
        from orch_py.blame.exporters import Exporter
        from tests import planted_exports

        torch.manual_seed(1)
        one = torch.rand(2, 3, 4)
        sets = [{"x": one}, {"x": -3 * one}]
        search = modules.ModuleSearch(
            planted_exports.model(planted),
            sets,
            ["y"],
            Exporter(route, 17 if route == "legacy" else 18),
            self.folder / "files",
            **more,
        )
        self.search = search
        return search.finding(self.folder / "repro")

    def test_a_planted_module_is_found_and_proven_and_shown(self) -> None:
        for planted, is_baked in (("Branch", True), ("View", False), ("Loop", True), ("Symbolic", False)):
            with self.subTest(planted):
                self.setUp()
                finding = self.found(planted)
                assert finding is not None
                self.assertEqual(finding["verdict"], "exporter")
                module = finding["module"]
                self.assertEqual((module["path"], module["class"]), ("blocks.1.block.planted", planted))
                self.assertEqual((module["is_baked"], module["calls"]), (is_baked, 1))
                self.assertAlmostEqual(finding["injected"] / finding["observed"], 1, places=3)
                what = "baked in" if is_baked else "values"
                signature = f"torch.onnx.export(dynamo=False) {finding['version']} | {what} | {planted}"
                self.assertEqual(finding["signature"], signature)
                self.assertTrue((self.folder / "repro" / "run.py").is_file())
                self.assertIn(planted, (self.folder / "repro" / "README.md").read_text("utf-8"))

    def test_a_file_that_runs_on_the_inputs_of_its_trace_alone_has_a_size_baked_in(self) -> None:
        finding = self.found("Sized")
        assert finding is not None
        self.assertEqual(finding["verdict"], "exporter")
        self.assertEqual((finding["module"]["path"], finding["module"]["is_baked"]), ("blocks.1.block.planted", True))
        self.assertIn("the file does not run on these inputs", finding["difference"]["why"])
        self.assertTrue((self.folder / "repro" / "run.py").is_file())

    def test_a_module_whose_export_ends_with_an_error_is_found_by_that(self) -> None:
        finding = self.found("Refused")
        assert finding is not None
        self.assertEqual(finding["verdict"], "exporter_refuses")
        self.assertEqual(finding["module"]["path"], "blocks.1.block.planted")
        self.assertIn("special_bessel_j0", finding["error"]["message"])
        self.assertTrue((self.folder / "repro" / "run.py").is_file())

    def test_a_right_model_is_blamed_on_nobody(self) -> None:
        self.assertIsNone(self.found("Right"))

    def test_a_search_that_used_up_its_exports_says_so(self) -> None:
        finding = self.found("View", max_tries=2)
        assert finding is not None
        self.assertEqual(finding["stopped"], "stopped after 2 exports; a smaller module may be wrong")
        self.assertIsNone(finding["module"]["path"] or None)

    def test_an_exporter_that_refuses_a_branch_is_followed_to_it(self) -> None:
        finding = self.found("Branch", "dynamo")
        assert finding is not None
        self.assertEqual(finding["verdict"], "exporter_refuses")
        self.assertEqual(finding["module"]["path"], "blocks.1.block.planted")


LONGFORMER = {
    "attention_window": 16,
    "vocab_size": 128,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 66,
    "initializer_range": 0.3,
}


@unittest.skipUnless(HAS_TORCH, "torch is not installed")
class Op(unittest.TestCase):
    worker: Worker

    @classmethod
    def setUpClass(cls) -> None:
        cls.worker = Worker.of_ops(cls, "materialise", "blame_export")

    def test_a_class_of_transformers_is_searched_and_shown_by_its_config(self) -> None:
        """The exporter takes the strides of a view for those of the shape."""
        import json

        import numpy as np

        from orch_py.worker import trees

        folder = self.worker.root / "given"
        folder.mkdir()
        for seed, name in enumerate((trees.INPUTS, trees.CONTROL_INPUTS)):
            ids = np.random.default_rng(seed).integers(3, 128, (1, 64))
            trees.write_tensors(folder, name, {"input_ids": ids})
        output, model = self.worker.do("materialise", {"class": "LongformerModel", "config": LONGFORMER}, inputs=folder)
        self.assertEqual((output["status"], output["reason"]), ("ok", None))
        plain = {"routes": ["legacy"], "stand_ins": False}
        output, out = self.worker.do("blame_export", plain, artefact=model)
        self.assertEqual((output["status"], output["reason"]), ("ok", None))
        finding = json.loads((out / "finding.json").read_text("utf-8"))
        self.assertEqual(finding["verdict"], "exporter")
        self.assertEqual(finding["module"]["class"], "LongformerSelfAttention")
        self.assertEqual(output["facts"]["signature"], finding["signature"])
        self.assertTrue(0.5 < finding["injected"] / finding["observed"] <= 2)
        program = (out / "repro" / "run.py").read_text("utf-8")
        self.assertIn("transformers.LongformerModel(config)", program)
        self.assertNotIn("orch_py", program)


if __name__ == "__main__":
    unittest.main()
