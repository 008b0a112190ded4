"""Generated tests of models with weights of their own: files come in by the model's own processors, and what comes out
is told in its own words. Skipped where torch is not installed.
"""

from __future__ import annotations

import importlib.util
import json
import runpy
import sys
import unittest
import wave
from pathlib import Path
from typing import Any
from unittest import mock

from tests.generated import rendered
from tests.support import BERT, Worker
from tests.test_files import EXTRACTOR, PROCESSOR, VIT, WAV2VEC2
from tests.test_text import WORDS

MODULES = ("torch", "transformers", "safetensors", "jinja2", "PIL", "torchvision")
PIXELS = {"name": "pixel_values", "dtype": "float32", "shape": [1, 3, 8, 8]}
SOUND = {"name": "input_values", "dtype": "float32", "shape": [1, 400]}
TEXT = [{"name": name, "dtype": "int64", "shape": [1, 6]} for name in ("input_ids", "attention_mask")]
LABELS: dict[str, Any] = {"id2label": {0: "tabby", 1: "raccoon", 2: "fox"}}


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in MODULES), "torch is not installed")
class OwnFiles(unittest.TestCase):
    worker: Worker

    @classmethod
    def setUpClass(cls) -> None:
        cls.worker = Worker.of_ops(cls, "materialise_own")

    def model(self, cls: str, config: dict[str, Any], inputs: list[dict[str, Any]], *reads: Any) -> Path:
        """The tree of a model whose weights come from a folder, with inputs that are noise."""
        import numpy as np
        import torch
        import transformers

        from orch_py.worker import trees

        self.worker.jobs += 1
        folder, given = (self.worker.root / f"{what}-{self.worker.jobs}" for what in ("weights", "noise"))
        torch.manual_seed(0)
        family = getattr(transformers, cls)
        family(family.config_class(**config)).save_pretrained(folder)
        for one in reads:
            one(folder)
        given.mkdir()
        draw = np.random.default_rng(0)
        for name in (trees.INPUTS, trees.CONTROL_INPUTS):
            noise = {
                each["name"]: np.ones(each["shape"], np.int64)
                if each["name"].endswith("mask")
                else draw.integers(5, 11, each["shape"])
                if each["dtype"] == "int64"
                else draw.normal(0, 1, each["shape"]).astype(np.float32)
                for each in inputs
            }
            trees.write_tensors(given, name, noise)
        params = {"class": cls, "weights": {"kind": "path", "path": str(folder)}, "outputs": ["logits"]}
        output, tree = self.worker.do("materialise_own", params, inputs=given)
        self.assertEqual(output["status"], "ok", output["reason"])
        return tree

    def told(self, model: Path, *argv: str, **given: Any) -> dict[str, Any]:
        """The document of the generated test."""
        self.worker.jobs += 1
        path = self.worker.root / f"test_own_{self.worker.jobs}.py"
        path.write_text(rendered("eager", own_weights=True, **given), "utf-8")
        result = path.with_suffix(".json")
        command = [str(path), "--model", str(model), "--json", str(result), "--samples", "0", *argv]
        with mock.patch.object(sys, "argv", command), self.assertRaises(SystemExit):
            runpy.run_path(str(path), run_name="__main__")
        document: dict[str, Any] = json.loads(result.read_text("utf-8"))
        return document

    def picture(self) -> Path:
        import numpy as np
        from PIL import Image

        path = self.worker.root / f"{self.id()}.png"
        Image.fromarray(np.random.default_rng(3).integers(0, 256, (30, 20, 3)).astype(np.uint8)).save(path)
        return path

    def test_a_picture_comes_in_by_the_model_s_own_processor_and_its_classes_have_names(self) -> None:
        import numpy as np
        import transformers
        from PIL import Image

        from orch_py.worker import trees

        def read(folder: Path) -> None:
            (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR | {"image_mean": [0.1, 0.2, 0.9]}))

        model = self.model("ViTForImageClassification", VIT | LABELS, [PIXELS], read)
        given = {"class": "ViTForImageClassification", "inputs": [PIXELS], "template": "vision", "pipeline": "vision"}
        given |= {"task": "image-classification"}
        document = self.told(model, "--inputs", str(self.picture()), "--save", str(self.worker.root / "saved"), **given)
        self.assertEqual(document["status"], "ok", document["reason"])
        self.assertEqual(document["facts"]["given"], [f"pixel_values by ViTImageProcessor of {self.picture().name}"])
        processor = transformers.ViTImageProcessor(size=PROCESSOR["size"], image_mean=[0.1, 0.2, 0.9])
        pixels = processor(Image.open(self.picture()), return_tensors="pt")["pixel_values"]
        logits = transformers.ViTForImageClassification.from_pretrained(model)(pixels).logits.detach().numpy()
        saved = trees.read_tensors(self.worker.root / "saved", "outputs.safetensors")
        np.testing.assert_allclose(saved["logits"], logits, atol=1e-5)
        named = [line.split()[0] for line in document["facts"]["words"]]
        self.assertEqual(named, [["tabby", "raccoon", "fox"][at] for at in np.argsort(-logits[0])])

        # The example runs as ever, and pictures as tensors are scaled by nobody else.
        self.assertEqual(self.told(model, **given)["status"], "ok")
        trees.write_tensors(self.worker.root, "bytes.safetensors", {"pixel_values": np.zeros((30, 20, 3), np.uint8)})
        document = self.told(model, "--inputs", str(self.worker.root / "bytes.safetensors"), **given)
        self.assertEqual(document["status"], "error")
        self.assertIn("the model's own processor", document["reason"])
        (model / "preprocessor_config.json").unlink()
        document = self.told(model, "--inputs", str(self.picture()), **given)
        self.assertEqual(document["status"], "error")
        self.assertIn("has no preprocessor_config.json", document["reason"])

    def tokenizer(self, folder: Path) -> None:
        import transformers

        (folder / "vocab.txt").write_text("\n".join(WORDS))
        transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)

    def test_text_comes_in_by_the_tokenizer_and_goes_out_by_it(self) -> None:
        lines = self.worker.root / "lines.txt"
        lines.write_text("A cat [MASK]\n")
        model = self.model("BertForMaskedLM", BERT | {"num_hidden_layers": 2, "vocab_size": 11}, TEXT, self.tokenizer)
        given: dict[str, Any] = {"class": "BertForMaskedLM", "inputs": TEXT}
        document = self.told(model, "--inputs", str(lines), **given)
        self.assertEqual(document["status"], "ok", document["reason"])
        self.assertEqual(document["facts"]["given"], ["attention_mask, input_ids by BertTokenizer of lines.txt"])
        (line,) = document["facts"]["words"]
        self.assertTrue(line.startswith("token 3 of 'a cat': "), line)
        self.assertTrue(all(word.strip(" ',") in [*WORDS, ""] or "0." in word for word in line[20:].split()), line)

        # What is not the model's.
        document = self.told(model, "--inputs", str(self.picture()), **given)
        self.assertEqual(document["status"], "error", document)

    def test_each_token_has_a_label_and_a_score_and_padding_none(self) -> None:
        config = BERT | LABELS | {"num_hidden_layers": 2, "vocab_size": 11}
        model = self.model("BertForTokenClassification", config, TEXT, self.tokenizer)
        lines = self.worker.root / "tokens.txt"
        lines.write_text("a dog\n")
        given = {"class": "BertForTokenClassification", "inputs": TEXT, "task": "token-classification"}
        document = self.told(model, "--inputs", str(lines), **given)
        self.assertEqual(document["status"], "ok", document["reason"])
        words = document["facts"]["words"]
        self.assertEqual([line.split(":")[0] for line in words], ["[CLS]", "a", "dog", "[SEP]"])
        labels = [LABELS["id2label"][at] for at in document["facts"]["result"]["classes"][:4]]
        self.assertEqual([line.split()[1] for line in words], labels)

        bare = self.told(self.model("BertForTokenClassification", config, TEXT), **given)["facts"]["words"]
        self.assertRegex(bare[0], r"^\[\d+\]: (tabby|raccoon|fox) 0")
        self.assertIn("has no tokenizer_config.json", bare[-1])

    def test_what_is_heard_is_told_as_text(self) -> None:
        import numpy as np

        def read(folder: Path) -> None:
            letters = {name: at for at, name in enumerate(["<pad>", "<s>", "</s>", "<unk>", "|", *"ABCDEFG"])}
            (folder / "vocab.json").write_text(json.dumps(letters))
            (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "Wav2Vec2CTCTokenizer"}))
            (folder / "preprocessor_config.json").write_text(json.dumps(EXTRACTOR))

        path = self.worker.root / "word.wav"
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(np.random.default_rng(1).normal(0, 3000, 300).astype("<i2").tobytes())
        model = self.model("Wav2Vec2ForCTC", WAV2VEC2, [SOUND], read)
        given = {"class": "Wav2Vec2ForCTC", "inputs": [SOUND], "template": "audio", "pipeline": "audio"}
        document = self.told(model, "--inputs", str(path), task="automatic-speech-recognition", **given)
        self.assertEqual(document["status"], "ok", document["reason"])
        self.assertEqual(document["facts"]["given"], ["input_values by Wav2Vec2FeatureExtractor of word.wav"])
        (heard,) = document["facts"]["words"]
        self.assertRegex(heard, "^'[A-G ]*'$")

    def test_without_transformers_it_is_said_and_nothing_stands_in(self) -> None:
        from orch_py.inputs import own_files

        (self.worker.root / "config.json").write_text(json.dumps({"id2label": {"1": "raccoon"}}))
        (self.worker.root / "tokenizer_config.json").write_text("{}")
        words = own_files.Words(self.worker.root, False)
        with mock.patch.dict(sys.modules, {"transformers": None}):
            self.assertEqual((words.label(1), words.label(7), words.text([5, 6])), ("raccoon", "class 7", "[5, 6]"))
            self.assertIn("tokens are told as numbers: ", words.lacks or "")
            (self.worker.root / "preprocessor_config.json").write_text("{}")
            with self.assertRaisesRegex(own_files.Unavailable, "pip install transformers"):
                own_files.given_inputs([self.picture()], {}, self.worker.root, False)

    def test_a_first_row_says_how_noise_becomes_pictures_where_a_processor_is_there(self) -> None:
        from orch_py.zoo import files, own

        recipe = {"dtype": "float32", "shape": ["batch", 3, 8, 8], "normal": [0, 1]}
        text = files.row_text("vit", {"class": "ViTModel", "inputs": {"pixel_values": recipe, "pixel_mask": recipe}})
        folder = self.worker.root / "hinted"
        folder.mkdir()
        self.assertEqual(own.hinted(text, folder), text)
        (folder / "preprocessor_config.json").write_text("{}")
        lines = own.hinted(text, folder).splitlines()
        (at,) = (place for place, line in enumerate(lines) if "#" in line)
        self.assertTrue(lines[at - 1].startswith("      pixel_values: {"), lines)
        self.assertIn("`picture: [own.png]`", lines[at])
        self.assertEqual("\n".join(lines[:at] + lines[at + 1 :]) + "\n", text)
