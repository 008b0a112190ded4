"""The ops that need torch, run for real on a small BERT. Skipped where torch is not installed."""

from __future__ import annotations

import hashlib
import importlib.util
import unittest
from pathlib import Path
from typing import Any

from tests.support import BERT, Worker

MODULES = ("torch", "transformers", "onnx", "onnxruntime", "safetensors")
# Sound to 4 rows of codes; seeded weights give it codebooks of random vectors.
DAC = {
    "encoder_hidden_size": 16,
    "downsampling_ratios": [2, 4, 4],
    "decoder_hidden_size": 64,
    "n_codebooks": 4,
    "codebook_size": 64,
    "codebook_dim": 8,
}

BACKBONE = {
    "embedding_size": 8,
    "hidden_sizes": [8, 8],
    "depths": [1, 1],
    "layer_type": "basic",
    "out_features": ["stage1", "stage2"],
}


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in MODULES), "torch is not installed")
class TorchOps(unittest.TestCase):
    worker: Worker

    @classmethod
    def setUpClass(cls) -> None:
        cls.worker = Worker.of_ops(cls, "materialise", "export_onnx", "export_torchscript")

    def ok(self, op: str, params: dict[str, Any], **inputs: Path) -> Path:
        output, out = self.worker.do(op, params, **inputs)
        self.assertEqual((output["status"], output["reason"]), ("ok", None))
        return out

    def test_half_precision_is_what_the_kernel_computes_in(self) -> None:
        import torch

        for precision in ("fp16", "bf16"):
            output, _ = self.worker.do("half", {"device": "cpu", "precision": precision})
            if output["status"] == "ok":
                self.assertRegex(output["facts"]["kernel"], "oneDNN's kernel .*(bf16|fp16|avx10|amx)")
                self.assertGreater(output["facts"]["max_abs"], 1e-4)
            else:
                self.assertEqual(output["status"], "unsupported")
                self.assertRegex(output["reason"], f"PyTorch.* {precision} kernel .*computes in fp32")
        has_bf16 = torch.cpu._is_avx512_bf16_supported()
        self.assertEqual(output["status"] == "ok", has_bf16 or torch.cpu._is_amx_tile_supported())

    def test_half_precision_elsewhere_is_refused_with_a_reason(self) -> None:
        import torch

        output, _ = self.worker.do("half", {"device": "cpu", "precision": "int8"})
        self.assertEqual((output["status"], "no half precision" in output["reason"]), ("error", True))
        if not torch.cuda.is_available():
            output, _ = self.worker.do("half", {"device": "cuda:0", "precision": "fp16"})
            self.assertEqual(output["status"], "unavailable")
            self.assertIn("sees no cuda:0", output["reason"])
            lease = {"id": "cuda:3", "env": {"CUDA_VISIBLE_DEVICES": "GPU-1"}}
            output, _ = self.worker.do("half", {"device": "cuda:3", "precision": "fp16", "lease": lease})
            self.assertIn("sees no cuda:0", output["reason"])

    def inputs(self) -> Path:
        import numpy as np

        from orch_py.worker import trees

        folder = self.worker.root / "inputs"
        folder.mkdir(exist_ok=True)
        ids, mask = np.arange(2, 10).reshape(1, 8), np.ones((1, 8), np.int64)
        trees.write_tensors(folder, trees.INPUTS, {"input_ids": ids, "attention_mask": mask})
        return folder

    def model(self, **more: Any) -> Path:
        params = {"class": "BertForMaskedLM", "config": BERT, "seed": 0, "outputs": ["logits"], **more}
        return self.ok("materialise", params, inputs=self.inputs())

    def test_tensors_of_a_tuple_are_outputs_by_their_place(self) -> None:
        import numpy as np

        from orch_py.worker import trees

        folder = self.worker.root / "pixels"
        folder.mkdir()
        for seed, name in enumerate((trees.INPUTS, trees.CONTROL_INPUTS)):
            pixels = np.random.default_rng(seed).standard_normal((1, 3, 32, 32)).astype(np.float32)
            trees.write_tensors(folder, name, {"pixel_values": pixels})
        params = {"class": "RTDetrResNetBackbone", "config": BACKBONE}
        output, _ = self.worker.do("materialise", params | {"outputs": ["feature_maps.2"]}, inputs=folder)
        known = "returns no tensor `feature_maps.2`; it returns `feature_maps.0`, `feature_maps.1`"
        self.assertIn(known, output["reason"] or "")
        model = self.ok("materialise", params, inputs=folder)
        self.assertEqual(trees.read_manifest(model)["outputs"], ["feature_maps.0", "feature_maps.1"])
        for route in ("legacy", "dynamo", "transformers"):
            self.ok("export_onnx", {"routes": [route]}, model=model)
        self.ok("export_torchscript", {}, model=model)

    def test_every_step_gives_the_same_bytes_twice(self) -> None:
        runs = []
        for _ in range(2):
            model = self.model()
            onnx = self.ok("export_onnx", {"routes": ["legacy"]}, model=model)
            script = self.ok("export_torchscript", {}, model=model)
            runs.append([digests(tree) for tree in (model, onnx, script)])
        self.assertEqual(*runs)
        self.assertEqual(set(runs[0][1]), {"inputs.safetensors", "manifest.json", "model.onnx"})

    def test_another_seed_gives_another_reference(self) -> None:
        first, second = (digests(self.model(seed=seed)) for seed in (0, 1))
        self.assertNotEqual(first["reference.safetensors"], second["reference.safetensors"])

    def test_no_tree_names_the_machine(self) -> None:
        model = self.model()
        for op, params in (("export_onnx", {"routes": ["dynamo"]}), ("export_torchscript", {})):
            for path in self.ok(op, params, model=model).iterdir():
                self.assertNotIn(str(Path(__file__).parents[2]).encode(), path.read_bytes(), path.name)
                self.assertNotIn(b"site-packages", path.read_bytes(), path.name)

    def test_an_export_that_misses_the_reference_is_not_published(self) -> None:
        from orch_py.worker import trees

        model = self.model()
        wrong = {name: value + 0.5 for name, value in trees.read_tensors(model, trees.REFERENCE).items()}
        trees.write_tensors(model, trees.REFERENCE, wrong)
        output, out = self.worker.do("export_onnx", {"routes": ["legacy", "dynamo"]}, model=model)
        self.assertEqual(output["status"], "numerics")
        self.assertRegex(output["reason"], "legacy: `logits` is off by 0.5, .*; dynamo: `logits` is off by")
        attempts = [(each["route"], each["allowed_stand_ins"], each["ok"]) for each in output["facts"]["attempts"]]
        self.assertEqual(attempts, [("legacy", "lacking", False), ("legacy", "all", False), ("dynamo", "none", False)])
        self.assertEqual(list(out.iterdir()), [])
        self.assertEqual(self.worker.do("export_torchscript", {}, model=model)[0]["status"], "numerics")

    def test_codes_that_rounding_moves_are_no_wrong_trace_if_the_task_calls_them_tokens(self) -> None:
        import numpy as np

        from orch_py.judge import judge
        from orch_py.worker import trees

        folder = self.worker.root / "sound"
        folder.mkdir()
        sound = np.random.default_rng(0).normal(size=(1, 1, 4000)).astype(np.float32)
        trees.write_tensors(folder, trees.INPUTS, {"input_values": sound})
        trees.write_tensors(folder, trees.CONTROL_INPUTS, {"input_values": sound[..., ::-1]})
        params = {"class": "DacModel", "config": DAC, "outputs": ["audio_codes"], "tokens": ["audio_codes"]}
        model = self.ok("materialise", params, inputs=folder)
        reference = trees.read_tensors(model, trees.REFERENCE)["audio_codes"]
        self.assertEqual((reference.dtype, reference.shape), (np.int64, (1, 4, 125)))
        output, _ = self.worker.do("export_torchscript", {"precision": "bf16"}, model=model)
        self.assertEqual(output["status"], "numerics", output["reason"])
        made = self.ok("export_torchscript", {"precision": "bf16", "tokens": ["audio_codes"]}, model=model)
        import torch

        with torch.no_grad():
            codes = torch.jit.load(str(made / "model.pt"))(torch.from_numpy(sound))[0].numpy()
        found = judge.tensor_verdict(codes, reference, judge.TOLERANCES["bf16"], True)
        self.assertTrue(0.5 < found["tokens"] < 1, found)
        swapped = judge.tensor_verdict(codes[:, [1, 0, 2, 3]], reference, judge.TOLERANCES["bf16"], True)
        self.assertLess(swapped["row_tokens"]["worst"], 0.2)
        self.assertRegex(swapped["wrong"], "of 500 tokens differ, the first at .*; the equal share is ")

    def test_outputs_that_are_not_finite_are_refused(self) -> None:
        params = {"class": "BertForMaskedLM", "config": BERT | {"initializer_range": 1e30}, "outputs": ["logits"]}
        output, _ = self.worker.do("materialise", params, inputs=self.inputs())
        self.assertEqual(output["status"], "indecisive")
        self.assertRegex(output["reason"], "output `logits` holds [0-9]+ NaN and [0-9]+ infinite values of 256")

    def test_what_is_misspelt_is_named(self) -> None:
        for change, said in (
            ({"class": "BertForMaskLM"}, "did you mean `BertForMaskedLM`"),
            ({"config": {"hiden_size": 8}}, "BertConfig knows no `hiden_size`.*did you mean `hidden_size`"),
            ({"outputs": ["logit"]}, "returns no tensor `logit`; it returns `logits`"),
            ({"weights": {"kind": "hub", "id": "a/b"}}, "need `id` and `revision`"),
            ({"weights": {"kind": "path", "path": "/no/such"}}, "`/no/such` does not exist"),
        ):
            params = {"class": "BertForMaskedLM", "config": BERT, **change}
            output, _ = self.worker.do("materialise", params, inputs=self.inputs())
            self.assertRegex(output["reason"] or "", said)

    def test_pickled_weights_are_refused(self) -> None:
        folder = self.worker.root / "pickled"
        folder.mkdir()
        (folder / "pytorch_model.bin").write_bytes(b"")
        params = {"class": "BertForMaskedLM", "weights": {"kind": "path", "path": str(folder)}}
        output, _ = self.worker.do("materialise", params, inputs=self.inputs())
        self.assertRegex(output["reason"], "only `pytorch_model.bin`; pickled weights can run code and are refused")


def digests(tree: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tree.iterdir()}


if __name__ == "__main__":
    unittest.main()
