"""The artefact for Transformers.js, made for real of small models. Skipped where torch is not installed."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import unittest
from typing import Any

from tests.support import BERT, Worker

MODULES = ("torch", "transformers", "onnx", "onnxruntime", "safetensors", "PIL")
VIT = {
    "image_size": 8,
    "patch_size": 4,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "num_labels": 5,
    "initializer_range": 0.2,
}


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in MODULES), "torch is not installed")
class TransformersJs(unittest.TestCase):
    worker: Worker

    @classmethod
    def setUpClass(cls) -> None:
        cls.worker = Worker.of_ops(cls, "materialise", "export_onnx")

    def laid_out(self, cls: str, config: dict[str, Any], task: str, outputs: list[str], **given: Any) -> Any:
        """The outcome and the tree of the artefact of a model of class `cls`."""
        import numpy as np

        from orch_py.worker import trees

        folder = self.worker.root / f"inputs-{self.worker.jobs}"
        folder.mkdir()
        trees.write_tensors(folder, trees.INPUTS, {name: np.asarray(value) for name, value in given.items()})
        params = {"class": cls, "config": config, "seed": 0, "outputs": outputs, "task": task}
        made, model = self.worker.do("materialise", params, inputs=folder)
        self.assertEqual((made["status"], made["reason"]), ("ok", None))
        exported, onnx = self.worker.do("export_onnx", {"routes": ["legacy"]}, model=model)
        self.assertEqual((exported["status"], exported["reason"]), ("ok", None))
        return self.worker.do("transformers_js", {}, model=model, onnx=onnx)

    def of_text(self, cls: str, task: str, outputs: list[str], **config: Any) -> Any:
        ids = [[2, 6, 11, 8, 40, 13, 63, 3], [9, 5, 60, 31, 32, 17, 18, 3]]
        return self.laid_out(
            cls, BERT | {"vocab_size": 64} | config, task, outputs, input_ids=ids, attention_mask=[[1] * 8] * 2
        )

    def test_a_text_has_the_tokens_that_the_model_was_exported_for(self) -> None:
        from orch_py.worker import trees

        for cls, task, output, shape in (
            ("BertModel", "feature-extraction", "last_hidden_state", (2, 16)),
            ("BertForMaskedLM", "fill-mask", "logits", (2, 64)),
            ("BertForSequenceClassification", "text-classification", "logits", (2, 2)),
        ):
            result, out = self.of_text(cls, task, [output])
            self.assertEqual((result["status"], result["reason"]), ("ok", None))
            manifest, reference = trees.read_manifest(out), trees.read_tensors(out, trees.REFERENCE)
            ids, (name, value) = reference.pop("input_ids"), reference.popitem()
            self.assertEqual([ids.shape, value.shape], [(2, 8), shape])
            # The syllables of the model's own ids; a word begins where one does, or the row, or the mask is over.
            expected = [[2, 5, 11, 8, 40, 13, 63, 3], [2, 5, 60, 31, 32, 17, 18, 3]]
            if task == "fill-mask":
                expected = [[2, 5, 11, 8, 4, 13, 63, 3], [2, 5, 60, 31, 4, 17, 18, 3]]
            self.assertEqual(ids.tolist(), expected, manifest["texts"])
            self.assertEqual(manifest["outputs"], ["input_ids", name])
            text = trees.read_tensors(out, trees.INPUTS)["text"]
            self.assertEqual([bytes(row).rstrip(b"\0").decode() for row in text], manifest["texts"])
            self.assertTrue((out / "onnx" / "model.onnx").is_file())
            # The mask is cast nowhere: WebGPU could not, as Transformers.js asks for it.
            self.assertEqual(manifest["lowering"], {"mask-gather": 1})
            if name == "scores":
                self.assertAlmostEqual(float(value.sum()), 2.0, places=5)
                self.assertEqual(manifest["call"], {"top_k": shape[1]})

    def test_an_image_has_the_size_of_the_model_and_is_not_resized(self) -> None:
        import numpy as np

        from orch_py.worker import trees

        pixels = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype(np.float32)
        model = ("ViTForImageClassification", VIT, "image-classification", ["logits"])
        of = [self.laid_out(*model, pixel_values=pixels) for _ in range(2)]
        digests = []
        for result, out in of:
            self.assertEqual((result["status"], result["reason"]), ("ok", None))
            images = trees.read_tensors(out, trees.INPUTS)["images"]
            reference = trees.read_tensors(out, trees.REFERENCE)
            expected = (images.astype(np.float32) / 255 - 0.5) / 0.5
            self.assertLess(np.abs(expected.transpose(0, 3, 1, 2) - reference["pixel_values"]).max(), 1e-6)
            self.assertEqual((images.shape, reference["scores"].shape), ((2, 8, 8, 3), (2, 5)))
            self.assertIs(json.loads((out / "preprocessor_config.json").read_text())["do_resize"], False)
            files = sorted(path for path in out.rglob("*") if path.is_file())
            digests.append([(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files])
        self.assertEqual(*digests)

    def test_what_has_no_task_is_unsupported_and_says_why(self) -> None:
        for cls, task, output, more, said in (
            ("BertForMaskedLM", "text-generation", "logits", {}, "has no task `text-generation`.*`feature-extraction`"),
            ("BertForMaskedLM", "feature-extraction", "logits", {}, "reads `last_hidden_state`, and the model gives"),
            ("BertForMaskedLM", "fill-mask", "logits", {"vocab_size": 5000}, "gives 5000 scores"),
        ):
            result, _ = self.of_text(cls, task, [output], **more)
            self.assertEqual(result["status"], "unsupported")
            self.assertRegex(result["reason"], said)


if __name__ == "__main__":
    unittest.main()
