"""What `materialise` writes beside the reference to show what it is worth. Skipped where torch is not installed."""

from __future__ import annotations

import importlib.util
import unittest
from pathlib import Path
from typing import Any

from tests.support import BERT, Worker

MODULES = ("torch", "transformers", "safetensors")
BERT_MODEL: dict[str, Any] = {
    "class": "BertForMaskedLM",
    "config": BERT | {"num_hidden_layers": 2},
    "outputs": ["logits"],
}
VIT = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "image_size": 32}
VIT_MAE = {**VIT, "decoder_num_attention_heads": 2, "decoder_hidden_size": 16, "decoder_num_hidden_layers": 1}
STAGES = {"embedding_size": 16, "hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1], "layer_type": "basic"}
RT_DETR = {
    "backbone_config": {"model_type": "rt_detr_resnet", **STAGES, "out_features": ["stage2", "stage3", "stage4"]},
    "encoder_in_channels": [32, 48, 64],
    "d_model": 32,
    "encoder_hidden_dim": 32,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "num_queries": 10,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "decoder_in_channels": [32, 32, 32],
    "num_denoising": 0,
    "num_labels": 3,
}
AIMV2 = {
    "vocab_size": 32,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "eos_token_id": 2,
}


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in MODULES), "torch is not installed")
class Reference(unittest.TestCase):
    worker: Worker

    @classmethod
    def setUpClass(cls) -> None:
        cls.worker = Worker.of_ops(cls, "materialise")

    def tree(self, given: dict[str, Any], control: dict[str, Any] | None) -> Path:
        import numpy as np

        from orch_py.worker import trees

        folder = self.worker.root / f"inputs-{self.worker.jobs}"
        folder.mkdir()
        for name, tensors in ((trees.INPUTS, given), (trees.CONTROL_INPUTS, control)):
            if tensors is not None:
                trees.write_tensors(folder, name, {key: np.asarray(value) for key, value in tensors.items()})
        return folder

    def of_text(self, control: bool = True, ids: list[int] | None = None, **params: Any) -> tuple[dict[str, Any], Path]:
        given = {"input_ids": [[2, 6, 11, 8, 9, 13, 15, 3]], "attention_mask": [[1] * 8]}
        other = {"input_ids": [ids or [2, 5, 16, 7, 4, 14, 15, 3]], "attention_mask": [[1] * 8]}
        return self.worker.do("materialise", BERT_MODEL | params, inputs=self.tree(given, other if control else None))

    def of_image(self, cls: str, config: dict[str, Any], side: int) -> tuple[dict[str, Any], Path]:
        import numpy as np

        random = np.random.default_rng(1)
        given, other = ({"pixel_values": random.normal(size=(1, 3, side, side)).astype(np.float32)} for _ in range(2))
        return self.worker.do("materialise", {"class": cls, "config": config}, inputs=self.tree(given, other))

    def test_the_control_is_another_input_with_its_own_outputs(self) -> None:
        from orch_py.judge import judge
        from orch_py.worker import trees

        output, out = self.of_text()
        self.assertEqual((output["status"], output["reason"]), ("ok", None))
        inputs, control = trees.read_tensors(out, trees.INPUTS), trees.read_tensors(out, trees.CONTROL_INPUTS)
        self.assertEqual(sorted(inputs), sorted(control))
        self.assertEqual(control["input_ids"].tolist(), [[2, 5, 16, 7, 4, 14, 15, 3]])
        reference, other = trees.read_tensors(out, trees.REFERENCE), trees.read_tensors(out, trees.CONTROL_REFERENCE)
        status, _ = judge.decide(reference, reference, judge.TOLERANCES["int8"], other, other)
        self.assertEqual(status, "PASS")
        self.assertNotIn("no_control", trees.read_manifest(out))

    def test_the_control_s_mask_hides_the_last_third(self) -> None:
        from orch_py.worker import trees

        _, out = self.of_text()
        masks = [trees.read_tensors(out, name)["attention_mask"] for name in (trees.INPUTS, trees.CONTROL_INPUTS)]
        self.assertEqual([mask.tolist() for mask in masks], [[[1] * 8], [[1] * 6 + [0] * 2]])
        self.assertNotIn("control", trees.read_manifest(out))

    def test_an_input_and_a_row_that_change_nothing_are_named(self) -> None:
        from orch_py.worker import trees

        ids = [[2, 6, 11, 8, 9, 13, 15, 3], [2, 7, 12, 9, 10, 14, 16, 3]]
        given = {"input_ids": ids, "attention_mask": [[1] * 8] * 2}
        other = {"input_ids": [ids[1], ids[0]], "attention_mask": [[1] * 8] * 2}
        # Neither words nor masks reach a layer that is not there.
        alone = BERT_MODEL | {"config": BERT | {"num_hidden_layers": 0}}
        _, out = self.worker.do("materialise", alone, inputs=self.tree(given, other))
        found = trees.read_manifest(out)["control"]
        self.assertEqual(found, {"idle": ["attention_mask"], "idle_rows": []})

    def test_without_a_control_the_manifest_says_why(self) -> None:
        from orch_py.worker import trees

        output, out = self.of_text(control=False)
        self.assertEqual(output["status"], "ok")
        self.assertFalse((out / trees.CONTROL_INPUTS).exists() or (out / trees.CONTROL_REFERENCE).exists())
        self.assertRegex(trees.read_manifest(out)["no_control"], "recipes of the inputs")

    def test_a_control_that_the_model_does_not_take_is_none(self) -> None:
        from orch_py.worker import trees

        output, out = self.of_text(ids=[2, 31, 32, 3, 4, 5, 6, 7])
        self.assertEqual(output["status"], "ok")
        self.assertFalse((out / trees.CONTROL_INPUTS).exists())
        self.assertRegex(
            trees.read_manifest(out)["no_control"], "BertForMaskedLM takes the inputs, but not the control"
        )

    def test_a_control_of_nan_is_refused_as_the_reference_is(self) -> None:
        import numpy as np

        from orch_py.worker import trees

        # Tied, the weights of one word would be those of its score too.
        _, out = self.of_text(config=BERT_MODEL["config"] | {"tie_word_embeddings": False})
        weights = trees.read_tensors(out, "model.safetensors")
        name = "bert.embeddings.word_embeddings.weight"
        weights[name] = np.where(np.arange(32)[:, None] == 16, np.nan, weights[name]).astype(np.float32)
        trees.write_tensors(out, "model.safetensors", weights)
        output, _ = self.of_text(weights={"kind": "path", "path": str(out)}, config=None)
        self.assertEqual(output["status"], "indecisive")
        self.assertRegex(output["reason"], "output `logits` holds [0-9]+ NaN and 0 .* on the control's inputs: no run")

    def test_a_layer_that_does_nothing_changes_the_outputs_and_is_restored(self) -> None:
        from orch_py.judge import judge
        from orch_py.worker import trees

        output, out = self.of_text()
        dropped = trees.read_manifest(out)["dropped"]
        self.assertRegex(dropped, r"^bert\.encoder\.layer\.[01]$")
        self.assertEqual(output["facts"]["dropped"], dropped)
        reference, other = trees.read_tensors(out, trees.REFERENCE), trees.read_tensors(out, trees.DROPPED_REFERENCE)
        self.assertFalse(judge.verdict(other, reference, judge.TOLERANCES["int8"])["agrees"])
        # It was restored, or fp64 would not repeat the reference.
        self.assertEqual(output["facts"]["fp64"]["output"], "logits")
        self.assertLess(output["facts"]["fp64"]["max_abs"], 1e-5)

    def test_a_pass_is_long_by_parameters_times_tokens_or_frames(self) -> None:
        import torch

        from orch_py.generate import excerpt

        ids = {"input_ids": torch.zeros(1, 512, dtype=torch.int64)}
        whisper = {
            "decoder_input_ids": torch.zeros(1, 16, dtype=torch.int64),
            "input_features": torch.zeros(1, 80, 3000),
        }
        picture = {"pixel_values": torch.zeros(1, 3, 224, 224)}
        for parameters, inputs, is_long in [
            (500_000_000, ids, True),
            (10_000_000, ids, False),
            (240_000_000, whisper, True),
            (1_000_000, whisper, False),
            (240_000_000, picture, False),
        ]:
            self.assertEqual(excerpt.is_long(parameters, inputs), is_long, (parameters, list(inputs)))

    def test_of_a_long_pass_few_layers_are_tried(self) -> None:
        import torch
        import transformers

        from orch_py.generate import steady

        config = transformers.BertConfig(**BERT | {"num_hidden_layers": 6})
        model = transformers.BertModel(config).eval()
        ids = {"input_ids": torch.arange(8).reshape(1, 8)}
        with torch.no_grad():
            reference = {"last_hidden_state": model(**ids).last_hidden_state.numpy()}
        passes = []

        def run() -> dict[str, Any]:
            passes.append(1)
            with torch.no_grad():
                return {"last_hidden_state": model(**ids).last_hidden_state.numpy()}

        for few, tried in [(True, 3), (False, 6)]:
            passes.clear()
            dropped, _, _ = steady.least_layer(model, run, reference, few)
            self.assertEqual((len(passes), dropped is None), (tried, False))

    def test_a_model_without_a_list_of_layers_has_none_to_drop(self) -> None:
        output, out = self.of_text(config=BERT | {"num_hidden_layers": 0})
        self.assertEqual((output["status"], output["reason"]), ("ok", None))
        self.assertRegex(output["facts"]["dropped"], "no list of layers")
        self.assertFalse((out / "dropped-reference.safetensors").exists())

    def test_ties_that_rounding_decides_are_told_with_their_output(self) -> None:
        output, _ = self.of_image("RTDetrForObjectDetection", RT_DETR, 64)
        self.assertEqual(output["status"], "indecisive")
        said = r"output `\w+` differs by [0-9.]+ .* between fp32 and fp64: values jump, likely by ties in `topk`"
        self.assertRegex(output["reason"], said)

    def test_a_signal_that_vanishes_is_told(self) -> None:
        output, _ = self.of_image("MobileViTModel", {"image_size": 64}, 64)
        self.assertEqual(output["status"], "indecisive")
        said = "between fp32 and fp64: it vanishes below what fp32 holds in full; a larger `initializer_range` keeps it"
        self.assertIn(said, output["reason"])

    def test_a_forward_that_draws_random_numbers_is_told(self) -> None:
        output, _ = self.of_image("ViTMAEModel", VIT_MAE, 32)
        self.assertEqual(output["status"], "indecisive")
        said = r"output `\w+` differs by .* between two forward passes on the same inputs: .* random numbers \(`rand`\)"
        self.assertRegex(output["reason"], said)

    def test_the_reference_is_what_the_library_gives_by_default(self) -> None:
        import torch
        import transformers

        from orch_py.worker import trees

        given = {"input_ids": [[2, 6, 11, 8, 9, 13, 15, 3]], "attention_mask": [[1] * 8]}
        tree = self.tree(given, None)
        output, out = self.worker.do("materialise", {"class": "Aimv2TextModel", "config": AIMV2}, inputs=tree)
        self.assertEqual((output["status"], output["facts"]["attention"]), ("ok", "sdpa"))
        reference = torch.from_numpy(trees.read_tensors(out, trees.REFERENCE)["last_hidden_state"])
        tensors = {name: torch.tensor(value) for name, value in given.items()}
        off = {}
        for told in ({}, {"attn_implementation": "eager"}):
            model = transformers.Aimv2TextModel.from_pretrained(out, **told).eval()
            with torch.no_grad():
                made = model(**tensors).last_hidden_state
            off[bool(told)] = float((made - reference).abs().max())
        self.assertLess(off[False], 1e-5)
        self.assertGreater(off[True], 0.1)


if __name__ == "__main__":
    unittest.main()
