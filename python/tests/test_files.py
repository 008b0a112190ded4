"""Rows with pictures and sounds: the processor that comes with the weights makes tensors of them.

Skipped where torch is not installed.
"""

from __future__ import annotations

import importlib.util
import json
import unittest
import wave
from pathlib import Path
from typing import Any

from tests.support import Worker

MODULES = ("torch", "transformers", "safetensors", "PIL", "torchvision")
VIT: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
VIT |= {"image_size": 8, "patch_size": 4, "initializer_range": 0.3}
WAV2VEC2: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
WAV2VEC2 |= {"intermediate_size": 32}
WAV2VEC2 |= {"vocab_size": 12, "conv_dim": [8, 8], "conv_stride": [4, 4], "conv_kernel": [8, 8]}
WAV2VEC2 |= {"num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2}
WAV2VEC2 |= {"initializer_range": 0.3}
PROCESSOR = {"image_processor_type": "ViTImageProcessor", "size": {"height": 8, "width": 8}}
EXTRACTOR = {
    "feature_extractor_type": "Wav2Vec2FeatureExtractor",
    "sampling_rate": 8000,
    "return_attention_mask": False,
}
PIXELS = {"dtype": "float32", "shape": [1, 3, 8, 8], "fill": {"picture": ["picture/0"]}}
SOUND = {"dtype": "float32", "shape": [1, 400], "fill": {"sound": ["sound/0"]}}


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in MODULES), "torch is not installed")
class Files(unittest.TestCase):
    worker: Worker

    @classmethod
    def setUpClass(cls) -> None:
        cls.worker = Worker.of_ops(cls, "materialise_own")

    def weights(self, cls: str, config: dict[str, Any], processor: dict[str, Any] | None) -> Path:
        """A folder of a model with a processor, as `save_pretrained` writes it."""
        import torch
        import transformers

        folder = self.worker.root / f"{cls}-{self.id()}"
        family = getattr(transformers, cls)
        torch.manual_seed(0)
        family(family.config_class(**config)).save_pretrained(folder)
        if processor is not None:
            (folder / "preprocessor_config.json").write_text(json.dumps(processor))
        return folder

    def picture(self, name: str, shift: int = 0) -> Path:
        import numpy as np
        from PIL import Image

        path = self.worker.root / f"{self.id()}-{name}"
        red, green = np.meshgrid(np.arange(20), np.arange(30))
        Image.fromarray(np.stack([red * 9, green * 7, red * 0 + shift], -1).astype(np.uint8)).save(path)
        return path

    def sound(self, name: str, count: int = 300, rate: int = 8000, channels: int = 1) -> Path:
        import numpy as np

        path = self.worker.root / f"{self.id()}-{name}"
        values = np.random.default_rng(1).normal(0, 3000, count * channels).astype("<i2")
        with wave.open(str(path), "wb") as file:
            file.setnchannels(channels)
            file.setsampwidth(2)
            file.setframerate(rate)
            file.writeframes(values.tobytes())
        return path

    def vit(self, inputs: dict[str, Any], processor: Any = PROCESSOR, **files: Path) -> Any:
        weights = {"kind": "path", "path": str(self.weights("ViTForImageClassification", VIT, processor))}
        params = {"class": "ViTForImageClassification", "weights": weights, "inputs": inputs, "outputs": ["logits"]}
        return self.worker.do("materialise_own", params, **files)

    def wav2vec2(self, inputs: dict[str, Any], extractor: Any = EXTRACTOR, **files: Path) -> Any:
        weights = {"kind": "path", "path": str(self.weights("Wav2Vec2ForCTC", WAV2VEC2, extractor))}
        params = {"class": "Wav2Vec2ForCTC", "weights": weights, "inputs": inputs, "outputs": ["logits"]}
        return self.worker.do("materialise_own", params, **files)

    def refused(self, done: Any, *told: str) -> None:
        output, _ = done
        self.assertEqual(output["status"], "error", output)
        for text in told:
            self.assertIn(text, output["reason"])

    def test_a_picture_is_what_the_pipeline_of_transformers_makes_of_it(self) -> None:
        import numpy as np
        import transformers
        from PIL import Image

        from orch_py.worker import trees

        path = self.picture("a.png")
        output, out = self.vit({"pixel_values": PIXELS}, **{"picture/0": path})
        self.assertEqual(output["status"], "ok", output["reason"])
        processor = transformers.ViTImageProcessor(size=PROCESSOR["size"])
        expected = np.asarray(processor(Image.open(path), return_tensors="np")["pixel_values"])
        tensors = [trees.read_tensors(out, name) for name in (trees.INPUTS, trees.CONTROL_INPUTS)]
        self.assertTrue(np.array_equal(tensors[0]["pixel_values"], expected))
        self.assertFalse(np.allclose(tensors[1]["pixel_values"], expected, atol=0.1), "the control is another picture")
        answers = [trees.read_tensors(out, name)["logits"] for name in (trees.REFERENCE, trees.CONTROL_REFERENCE)]
        self.assertGreater(np.abs(answers[0] - answers[1]).max(), 0.01 * np.abs(answers[0]).max())
        self.assertEqual(output["facts"]["processors"], {"image processor": "ViTImageProcessor"})
        self.assertIn("pillow", output["facts"]["versions"])

    def test_each_row_of_a_batch_is_a_picture(self) -> None:
        from orch_py.worker import trees

        fill = {"picture": ["picture/0", "picture/1", "picture/0"]}
        files = {"picture/0": self.picture("a.png"), "picture/1": self.picture("b.jpg", 200)}
        output, out = self.vit({"pixel_values": PIXELS | {"shape": [3, 3, 8, 8], "fill": fill}}, **files)
        self.assertEqual(output["status"], "ok", output["reason"])
        first, second, third = trees.read_tensors(out, trees.INPUTS)["pixel_values"]
        self.assertTrue((first == third).all() and (first != second).any())

    def test_a_picture_of_one_colour_has_a_control_too(self) -> None:
        import numpy as np
        import transformers
        from PIL import Image

        from orch_py.inputs import file_inputs
        from orch_py.worker import trees

        path = self.worker.root / f"{self.id()}.png"
        Image.new("RGB", (8, 8), (127, 128, 127)).save(path)
        output, out = self.vit({"pixel_values": PIXELS}, **{"picture/0": path})
        self.assertEqual(output["status"], "ok", output["reason"])
        pixels, other = (trees.read_tensors(out, name)["pixel_values"] for name in (trees.INPUTS, trees.CONTROL_INPUTS))
        self.assertGreater(np.abs(pixels - other).max(), 0.1)
        processor = transformers.ViTImageProcessor(size=PROCESSOR["size"])
        _, others = file_inputs.pictures({"pixel_values": PIXELS}, self.job({"picture/0": path}), processor, "own")
        self.assertEqual(len(others), 5, "upside down it is the same")

    def test_what_is_wrong_with_a_picture_is_told(self) -> None:
        def tried(inputs: dict[str, Any], path: Path, processor: dict[str, Any] | None = PROCESSOR) -> Any:
            return self.vit(inputs, processor, **{"picture/0": path})

        path = self.picture("a.png")
        self.refused(tried({"pixel_values": PIXELS}, path, None), "has no preprocessor_config.json", "image processor")
        self.refused(tried({"pixel_mask": PIXELS}, path), "makes no `pixel_mask`; it makes `pixel_values`")
        shape = {"pixel_values": PIXELS | {"shape": [1, 3, 9, 8]}}
        self.refused(tried(shape, path), "in the shape [1, 3, 8, 8]; the row has [1, 3, 9, 8]")
        whole = {"pixel_values": PIXELS | {"dtype": "int64"}}
        self.refused(tried(whole, path), "makes `pixel_values` of float32, which int64 cannot hold")
        broken = self.worker.root / "broken.png"
        broken.write_bytes(path.read_bytes()[:60])
        self.refused(tried({"pixel_values": PIXELS}, broken), "broken.png` cannot be read as a PNG or JPEG")
        self.refused(
            tried({"pixel_values": PIXELS}, path, {"image_processor_type": "None"}), "gives no image processor"
        )

    def test_a_sound_is_padded_and_its_padding_masked(self) -> None:
        import numpy as np

        from orch_py.worker import trees

        mask = SOUND | {"dtype": "int64"}
        path = self.sound("a.wav")
        output, out = self.wav2vec2({"input_values": SOUND, "attention_mask": mask}, **{"sound/0": path})
        self.assertEqual(output["status"], "ok", output["reason"])
        inputs, other = (trees.read_tensors(out, name) for name in (trees.INPUTS, trees.CONTROL_INPUTS))
        values = inputs["input_values"][0]
        self.assertEqual(inputs["attention_mask"].tolist(), [[1] * 300 + [0] * 100])
        self.assertEqual((values[300:] == 0).all(), True)
        self.assertAlmostEqual(float(values[:300].mean()), 0.0, 4)
        self.assertAlmostEqual(float(values[:300].std()), 1.0, 3)
        # The candidate that is tried first: the sound from behind.
        self.assertTrue(np.allclose(other["input_values"][0][:300], values[:300][::-1], atol=1e-5))
        self.assertEqual(output["facts"]["processors"], {"feature extractor": "Wav2Vec2FeatureExtractor"})

    def test_what_is_wrong_with_a_sound_is_told(self) -> None:
        def tried(path: Path, extractor: dict[str, Any] | None = EXTRACTOR) -> Any:
            return self.wav2vec2({"input_values": SOUND}, extractor, **{"sound/0": path})

        path = self.sound("a.wav")
        self.refused(tried(path, None), "has no preprocessor_config.json", "feature extractor")
        fast = self.sound("fast.wav", rate=44100)
        self.refused(tried(fast), "fast.wav` has 44100 samples a second", "takes 8000", "-ar 8000")
        self.refused(tried(self.sound("stereo.wav", channels=2)), "has 2 channels of 16 bits")
        self.refused(tried(self.sound("none.wav", count=0)), "holds no sound")
        broken = self.worker.root / "broken.wav"
        broken.write_bytes(b"OggS")
        self.refused(tried(broken), "broken.wav` cannot be read as a WAV of 16-bit PCM")

    def test_a_picture_beside_a_text_that_is_said_once(self) -> None:
        import numpy as np
        import transformers

        from orch_py.worker import trees

        small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
        text = small | {"vocab_size": 12, "max_position_embeddings": 8, "bos_token_id": 2, "eos_token_id": 3}
        config = {"text_config": text, "vision_config": small | {"image_size": 8, "patch_size": 4}}
        processor = {"image_processor_type": "CLIPImageProcessor", "do_center_crop": False, "size": PROCESSOR["size"]}
        folder = self.weights("CLIPModel", config, processor)
        (folder / "vocab.txt").write_text("\n".join("[PAD] [UNK] [CLS] [SEP] [MASK] a cat sat on mat dog".split()))
        transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
        ids = {"dtype": "int64", "shape": [1, 8], "fill": {"text": ["a cat sat"]}}
        params = {"class": "CLIPModel", "weights": {"kind": "path", "path": str(folder)}, "outputs": ["image_embeds"]}
        params["inputs"] = {"input_ids": ids, "pixel_values": PIXELS}
        output, out = self.worker.do("materialise_own", params, **{"picture/0": self.picture("a.png")})
        self.assertEqual(output["status"], "ok", output["reason"])
        inputs, other = (trees.read_tensors(out, name) for name in (trees.INPUTS, trees.CONTROL_INPUTS))
        self.assertEqual(set(inputs), {"input_ids", "attention_mask", "pixel_values"})
        for name in ("input_ids", "pixel_values"):
            self.assertFalse(np.array_equal(inputs[name], other[name]), name)

    def test_pictures_of_two_sizes_are_padded_and_their_padding_masked(self) -> None:
        import transformers
        from PIL import Image

        from orch_py.inputs import file_inputs

        files = {"picture/0": self.picture("high.png"), "picture/1": self.picture("wide.png")}
        with Image.open(files["picture/1"]) as picture:
            picture.rotate(90, expand=True).save(files["picture/1"])
        fill = {"picture": ["picture/0", "picture/1"]}
        recipes = {
            "pixel_values": {"dtype": "float32", "shape": [2, 3, 12, 12], "fill": fill},
            "pixel_mask": {"dtype": "bool", "shape": [2, 12, 12], "fill": fill},
        }
        processor = transformers.DetrImageProcessor(size={"shortest_edge": 8, "longest_edge": 12})
        inputs, others = file_inputs.pictures(recipes, self.job(files), processor, "detr")
        self.assertEqual(inputs["pixel_mask"].sum((1, 2)).tolist(), [96, 96])
        self.assertEqual(inputs["pixel_mask"].dtype, bool)
        self.assertTrue((others[0]["pixel_mask"] == inputs["pixel_mask"]).all(), "the control is padded alike")

    def test_features_are_those_that_the_extractor_makes(self) -> None:
        import transformers

        from orch_py.inputs import file_inputs

        job = self.job({"sound/0": self.sound("a.wav", 3000, 16000)})
        for name, shape, extractor in (
            ("input_features", [1, 80, 3000], transformers.WhisperFeatureExtractor()),
            ("input_values", [1, 1024, 128], transformers.ASTFeatureExtractor()),
            ("input_values", [1, 2000], transformers.Wav2Vec2FeatureExtractor()),
        ):
            recipes = {name: SOUND | {"shape": shape}}
            inputs, others = file_inputs.sounds(recipes, job, extractor, "own")
            self.assertEqual(inputs[name].shape, tuple(shape))
            self.assertEqual(len(others), 5, "each of them is another input")

    def job(self, files: dict[str, Path]) -> Any:
        from orch_py.worker.protocol import Job

        return Job({}, files, self.worker.root, print)
