"""The conversion to LiteRT, for real on a small BERT. Skipped where its packages are not installed."""

from __future__ import annotations

import importlib.util
import unittest
from pathlib import Path
from typing import Any

from tests.support import Worker
from tests.test_torch_ops import digests

MODULES = ("torch", "transformers", "litert_torch", "ai_edge_litert", "safetensors")


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in MODULES), "litert-torch is not installed")
class Conversion(unittest.TestCase):
    worker: Worker
    model: Path

    @classmethod
    def setUpClass(cls) -> None:
        import numpy as np

        cls.worker = Worker.of_ops(cls, "litert_convert", "materialise")
        # One of the inputs is not in the order of the model's `forward`.
        inputs, control = (
            {"attention_mask": np.ones((1, 8), np.int64), "input_ids": np.arange(first, first + 8).reshape(1, 8)}
            for first in (2, 5)
        )
        cls.model = cls.worker.small_bert(inputs, control)

    def converted(self, **params: Any) -> tuple[Path, dict[str, Any]]:
        output, out = self.worker.do("litert_convert", params, model=self.model)
        self.assertEqual((output["status"], output["reason"]), ("ok", None))
        return out, output["facts"]

    def test_the_tree_holds_inputs_as_the_file_takes_them_and_no_path(self) -> None:
        import numpy as np
        from ai_edge_litert.interpreter import Interpreter

        from orch_py.worker import trees

        out, facts = self.converted()
        manifest = trees.read_manifest(out)
        self.assertEqual((manifest["inputs"], manifest["outputs"]), (["input_ids", "attention_mask"], ["logits"]))
        self.assertEqual(manifest["shared"], [])
        self.assertLess(facts["control_max_abs"], 1e-5)
        runner = Interpreter(str(out / "model.tflite")).get_signature_runner()
        self.assertEqual(set(runner.get_input_details()), {"args_0", "args_1"})
        for name in (trees.INPUTS, trees.CONTROL_INPUTS):
            given = trees.read_tensors(out, name)
            self.assertEqual({value.dtype for value in given.values()}, {np.dtype(np.int32)})
        made = runner(args_0=given["input_ids"], args_1=given["attention_mask"])["logits"]
        expected = trees.read_tensors(self.model, trees.CONTROL_REFERENCE)["logits"]
        self.assertLess(np.abs(made - expected).max(), 1e-4)
        self.assertNotIn(b"site-packages", (out / "model.tflite").read_bytes())
        self.assertEqual(digests(out), digests(self.converted()[0]))

    def test_a_split_into_one_part_changes_nothing_and_others_are_torchs(self) -> None:
        import torch

        from orch_py.stand_ins import litert

        whole = torch.arange(6)
        with litert.standing_in():
            for parts in (whole.split([6]), torch.split(whole, split_size_or_sections=[6]), torch.split(whole, [6])):
                self.assertIs(parts[0], whole)
            self.assertEqual([len(part) for part in whole.split(4)], [4, 2])
            self.assertEqual([len(part) for part in torch.split(whole, [1, 5], dim=0)], [1, 5])

    def test_fp16_is_of_the_weights_and_is_counted(self) -> None:
        whole, _ = self.converted()
        half, facts = self.converted(precision="fp16")
        self.assertGreater(facts["fp16_weights"], 5)
        self.assertGreater(facts["max_abs"], 1e-6)
        self.assertLess((half / "model.tflite").stat().st_size, (whole / "model.tflite").stat().st_size)
        output, _ = self.worker.do("litert_convert", {"precision": "int8"}, model=self.model)
        self.assertEqual(output["status"], "unsupported")

    def test_a_conversion_that_misses_the_reference_is_not_published(self) -> None:
        import shutil

        from orch_py.worker import trees

        model = self.worker.root / "wrong"
        shutil.copytree(self.model, model)
        wrong = {name: value + 0.5 for name, value in trees.read_tensors(model, trees.CONTROL_REFERENCE).items()}
        trees.write_tensors(model, trees.CONTROL_REFERENCE, wrong)
        output, _ = self.worker.do("litert_convert", {}, model=model)
        self.assertEqual(output["status"], "numerics")
        self.assertIn("wrong on others", output["reason"])

    def test_rewritten_functions_are_equal_and_an_operator_without_lowering_is_a_refusal(self) -> None:
        import torch

        from orch_py.ops import litert_convert
        from orch_py.stand_ins import litert
        from orch_py.worker.protocol import Refused

        values, source = torch.zeros(2, 4, 3), torch.arange(1.0, 25.0)
        masks = [torch.rand(2, 4, generator=torch.manual_seed(seed)) < share for seed, share in enumerate((0.5, 0, 1))]
        for mask in [mask.unsqueeze(-1) for mask in masks] + [torch.rand(2, 4, 3) < 0.5]:
            expected = values.masked_scatter(mask, source)
            with litert.standing_in():
                self.assertTrue(torch.equal(values.masked_scatter(mask, source), expected))
                self.assertEqual(len(torch.split(values, [2])), 1)
                self.assertEqual([len(part) for part in torch.split(source, [4, 20])], [4, 20])

        class Scatter(torch.nn.Module):
            dtype = torch.float32

            def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
                return {"y": x.masked_scatter(x > 0, x)}

        with self.assertRaisesRegex(Refused, "Lowering not found: aten.masked_scatter") as refused:
            litert_convert._convert(Scatter(), ["y"], {"x": torch.ones(2)}, {})
        self.assertEqual(refused.exception.status, "unsupported")

    def test_whole_numbers_beyond_32_bits_are_refused(self) -> None:
        import torch

        from orch_py.ops.litert_convert import _narrow
        from orch_py.worker.protocol import Refused

        for number, fits in ((2**31 - 1, True), (-(2**31), True), (2**31, False), (-(2**31) - 1, False)):
            if fits:
                self.assertEqual(_narrow({"ids": torch.tensor([number])})["ids"].tolist(), [number])
            else:
                with self.assertRaisesRegex(Refused, "`ids` holds larger ones"):
                    _narrow({"ids": torch.tensor([number])})


if __name__ == "__main__":
    unittest.main()
