"""Rows of folders as they are on the Hub. Skipped where torch is not installed."""

from __future__ import annotations

import contextlib
import importlib.util
import io
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

    def test_a_checkpoint_without_a_head_is_of_the_model_below_it(self) -> None:
        from transformers import MPNetConfig, MPNetModel

        from orch_py.worker.protocol import Refused

        small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
        MPNetModel(MPNetConfig(vocab_size=32, **small)).save_pretrained(self.folder)
        self.configured(architectures=["MPNetForMaskedLM"])
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            row = self.row()
        self.assertEqual((row["class"], row["task"]), ("MPNetModel", "feature-extraction"))
        # What orch shows are lines with this beginning.
        self.assertIn("note: `config.json` names MPNetForMaskedLM, and the weights have nothing", said.getvalue())
        self.assertNotIn("missing_weights", row)
        self.configured(num_hidden_layers=2)
        with self.assertRaisesRegex(Refused, "do not fill MPNetForMaskedLM.*: 22 lack, such as `"):
            self.row()

    def test_a_head_that_makes_the_decoder_s_ids_takes_none(self) -> None:
        from transformers import BartConfig, BartForConditionalGeneration, BartForSequenceClassification

        sizes = {f"{side}_{what}": size for side in ("encoder", "decoder") for what, size in SIDES.items()}
        config = BartConfig(vocab_size=64, d_model=16, max_position_embeddings=32, **sizes)
        BartForSequenceClassification(config).save_pretrained(self.folder)
        self.assertEqual(list(self.row()["inputs"]), ["input_ids", "attention_mask"])
        BartForConditionalGeneration(config).save_pretrained(self.folder)
        row = self.row()
        self.assertEqual((row["task"], row["generate"]), ("text2text-generation", 16))
        ids = row["inputs"]["decoder_input_ids"]["data"]
        self.assertEqual((ids[0], len(ids)), (config.decoder_start_token_id, 16))

    def test_a_prompt_has_no_more_tokens_than_the_model_has_positions(self) -> None:
        from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

        small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
        BertForMaskedLM(BertConfig(vocab_size=64, max_position_embeddings=5, **small)).save_pretrained(self.folder)
        PreTrainedTokenizerFast(tokenizer_object=words_after("<s>")).save_pretrained(self.folder)
        row = self.row()
        self.assertEqual((row["inputs"]["input_ids"]["text"], row["dims"]["seq"]), (["The quick brown fox"], 5))

    def test_checkpoints_of_timm_are_rows_of_the_class_around_them(self) -> None:
        import timm
        from safetensors.torch import save_file

        model = timm.create_model("mobilenetv3_small_050", pretrained=False)
        save_file(model.state_dict(), self.folder / "model.safetensors", {"format": "pt"})
        cut = {"tag": "own", "input_size": [3, 96, 64]}
        self.configured(architecture="mobilenetv3_small_050", num_classes=1000, pretrained_cfg=cut)
        row = self.row()
        self.assertEqual((row["class"], row["task"]), ("TimmWrapperForImageClassification", "image-classification"))
        self.assertEqual(row["inputs"]["pixel_values"]["shape"], ["batch", 3, 96, 64])

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
        from orch_py.worker.protocol import Refused

        (self.folder / "model_index.json").touch()
        with self.assertRaisesRegex(Refused, "a pipeline of several models"):
            self.row()
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
