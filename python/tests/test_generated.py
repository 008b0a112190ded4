"""The test that orch writes for eager runs, on a small BERT: its verdicts, its flags, its limits. Skipped where torch
is not installed."""

from __future__ import annotations

import ast
import importlib.util
import json
import runpy
import sys
import unittest
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

from tests.generated import rendered
from tests.support import Worker

MODULES = ("torch", "transformers", "safetensors", "jinja2")
INPUTS = [{"name": name, "dtype": "int64", "shape": [1, 8]} for name in ("input_ids", "attention_mask")]


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in MODULES), "torch is not installed")
class Generated(unittest.TestCase):
    worker: Worker
    model: Path

    @classmethod
    def setUpClass(cls) -> None:
        import numpy as np

        cls.worker = Worker.of_ops(cls, "materialise")
        inputs, control = (
            {"input_ids": np.arange(first, first + 8).reshape(1, 8), "attention_mask": np.ones((1, 8), np.int64)}
            for first in (4, 9)
        )
        cls.model = cls.worker.small_bert(inputs, control, num_hidden_layers=2)

    def run_test(self, *argv: str, model: Path | None = None, **given: Any) -> tuple[int, dict[str, Any]]:
        """Exit code and document of the generated test."""
        self.worker.jobs += 1
        path = self.worker.root / f"test_tiny_{self.worker.jobs}.py"
        text = rendered("eager", **{"class": "BertForMaskedLM", "inputs": INPUTS, **given})
        path.write_text(text, "utf-8")
        result = path.with_suffix(".json")
        told = [str(path), "--model", str(model or self.model), "--json", str(result), *argv]
        with mock.patch.object(sys, "argv", told), self.assertRaises(SystemExit) as ended:
            runpy.run_path(str(path), run_name="__main__")
        return int(ended.exception.code or 0), json.loads(result.read_text("utf-8"))

    def tampered(self, name: str, change: Any) -> Path:
        """The model tree with other values in one of its files."""
        import shutil

        from orch_py.worker import trees

        self.worker.jobs += 1
        tree = self.worker.root / f"tampered-{self.worker.jobs}"
        shutil.copytree(self.model, tree)
        trees.write_tensors(tree, name, change(trees.read_tensors(tree, name)))
        return tree

    def test_it_passes_on_both_inputs_and_saves_both_outputs(self) -> None:
        from orch_py.judge import judge
        from orch_py.worker import trees

        saved = self.worker.root / "saved"
        code, document = self.run_test("--save", str(saved))
        self.assertEqual((code, document["status"], document["reason"]), (0, "ok", None))
        numerics = document["facts"]["numerics"]
        self.assertEqual((numerics["verdict"], numerics["no_control"]), ("PASS", None))
        self.assertLess(numerics["control"]["logits"]["max_abs"], 1e-5)
        outputs, control = (trees.read_tensors(saved, f"{name}.safetensors") for name in ("outputs", "control-outputs"))
        reference, other = (trees.read_tensors(self.model, name) for name in (trees.REFERENCE, trees.CONTROL_REFERENCE))
        self.assertTrue(judge.verdict(outputs, reference, judge.TOLERANCES["fp32"])["agrees"])
        self.assertTrue(judge.verdict(control, other, judge.TOLERANCES["fp32"])["agrees"])

    def test_wrong_outputs_fail_it_unless_it_does_not_judge(self) -> None:
        wrong = self.tampered("reference.safetensors", lambda tensors: {"logits": -tensors["logits"]})
        code, document = self.run_test(model=wrong)
        self.assertEqual((code, document["status"]), (1, "numerics"))
        self.assertRegex(document["reason"], "^`logits`: at .* times the bound")
        saved = self.worker.root / "unjudged"
        code, document = self.run_test("--no-judge", "--save", str(saved), model=wrong)
        self.assertEqual((code, document["status"], document["facts"]["numerics"]), (0, "ok", None))
        self.assertEqual(
            sorted(path.name for path in saved.iterdir()), ["control-outputs.safetensors", "outputs.safetensors"]
        )

    def test_a_control_that_is_wrong_fails_it(self) -> None:
        wrong = self.tampered("control-reference.safetensors", lambda tensors: {"logits": -tensors["logits"]})
        code, document = self.run_test(model=wrong)
        self.assertEqual((code, document["status"]), (1, "numerics"))
        self.assertRegex(document["reason"], "^right on the first input, wrong on the control's: `logits`")

    def test_what_another_input_would_pass_is_indecisive(self) -> None:
        loose = {"atol": 100.0, "rtol": 1.0, "budget": 1.0, "cosine": -1.0, "snr": -200.0}
        code, document = self.run_test(tolerance=loose)
        self.assertEqual((code, document["status"]), (0, "indecisive"))
        self.assertRegex(
            document["reason"], "the outputs of another input would pass as well: they differ by [0-9.]+ in"
        )

    def test_what_the_model_without_a_layer_would_pass_is_indecisive(self) -> None:
        from orch_py.worker import trees

        reference = trees.read_tensors(self.model, trees.REFERENCE)
        code, document = self.run_test(model=self.tampered(trees.DROPPED_REFERENCE, lambda _: reference))
        self.assertEqual((code, document["status"]), (0, "indecisive"))
        self.assertRegex(document["reason"], r"without `bert\.encoder\.layer\.[01]` would pass as well")

    def test_a_grown_batch_is_compared_with_the_reference_repeated(self) -> None:
        code, document = self.run_test("--batch-size", "3")
        self.assertEqual((code, document["status"], document["reason"]), (0, "ok", None))
        self.assertEqual(document["facts"]["numerics"]["tensors"]["logits"]["shape"], [3, 8, 32])

    def test_it_runs_apart_on_every_device(self) -> None:
        code, document = self.run_test("--all-hardware")
        self.assertEqual((code, document["status"]), (0, "ok"))
        self.assertEqual(document["facts"]["devices"]["cpu"]["measure"]["actual_device"], "cpu")

    def test_the_limit_of_seconds_ends_warming_up_and_sampling(self) -> None:
        # So many inferences would take hours.
        code, document = self.run_test(measure={"warmup": 10**6, "samples": 10**6, "max_seconds": 0.2})
        self.assertEqual((code, document["status"]), (0, "ok"))
        for times in (document["measure"]["warmup_ms"], document["measure"]["samples_ms"]):
            self.assertTrue(0 < len(times) < 10**5)
            self.assertLess(sum(times), 20_000)
        code, document = self.run_test(measure={"warmup": 5, "samples": 5, "max_seconds": 1e-9})
        measured = document["measure"]
        self.assertEqual((len(measured["warmup_ms"]), len(measured["samples_ms"])), (0, 1))

    def test_the_verdict_takes_no_name_of_the_file_s_own(self) -> None:
        for hardware, more in (
            ("eager", {"class": "BertForMaskedLM"}),
            ("torch", {}),
            ("ort", {}),
            ("openvino", {"device": "CPU"}),
            ("webgpu", {"backend": "webgpu"}),
            ("browser", {"backend": "webnn", "runtime": "browser"}),
            ("transformers_js", {"runtime": "transformers-js", "device": "wasm"}),
        ):
            text = rendered(hardware, inputs=INPUTS, **more)
            kinds = (ast.FunctionDef, ast.ClassDef)
            named = Counter(node.name for node in ast.parse(text).body if isinstance(node, kinds))
            self.assertEqual([name for name, count in named.items() if count > 1], [], hardware)
            self.assertEqual([named["decide"], named["execute"]], [1, 1], hardware)
            self.assertNotIn("orch_py", text)


if __name__ == "__main__":
    unittest.main()
