"""A rewrite of a graph that changes what it computes is not published. Skipped where torch is not installed."""

from __future__ import annotations

import importlib.util
import math
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from tests.support import Worker

MODULES = ("torch", "transformers", "onnx", "onnxruntime", "safetensors")


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in MODULES), "torch is not installed")
class Rewrites(unittest.TestCase):
    worker: Worker
    model: Path

    @classmethod
    def setUpClass(cls) -> None:
        import numpy as np

        cls.worker = Worker.of_ops(cls, "materialise")
        inputs, control = ({"input_ids": np.arange(first, first + 8)[None]} for first in (3, 11))
        cls.model = cls.worker.small_bert(inputs, control)

    def exported(self, fold: Callable[..., Any] | None = None, **params: Any) -> dict[str, Any]:
        """The manifest of the file that is published where constants are folded by `fold`."""
        from orch_py.export import onnx_fold
        from orch_py.ops import export_onnx
        from orch_py.worker import trees
        from orch_py.worker.protocol import Job

        self.worker.jobs += 1
        out = self.worker.root / f"here-{self.worker.jobs}"
        out.mkdir()
        job = Job({"routes": ["legacy"], **params}, {"model": self.model}, out, lambda _: None)
        with mock.patch.object(onnx_fold, "fold", fold or onnx_fold.fold):
            export_onnx.run(job)
        return trees.read_manifest(out)

    def scaled(self, factor: float) -> Callable[..., Any]:
        """A folder of constants that multiplies the last matrix by `factor`."""
        import numpy as np
        from onnx import numpy_helper

        from orch_py.export import onnx_fold, onnx_weights

        fold = onnx_fold.fold

        def wrongly(model: Any, folder: Path) -> Any:
            folded = fold(model, folder)
            tensor = max(folded.graph.initializer, key=lambda each: math.prod(each.dims))
            value = onnx_weights.array(tensor, folder) * np.float32(factor)
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
            return folded

        return wrongly

    def test_what_was_rewritten_is_listed(self) -> None:
        made = self.exported()
        before, after = made["folded"]
        self.assertGreater(before, after)
        self.assertNotIn("not_rewritten", made)

    def test_a_user_may_have_nothing_rewritten(self) -> None:
        made = self.exported(rewrites=False)
        self.assertFalse({"folded", "lowering", "not_rewritten"} & set(made))

    def test_what_changes_the_outputs_is_left_out_even_within_the_tolerance(self) -> None:
        for factor, why in ((3.0, "is off by"), (1.0003, "rewriting its graph changed what it computes")):
            with self.subTest(factor):
                made = self.exported(self.scaled(factor))
                self.assertNotIn("folded", made)
                self.assertIn(why, made["not_rewritten"])


if __name__ == "__main__":
    unittest.main()
