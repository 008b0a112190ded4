"""Exports are right on the inputs that they were made with and on others, or they are not published. Skipped where
torch is not installed."""

from __future__ import annotations

import importlib.util
import unittest
from pathlib import Path
from typing import Any

from tests.support import Worker

MODULES = ("torch", "transformers", "onnx", "onnxruntime", "safetensors")
SWITCH = {
    "vocab_size": 32,
    "d_model": 64,
    "d_kv": 16,
    "d_ff": 32,
    "num_layers": 2,
    "num_sparse_encoder_layers": 2,
    "num_decoder_layers": 2,
    "num_sparse_decoder_layers": 2,
    "num_heads": 4,
    "num_experts": 4,
}
MIXTRAL = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 32,
    "initializer_range": 0.2,
}
AIMV2 = {
    "vocab_size": 32,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "eos_token_id": 2,
}

DBRX = {
    "vocab_size": 32,
    "d_model": 16,
    "n_heads": 2,
    "n_layers": 1,
    "max_seq_len": 32,
    "attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 10000.0},
    "ffn_config": {"ffn_hidden_size": 32, "hidden_size": 16, "moe_num_experts": 8, "moe_top_k": 2},
    "initializer_range": 0.2,
}
BIT = {"depths": [1, 1], "hidden_sizes": [8, 16], "embedding_size": 8, "num_groups": 4, "out_features": ["stage2"]}
SUPERPOINT = {"encoder_hidden_sizes": [8, 8, 8, 8], "decoder_hidden_size": 8, "initializer_range": 0.3}


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in MODULES), "torch is not installed")
class Exports(unittest.TestCase):
    worker: Worker

    @classmethod
    def setUpClass(cls) -> None:
        cls.worker = Worker.of_ops(cls, "materialise", "export_onnx", "export_torchscript")

    def model(self, cls: str, config: dict[str, Any], *names: str, **constant: int) -> Path:
        import numpy as np

        from orch_py.worker import trees

        folder = self.worker.root / f"inputs-{self.worker.jobs}"
        folder.mkdir()
        for seed, name in enumerate((trees.INPUTS, trees.CONTROL_INPUTS)):
            random = np.random.default_rng(seed)
            tensors = {each: random.integers(3, 32, (1, 8)) for each in names}
            tensors |= {each: np.full((1, 8), value) for each, value in constant.items()}
            trees.write_tensors(folder, name, tensors)
        output, out = self.worker.do("materialise", {"class": cls, "config": config}, inputs=folder)
        self.assertEqual((output["status"], output["reason"]), ("ok", None))
        return out

    def of_pixels(self, cls: str, config: dict[str, Any], size: int, *outputs: str) -> Path:
        import numpy as np

        from orch_py.worker import trees

        folder = self.worker.root / f"pixels-{self.worker.jobs}"
        folder.mkdir()
        for seed, name in enumerate((trees.INPUTS, trees.CONTROL_INPUTS)):
            pixels = np.random.default_rng(seed).standard_normal((1, 3, size, size)).astype(np.float32)
            trees.write_tensors(folder, name, {"pixel_values": pixels})
        params = {"class": cls, "config": config} | ({"outputs": list(outputs)} if outputs else {})
        output, out = self.worker.do("materialise", params, inputs=folder)
        self.assertEqual((output["status"], output["reason"]), ("ok", None))
        return out

    def test_a_trace_that_bakes_the_router_s_choice_in_is_not_published(self) -> None:
        from unittest import mock

        from orch_py.generate import torch_model
        from orch_py.ops import export_onnx, export_torchscript
        from orch_py.worker.protocol import Job, Refused

        model = self.model("MixtralModel", MIXTRAL | {"num_local_experts": 16}, "input_ids")
        baked = "right on the inputs it was traced with, wrong on others: the trace baked a choice in"
        eager = [{"attn_implementation": "eager", "experts_implementation": "eager"}]
        for op in (export_onnx, export_torchscript):
            out = self.worker.root / op.__name__
            out.mkdir()
            job = Job(params={"routes": ["legacy"]}, inputs={"model": model}, out=out, progress=print)
            with mock.patch.object(torch_model, "for_export", return_value=eager):
                with self.assertRaisesRegex(Refused, baked) as caught:
                    op.run(job)
            self.assertEqual(caught.exception.status, "numerics")
            if op is export_onnx:
                computed = [each for each in caught.exception.facts["attempts"] if each["max_abs"] is not None]
                attempt = computed[0]
                self.assertEqual((attempt["ok"], attempt["max_abs"] < 1e-4), (False, True))
                self.assertEqual(list(out.iterdir()), [])

    def test_experts_that_are_modules_of_their_own_all_compute(self) -> None:
        model = self.model("SwitchTransformersModel", SWITCH, "input_ids", "decoder_input_ids")
        for op, params in (("export_onnx", {"routes": ["legacy"]}), ("export_torchscript", {})):
            output, _ = self.worker.do(op, params, model=model)
            self.assertEqual((output["status"], output["reason"]), ("ok", None))
        model = self.model("DbrxModel", DBRX, "input_ids")
        output, _ = self.worker.do("export_onnx", {"routes": ["legacy"]}, model=model)
        self.assertEqual((output["status"], output["reason"]), ("ok", None))

    def test_a_file_that_onnx_runtime_spoils_as_it_optimises_is_published(self) -> None:
        """Which of both is wrong is told by its cell and by the other runtimes'."""
        model = self.of_pixels("BitModel", BIT, 32)
        output, _ = self.worker.do("export_onnx", {"routes": ["legacy"]}, model=model)
        self.assertEqual((output["status"], output["reason"]), ("ok", None))
        self.assertRegex(output["facts"]["optimised_wrong"], "`last_hidden_state` is off by .* times the bound")

    def test_experts_that_are_looked_up_are_right_on_any_input(self) -> None:
        from orch_py.worker import trees

        model = self.model("MixtralModel", MIXTRAL, "input_ids")
        for op, params in (("export_onnx", {"routes": ["legacy"]}), ("export_torchscript", {})):
            output, out = self.worker.do(op, params, model=model)
            self.assertEqual((output["status"], output["reason"]), ("ok", None))
            told = output["facts"]["attempts"][-1] if op == "export_onnx" else output["facts"]
            self.assertLess(told["control_max_abs"], 1e-4)
            control = trees.read_tensors(out, trees.CONTROL_INPUTS)
            self.assertEqual(
                control["input_ids"].tolist(), trees.read_tensors(model, trees.CONTROL_INPUTS)["input_ids"].tolist()
            )

    def test_an_output_of_as_many_values_as_are_found_is_exported_last(self) -> None:
        from orch_py.worker import trees

        model = self.of_pixels("SuperPointForKeypointDetection", SUPERPOINT, 16, "keypoints", "scores")
        files = (trees.REFERENCE, trees.CONTROL_REFERENCE)
        found, others = (trees.read_tensors(model, file)["scores"].shape for file in files)
        self.assertNotEqual(found, others)
        output, out = self.worker.do("export_onnx", {"routes": ["dynamo"]}, model=model)
        self.assertEqual((output["status"], output["reason"]), ("ok", None))
        first, last = output["facts"]["attempts"]
        self.assertRegex(first["error"], "`keypoints` has the shape .*: sizes that are not fixed")
        self.assertEqual((first["ok"], last["ok"]), (False, True))
        self.assertEqual(trees.read_manifest(out)["open_sizes"], ["keypoints", "scores"])

    def test_an_export_that_differs_by_eager_attention_says_so(self) -> None:
        # It is about the mask of ones that the two kinds of attention disagree.
        model = self.model("Aimv2TextModel", AIMV2, "input_ids", attention_mask=1)
        output, _ = self.worker.do("export_onnx", {"routes": ["legacy"]}, model=model)
        said = r"eager attention, which the export needs, differs from transformers' default \(sdpa\) by [0-9.]+ of"
        if output["status"] == "ok":
            # The default could be exported too, and agrees.
            attempts = output["facts"]["attempts"]
            self.assertEqual([attempt["attention"] for attempt in attempts], ["eager", "default"])
        else:
            self.assertEqual(output["status"], "numerics")
            self.assertRegex(output["reason"], said)
        output, _ = self.worker.do("export_torchscript", {}, model=model)
        self.assertEqual(output["status"], "numerics")
        self.assertRegex(output["reason"], said)

    def test_a_stripped_torchscript_file_keeps_the_meaning_of_its_operators(self) -> None:
        import torch

        from orch_py.export import torchscript_file

        class Gelu(torch.nn.Module):
            def forward(self, value: torch.Tensor) -> torch.Tensor:
                # Files of an older version know no `approximate`.
                return torch.nn.functional.gelu(value, approximate="tanh")

        value, (raw, file) = torch.linspace(-2, 2, 5), (self.worker.root / name for name in ("raw.pt", "stripped.pt"))
        torch.jit.save(torch.jit.trace(Gelu(), value), str(raw))
        torchscript_file.strip(raw, file)
        self.assertTrue(torch.equal(torch.jit.load(str(file))(value), Gelu()(value)))

    def test_inputs_that_become_other_constants_cannot_be_right_for_both(self) -> None:
        from unittest import mock

        import torch

        from orch_py.generate import torch_model

        def prepared(_: Any, inputs: Any) -> Any:
            return {"pixels": inputs["pixels"]}, {"sizes": [int(size) for size in inputs["grid"]]}

        given = {"pixels": torch.ones(2), "grid": torch.tensor([4, 4])}
        with mock.patch.object(torch_model, "prepared", prepared):
            traced = torch_model.traceable(torch.nn.Identity(), given, given, lambda tensors, fixed: "graph")
            self.assertEqual((traced.made, list(traced.control or {})), ("graph", ["pixels"]))
            other = given | {"grid": torch.tensor([2, 8])}
            with self.assertRaisesRegex(torch_model.OneInputOnly, "`sizes` become constants of the graph"):
                torch_model.traceable(torch.nn.Identity(), given, other, lambda tensors, fixed: "graph")
            other = given | {"pixels": torch.ones(3)}
            with self.assertRaisesRegex(torch_model.OneInputOnly, r"`pixels` is torch.float32\[2\] here and .*\[3\]"):
                torch_model.traceable(torch.nn.Identity(), given, other, lambda tensors, fixed: "graph")


if __name__ == "__main__":
    unittest.main()
