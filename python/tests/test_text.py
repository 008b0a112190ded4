"""A row that says its text once: mask and type ids are filled by the tokenizer, as far as the class takes them.

Skipped where torch is not installed.
"""

from __future__ import annotations

import importlib.util
import unittest
from pathlib import Path
from typing import Any

from tests.support import BERT, Worker

MODULES = ("torch", "transformers", "safetensors", "tokenizers")
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat", "sat", "on", "mat", "dog"]
TEXT = {"dtype": "int64", "shape": [1, 8], "fill": {"text": ["a cat sat"]}}
DISTILBERT = {"vocab_size": 32, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32, "max_position_embeddings": 16}
OPT = {
    "vocab_size": 11,
    "hidden_size": 16,
    "word_embed_proj_dim": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "ffn_dim": 32,
    "max_position_embeddings": 32,
    "init_std": 0.4,
}


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in MODULES), "torch is not installed")
class Folders(unittest.TestCase):
    worker: Worker

    @classmethod
    def setUpClass(cls) -> None:
        cls.worker = Worker.of_ops(cls, "materialise_own")

    def weights(self, cls: str, config: dict[str, Any]) -> Path:
        """A folder of a model with a tokenizer, as `save_pretrained` writes it."""
        import transformers

        folder = self.worker.root / cls
        family = getattr(transformers, cls)
        family(family.config_class(**config)).save_pretrained(folder)
        (folder / "vocab.txt").write_text("\n".join(WORDS))
        transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
        return folder


class Text(Folders):
    def made(self, cls: str, config: dict[str, Any], given: Path | None = None, **more: Any) -> dict[str, Any]:
        from orch_py.worker import trees

        params = {
            "class": cls,
            "weights": {"kind": "path", "path": str(self.weights(cls, config))},
            "inputs": {"input_ids": TEXT},
            "outputs": ["logits"],
        }
        output, out = self.worker.do("materialise_own", params | more, **({"inputs": given} if given else {}))
        self.assertEqual(output["status"], "ok", output["reason"])
        self.assertEqual(set(trees.read_manifest(out)["inputs"]), set(trees.read_tensors(out, trees.INPUTS)))
        return trees.read_tensors(out, trees.INPUTS)

    def test_padding_is_masked_and_type_ids_are_there(self) -> None:
        inputs = self.made("BertForMaskedLM", BERT | {"num_hidden_layers": 2})
        self.assertEqual(inputs["input_ids"].tolist(), [[2, 5, 6, 7, 3, 0, 0, 0]])
        self.assertEqual(inputs["attention_mask"].tolist(), [[1, 1, 1, 1, 1, 0, 0, 0]])
        self.assertEqual(inputs["token_type_ids"].tolist(), [[0] * 8])

    def test_what_the_class_does_not_take_is_left_out(self) -> None:
        inputs = self.made("DistilBertForMaskedLM", DISTILBERT)
        self.assertEqual(set(inputs), {"input_ids", "attention_mask"})

    def test_what_the_row_gives_otherwise_is_the_row_s(self) -> None:
        import numpy as np

        from orch_py.worker import trees

        given = self.worker.root / "given"
        given.mkdir()
        ones = {"token_type_ids": np.ones((1, 8), np.int64)}
        trees.write_tensors(given, trees.INPUTS, ones)
        inputs = self.made("BertForMaskedLM", BERT | {"num_hidden_layers": 2}, given)
        self.assertEqual(inputs["token_type_ids"].tolist(), [[1] * 8])
        self.assertEqual(inputs["attention_mask"].tolist(), [[1, 1, 1, 1, 1, 0, 0, 0]])

    def test_the_control_is_other_words_where_their_order_changes_nothing(self) -> None:
        import numpy as np

        from orch_py.worker import trees

        folder = self.weights("BertForSequenceClassification", BERT | {"num_hidden_layers": 2})
        tensors = trees.read_tensors(folder, "model.safetensors")
        tensors["bert.embeddings.position_embeddings.weight"][:] = 0
        trees.write_tensors(folder, "model.safetensors", tensors)
        params = {
            "class": "BertForSequenceClassification",
            "weights": {"kind": "path", "path": str(folder)},
            "inputs": {"input_ids": TEXT},
            "outputs": ["logits"],
        }
        output, out = self.worker.do("materialise_own", params)
        self.assertEqual(output["status"], "ok", output["reason"])
        ids, other = (trees.read_tensors(out, name)["input_ids"] for name in (trees.INPUTS, trees.CONTROL_INPUTS))
        self.assertNotEqual(sorted(other[0]), sorted(ids[0]))
        self.assertEqual(other[0, [0, 4, 5, 6, 7]].tolist(), ids[0, [0, 4, 5, 6, 7]].tolist(), "no words")
        answers = [trees.read_tensors(out, name)["logits"] for name in (trees.REFERENCE, trees.CONTROL_REFERENCE)]
        self.assertGreater(np.abs(answers[0] - answers[1]).max(), 0.01 * np.abs(answers[0]).max())


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in MODULES), "torch is not installed")
class Prompts(Folders):
    """Texts of unlike lengths in one batch, by a tokenizer that pads before the text."""

    TEXTS = ("a cat sat on mat", "a dog", "a cat sat")

    def weights(self, cls: str, config: dict[str, Any]) -> Path:
        import json

        folder = super().weights(cls, config)
        path = folder / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"padding_side": "left"}), "utf-8")
        return folder

    def generated(self, length: int) -> tuple[dict[str, Any], Path]:
        recipe = {"dtype": "int64", "shape": [3, length], "fill": {"text": list(self.TEXTS)}}
        params = {
            "class": "OPTForCausalLM",
            "weights": {"kind": "path", "path": str(self.weights("OPTForCausalLM", OPT))},
            "inputs": {"input_ids": recipe},
            "outputs": ["logits"],
            "generate": 4,
        }
        return self.worker.do("materialise_own", params)

    def test_each_text_goes_on_behind_its_last_word(self) -> None:
        import torch
        import transformers

        from orch_py.worker import trees

        output, tree = self.generated(10)
        self.assertEqual(output["status"], "ok", output["reason"])
        self.assertEqual(trees.read_manifest(tree)["generation"]["prompts"], [7, 4, 5])
        model = transformers.OPTForCausalLM.from_pretrained(tree)
        tokenizer = transformers.AutoTokenizer.from_pretrained(tree)
        reference = trees.read_tensors(tree, "generation.safetensors")["tokens"]
        for row, text in enumerate(self.TEXTS):
            prompt = torch.tensor([tokenizer(text)["input_ids"]])
            alone = model.generate(
                input_ids=prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=4,
                do_sample=False,
                eos_token_id=None,
                pad_token_id=0,
            )
            self.assertEqual(reference[row].tolist(), alone[0, prompt.shape[1] :].tolist(), text)

    def test_a_text_that_leaves_no_room_is_refused(self) -> None:
        output, _ = self.generated(9)
        self.assertEqual(output["status"], "error")
        self.assertIn("text 1 of `input_ids` has 7 tokens, which needs a length of 10", output["reason"])
