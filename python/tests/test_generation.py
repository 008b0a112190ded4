"""Generated tokens against PyTorch's greedy decoding: the rule by its table, and models that are wrong. The latter are
skipped where torch is not installed."""

from __future__ import annotations

import importlib.util
import json
import runpy
import shutil
import sys
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from tests.generated import rendered
from tests.support import BERT, Worker

MODULES = ("torch", "transformers", "safetensors", "jinja2")
TABLE = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "judge" / "generation.json"
INPUTS = [{"name": name, "dtype": "int64", "shape": [1, 8]} for name in ("input_ids", "attention_mask")]
OPT = {
    "vocab_size": 32,
    "hidden_size": 16,
    "word_embed_proj_dim": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "ffn_dim": 32,
    "max_position_embeddings": 16,
    "init_std": 0.4,
}
BART = {
    "vocab_size": 32,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 16,
    "init_std": 0.4,
}
# What the generated test of it has besides.
OF_BART = {
    "class": "BartForConditionalGeneration",
    "task": "text2text-generation",
    "inputs": [*INPUTS, {"name": "decoder_input_ids", "dtype": "int64", "shape": [1, 5]}],
}


@unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
class Table(unittest.TestCase):
    def test_it_gives_the_verdicts_of_the_table(self) -> None:
        import numpy as np

        from orch_py.generate import greedy
        from orch_py.judge import judge

        table = json.loads(TABLE.read_text("utf-8"))
        for case in table["cases"]:
            told = table["reference"] | case.get("reference", {})
            reference = {name: np.array(value) for name, value in told.items()}
            tokens, cached = np.array(case["tokens"]), case.get("cached", False)
            found = greedy.generation_verdict(tokens, reference, judge.TOLERANCES["fp32"], cached)
            for name, expected in case["gives"].items():
                with self.subTest(case["name"], figure=name):
                    if name in ("tie", "step"):
                        self.assertEqual(found["first"][name], expected)
                    else:
                        is_text = name in ("wrong", "undecided")
                        self.assertEqual(found[name] is not None if is_text else found[name], expected)


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in MODULES), "torch is not installed")
class Generation(unittest.TestCase):
    worker: Worker
    model: Path
    exported: Path
    inputs: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.worker = Worker.of_ops(cls, "materialise", "export_onnx")
        cls.inputs = cls.worker.root / "example-inputs"
        cls.inputs.mkdir()
        output, cls.model = cls.made()
        assert output["status"] == "ok", output["reason"]

    @classmethod
    def made(cls, **other: Any) -> tuple[dict[str, Any], Path]:
        """A model that generates six tokens after three."""
        import numpy as np

        from orch_py.worker import trees

        for name, first in ((trees.INPUTS, 4), (trees.CONTROL_INPUTS, 9)):
            ids = np.arange(first, first + 8).reshape(1, 8)
            trees.write_tensors(cls.inputs, name, {"input_ids": ids, "attention_mask": np.ones((1, 8), np.int64)})
        params = {"class": "OPTForCausalLM", "config": OPT, "seed": 0, "outputs": ["logits"], "generate": 6}
        return cls.worker.do("materialise", params | other, inputs=cls.inputs)

    def run_test(self, model: Path, *argv: str, hardware: str = "eager", **more: Any) -> tuple[int, dict[str, Any]]:
        self.worker.jobs += 1
        path = self.worker.root / f"test_tiny_{self.worker.jobs}.py"
        given = {"class": "OPTForCausalLM", "task": "text-generation", "inputs": INPUTS, "generates": True}
        path.write_text(rendered(hardware, **given | more), "utf-8")
        result = path.with_suffix(".json")
        told = [str(path), "--model", str(model), "--json", str(result), *argv]
        with mock.patch.object(sys, "argv", told), self.assertRaises(SystemExit) as ended:
            runpy.run_path(str(path), run_name="__main__")
        return int(ended.exception.code or 0), json.loads(result.read_text("utf-8"))

    def with_weights(self, change: Any) -> Path:
        """The tree with other weights beside the references of its own."""
        from safetensors.numpy import load_file, save_file

        self.worker.jobs += 1
        tree = self.worker.root / f"other-{self.worker.jobs}"
        shutil.copytree(self.model, tree)
        save_file(change(load_file(tree / "model.safetensors")), tree / "model.safetensors", {"format": "pt"})
        return tree

    def wrong(self, tree: Path, *argv: str, hardware: str = "eager", **more: Any) -> None:
        _, document = self.run_test(tree, *argv, hardware=hardware, **more)
        found = document["facts"]["generation"]
        self.assertEqual(document["status"], "numerics")
        self.assertIn("where the reference has", found["wrong"])
        self.assertLess(found["agreed"], found["asked"])
        self.assertFalse(found["first"]["tie"])

    def test_all_tokens_are_the_reference_s_and_saved(self) -> None:
        from orch_py.worker import trees

        saved = self.worker.root / "saved"
        code, document = self.run_test(self.model, "--save", str(saved))
        self.assertEqual((code, document["status"], document["reason"]), (0, "ok", None))
        found = document["facts"]["generation"]
        self.assertEqual((found["asked"], found["agreed"], found["first"]), (6, 6, None))
        reference = trees.read_tensors(self.model, "generation.safetensors")
        self.assertEqual(
            trees.read_tensors(saved, "generated.safetensors")["tokens"].tolist(), reference["tokens"].tolist()
        )
        asked = json.loads((self.model / "manifest.json").read_text("utf-8"))["generation"]
        self.assertEqual((asked["input"], asked["mask"], asked["tokens"]), ("input_ids", "attention_mask", 6))
        self.assertTrue(asked["by"].startswith("generate() of transformers "), asked["by"])
        self.assertEqual(json.loads((saved / "generated.json").read_text("utf-8")), {"cached": True})
        times = document["measure"]["decoding"]
        self.assertEqual((times["rows"], times["prompt"]), (1, 3))
        self.assertEqual((len(times["first_token_ms"]), len(times["next_token_ms"])), (2, 10))

    def test_a_model_without_its_last_layer_is_wrong(self) -> None:
        self.wrong(
            self.with_weights(lambda all: {name: value * (".layers.1." not in name) for name, value in all.items()})
        )

    def test_a_model_of_another_seed_is_wrong(self) -> None:
        from safetensors.numpy import load_file

        output, other = self.made(seed=1)
        self.assertEqual(output["status"], "ok", output["reason"])
        self.wrong(self.with_weights(lambda _: load_file(other / "model.safetensors")))

    def test_the_onnx_decoder_has_a_cache_and_gives_the_reference_s_tokens(self) -> None:
        code, document = self.run_test(self.model, "--artefact", str(self.onnx()), hardware="ort")
        self.assertEqual((code, document["status"], document["reason"]), (0, "ok", None))
        self.assertEqual(document["facts"]["decoded"], {"cached": True})
        self.assertEqual(document["facts"]["generation"]["agreed"], 6)
        self.assertEqual(len(document["measure"]["decoding"]["next_token_ms"]), 10)
        _, document = self.run_test(self.model, "--artefact", str(self.onnx()), "--samples", "0", hardware="ort")
        self.assertNotIn("decoding", document["measure"])

    def test_a_decoder_whose_cache_is_wrong_is_wrong(self) -> None:
        from tests.wrong_decoders import CHANGES

        for name, change in CHANGES.items():
            with self.subTest(name):
                self.wrong(self.model, "--artefact", str(self.with_decoder(change)), hardware="ort")

    def test_another_prompt_is_wrong(self) -> None:
        from orch_py.worker import trees

        tree = self.with_decoder(None)
        shutil.copyfile(tree / trees.CONTROL_INPUTS, tree / trees.INPUTS)
        self.wrong(self.model, "--artefact", str(tree), hardware="ort")

    def test_without_a_decoder_it_decodes_without_a_cache_and_says_so(self) -> None:
        tree = self.with_decoder(None)
        manifest = json.loads((tree / "manifest.json").read_text("utf-8"))
        (tree / "manifest.json").write_text(json.dumps(manifest | {"decoder": {"why_not": "no export"}}), "utf-8")
        _, document = self.run_test(self.model, "--artefact", str(tree), hardware="ort")
        self.assertEqual(document["status"], "ok", document["reason"])
        self.assertEqual(document["facts"]["decoded"], {"cached": False, "why": "no export"})
        self.assertEqual(document["facts"]["generation"]["agreed"], 6)
        self.assertNotIn("decoding", document["measure"])

    def test_what_keeps_no_keys_and_values_says_so(self) -> None:
        config = {"vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 2, "state_size": 4, "intermediate_size": 32}
        output, tree = self.made(**{"class": "MambaForCausalLM", "config": config})
        self.assertEqual(output["status"], "ok", output["reason"])
        told = json.loads((tree / "manifest.json").read_text("utf-8"))["generation"]
        self.assertNotIn("cache", told)
        self.assertEqual(told["no_cache"], "MambaForCausalLM keeps no keys and values of every layer")

    def test_encoder_decoders_have_a_cache_and_an_encoder_beside_it(self) -> None:
        from tests.wrong_decoders import CHANGES_OF_ENCODER_DECODERS as CHANGES

        model, exported = self.encoder_decoder()
        told = json.loads((exported / "decoder" / "manifest.json").read_text("utf-8"))
        self.assertIn({"input": "attention_mask", "shape": [1, 8]}, told["constants"])
        for hardware, artefact in (("ort", exported), ("eager", None)):
            with self.subTest(hardware):
                given = ["--artefact", str(artefact)] if artefact else []
                code, document = self.run_test(model, *given, hardware=hardware, **OF_BART)
                self.assertEqual((code, document["status"], document["reason"]), (0, "ok", None))
                self.assertEqual(document["facts"]["decoded"], {"cached": True})
                self.assertEqual(document["facts"]["generation"]["agreed"], 4)
        for name, change in CHANGES.items():
            with self.subTest(name):
                self.worker.jobs += 1
                tree = self.worker.root / f"onnx-{self.worker.jobs}"
                shutil.copytree(exported, tree)
                change(tree / "decoder" / "model.onnx")
                self.wrong(model, "--artefact", str(tree), hardware="ort", **OF_BART)

    def encoder_decoder(self) -> tuple[Path, Path]:
        """A model whose decoder generates four tokens after two, and its artefact."""
        import numpy as np

        from orch_py.worker import trees

        inputs = self.worker.root / "source-inputs"
        inputs.mkdir()
        for name, first in ((trees.INPUTS, 4), (trees.CONTROL_INPUTS, 9)):
            ids = np.arange(first, first + 8).reshape(1, 8)
            mask = (np.arange(8) < 6).astype(np.int64).reshape(1, 8)
            given = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": ids[:, 1:6].copy()}
            trees.write_tensors(inputs, name, given)
        params = {"class": OF_BART["class"], "config": BART, "seed": 0, "outputs": ["logits"], "generate": 4}
        output, model = self.worker.do("materialise", params, inputs=inputs)
        self.assertEqual(output["status"], "ok", output["reason"])
        output, exported = self.worker.do("export_onnx", {"routes": ["legacy"], "opset": 17}, model=model)
        self.assertEqual(output["status"], "ok", output["reason"])
        return model, exported

    def onnx(self) -> Path:
        """The artefact, exported once."""
        if not hasattr(type(self), "exported"):
            output, tree = self.worker.do("export_onnx", {"routes": ["legacy"], "opset": 17}, model=self.model)
            assert output["status"] == "ok", output["reason"]
            type(self).exported = tree
        return type(self).exported

    def with_decoder(self, change: Any) -> Path:
        """A copy of the artefact, its decoder changed."""
        self.worker.jobs += 1
        tree = self.worker.root / f"onnx-{self.worker.jobs}"
        shutil.copytree(self.onnx(), tree)
        if change:
            change(tree / "decoder" / "model.onnx")
        return tree

    def test_scores_of_the_last_positions_are_enough_for_all_tokens(self) -> None:
        from orch_py.worker import trees

        whole = trees.read_tensors(self.model, trees.REFERENCE)["logits"]
        output, model = self.made(positions=6)
        self.assertEqual(output["status"], "ok", output["reason"])
        last = trees.read_tensors(model, trees.REFERENCE)["logits"]
        self.assertEqual(last.shape, (1, 6, whole.shape[2]))
        self.assertLess(abs(last - whole[:, 2:]).max(), 1e-6)
        code, document = self.run_test(model, positions=6)
        self.assertEqual((code, document["status"], document["reason"]), (0, "ok", None))
        self.assertEqual(document["facts"]["generation"]["agreed"], 6)
        output, exported = self.worker.do("export_onnx", {"routes": ["legacy"], "opset": 17}, model=model)
        self.assertEqual(output["status"], "ok", output["reason"])
        told = json.loads((exported / "manifest.json").read_text("utf-8"))
        self.assertIn("folder", told["decoder"], told["decoder"])
        code, document = self.run_test(model, "--artefact", str(exported), hardware="ort", positions=6)
        self.assertEqual((code, document["status"], document["reason"]), (0, "ok", None))
        self.assertEqual(document["facts"]["generation"]["agreed"], 6)

    def test_a_model_that_looks_ahead_is_refused(self) -> None:
        output, _ = self.made(**{"class": "BertLMHeadModel", "config": BERT | {"num_hidden_layers": 2}})
        self.assertEqual(output["status"], "numerics")
        self.assertIn("BertLMHeadModel looks at later tokens", output["reason"])

    def test_what_cannot_be_generated_is_refused_with_its_reason(self) -> None:
        for other, why in (
            ({"generate": 9}, "needs `input_ids` at least 9 long, and it is 8"),
            ({"class": "OPTModel", "outputs": []}, "needs the output `logits`"),
            ({"positions": 5}, "after 3 tokens of 8 needs `positions: last 6` or more, and it is last 5"),
            ({"class": "OPTModel", "outputs": [], "positions": 8}, "the forward of OPTModel takes no `logits_to_keep`"),
        ):
            with self.subTest(why):
                output, _ = self.made(**other)
                self.assertEqual(output["status"], "error")
                self.assertIn(why, output["reason"])

    def test_other_inputs_generate_nothing(self) -> None:
        _, document = self.run_test(self.model, "--batch-size", "2")
        self.assertEqual((document["status"], document["facts"]["generated"]), ("ok", None))


if __name__ == "__main__":
    unittest.main()
