"""Rows of folders as they are on the Hub. Skipped where torch is not installed."""

from __future__ import annotations

import importlib.util
import json
import tempfile
import unittest
from pathlib import Path
from typing import Any

MODULES = ("torch", "transformers", "safetensors", "yaml")


@unittest.skipUnless(all(importlib.util.find_spec(name) for name in MODULES), "torch is not installed")
class OwnRows(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def configured(self, **more: Any) -> None:
        path = self.folder / "config.json"
        path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | more))

    def row(self) -> dict[str, Any]:
        from orch_py.zoo import own

        return own.row(str(self.folder), "../model")

    def test_weights_of_another_head_are_named_from_the_headers(self) -> None:
        from transformers import BertConfig, BertForPreTraining

        small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
        BertForPreTraining(BertConfig(vocab_size=32, **small)).save_pretrained(self.folder)
        self.assertNotIn("unused_weights", self.row(), "of the class that wrote them")
        self.configured(architectures=["BertForMaskedLM"])
        names = [
            f"{name}.{kind}" for name in ("bert.pooler.dense", "cls.seq_relationship") for kind in ("bias", "weight")
        ]
        self.assertEqual(self.row()["unused_weights"], names)

    def test_weights_for_training_that_lack_are_named(self) -> None:
        from safetensors.numpy import load_file, save_file
        from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

        small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
        Wav2Vec2ForCTC(Wav2Vec2Config(vocab_size=32, **small)).save_pretrained(self.folder)
        self.assertNotIn("missing_weights", self.row())
        path = self.folder / "model.safetensors"
        tensors = load_file(path)
        del tensors["wav2vec2.masked_spec_embed"]
        save_file(tensors, path, metadata={"format": "pt"})
        self.assertEqual(self.row()["missing_weights"], ["wav2vec2.masked_spec_embed"])

    def test_many_unused_weights_are_globs(self) -> None:
        from orch_py.zoo import headers

        left = [f"head.layers.{layer}.{kind}" for layer in range(4) for kind in ("bias", "weight")]
        self.assertEqual(headers._globs([*left, "body.extra"], {"body.used"}), ["head.*", "body.extra"])

    def test_speech_has_the_shape_that_its_extractor_makes(self) -> None:
        from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

        small = {f"{side}_{what}": size for side in ("encoder", "decoder") for what, size in SIDES.items()}
        tokens = {"pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 4}
        config = WhisperConfig(vocab_size=64, d_model=16, max_target_positions=32, **small, **tokens)
        WhisperForConditionalGeneration(config).save_pretrained(self.folder)
        WhisperFeatureExtractor().save_pretrained(self.folder)
        row = self.row()
        self.assertEqual(row["inputs"]["input_features"]["shape"], ["batch", 80, 3000])
        self.assertEqual(row["task"], "automatic-speech-recognition")

    def test_a_language_model_generates_after_the_turn_of_a_user(self) -> None:
        from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

        from orch_py.zoo import own

        small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
        LlamaForCausalLM(LlamaConfig(vocab_size=64, **small)).save_pretrained(self.folder)
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=words_after("<s>"), bos_token="<s>", eos_token="</s>")
        tokenizer.save_pretrained(self.folder)
        row = self.row()
        self.assertEqual((row["inputs"]["input_ids"]["text"], row["generate"]), ([own.SENTENCE], 16))
        tokenizer.chat_template = "<s> user {{ messages[0]['content'] }} assistant"
        tokenizer.save_pretrained(self.folder)
        row = self.row()
        self.assertEqual(row["inputs"]["input_ids"]["text"], [f" user {own.SENTENCE} assistant"], "one first token")
        self.assertEqual(row["dims"]["seq"], len(tokenizer(f"user {own.SENTENCE} assistant")["input_ids"]) + 15)

    def test_what_is_no_model_in_fp32_is_refused_by_its_name(self) -> None:
        from orch_py.protocol import Refused

        self.configured(model_type="bert", architectures=["BertModel"])
        with self.assertRaisesRegex(Refused, "holds no weights at all"):
            self.row()
        (self.folder / "pytorch_model.bin").touch()
        with self.assertRaisesRegex(Refused, "holds only `pytorch_model.bin`; pickled weights can run code"):
            self.row()
        (self.folder / "onnx").mkdir()
        (self.folder / "onnx/model.onnx").touch()
        with self.assertRaisesRegex(Refused, "but the ONNX files `onnx/model.onnx`: give one of them"):
            self.row()
        self.configured(quantization_config={"quant_method": "gptq"})
        with self.assertRaisesRegex(Refused, "quantised by `gptq`"):
            self.row()
        self.configured(model_type="own", quantization_config=None, auto_map={"AutoModel": "own.Model"})
        with self.assertRaisesRegex(Refused, "trust_remote_code: true"):
            self.row()
        (self.folder / "adapter_config.json").write_text('{"base_model_name_or_path": "me/base"}')
        with self.assertRaisesRegex(Refused, "an adapter of `me/base`"):
            self.row()


def words_after(first: str) -> Any:
    """A tokenizer of whole words, which begins each text with a token of its own."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = "<s> </s> [UNK] user assistant The quick brown fox jumps over the lazy dog .".split()
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(single=f"{first} $A", special_tokens=[(first, 0)])
    return made


SIDES = {"layers": 1, "attention_heads": 2, "ffn_dim": 16}

if __name__ == "__main__":
    unittest.main()
