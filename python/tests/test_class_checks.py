"""What is refused before a model's weights exist. Skipped where torch is not installed."""

from __future__ import annotations

import importlib.util
import json
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from tests.support import Worker

MODULES = ("torch", "transformers", "safetensors")
BERT = {
    "vocab_size": 32,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 16,
}
LLAMA = BERT | {"num_key_value_heads": 2}
GPT2 = {"vocab_size": 32, "n_positions": 16, "n_embd": 16, "n_layer": 1, "n_head": 2, "bos_token_id": 1}
WAV2VEC2: dict[str, Any] = {"vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
WAV2VEC2 |= {"intermediate_size": 32, "conv_dim": [16, 16], "conv_kernel": [10, 3], "conv_stride": [5, 2]}
WAV2VEC2 |= {"num_feat_extract_layers": 2, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2}
SIGLIP = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}


def installed(*names: str) -> bool:
    return all(importlib.util.find_spec(name) for name in names)


@unittest.skipUnless(installed(*MODULES), "torch is not installed")
class RemoteCode(unittest.TestCase):
    def test_only_classes_that_choose_another_one_take_it(self) -> None:
        import transformers

        from orch_py.generate import torch_model

        self.assertTrue(torch_model.takes_remote_code(transformers.AutoModelForMaskedLM))
        self.assertFalse(torch_model.takes_remote_code(transformers.BertForMaskedLM))


@unittest.skipUnless(installed(*MODULES), "torch is not installed")
class ClassChecks(unittest.TestCase):
    worker: Worker

    @classmethod
    def setUpClass(cls) -> None:
        cls.worker = Worker.of_ops(cls, "materialise")

    def inputs(self, *names: str) -> Path:
        import numpy as np

        from orch_py.worker import trees

        folder = self.worker.root / "-".join(("inputs", *names))
        folder.mkdir(exist_ok=True)
        made = {name: np.arange(2, 10).reshape(1, 8) if name.endswith("ids") else np.ones((1, 8)) for name in names}
        trees.write_tensors(folder, trees.INPUTS, {name: value.astype(np.int64) for name, value in made.items()})
        return folder

    def saved(self, name: str, config: dict[str, Any], **told: Any) -> str:
        """A checkpoint of a class; `told` changes what its config.json says."""
        import transformers

        folder = self.worker.root / f"saved-{name}-{len(list(self.worker.root.iterdir()))}"
        cls = getattr(transformers, name)
        cls(cls.config_class(**config)).save_pretrained(folder)
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | told))
        return str(folder)

    def refused(self, said: str, params: dict[str, Any], *inputs: str, status: str = "error") -> None:
        given = self.inputs(*(inputs or ("input_ids", "attention_mask")))
        output, out = self.worker.do("materialise", params, inputs=given)
        self.assertEqual(output["status"], status, output["reason"])
        self.assertRegex(output["reason"], said)
        self.assertEqual(list(out.iterdir()), [], "nothing was built")

    def made(self, params: dict[str, Any], *inputs: str) -> Path:
        output, out = self.worker.do(
            "materialise", params, inputs=self.inputs(*(inputs or ("input_ids", "attention_mask")))
        )
        self.assertEqual((output["status"], output["reason"]), ("ok", None))
        return out

    def test_an_input_that_forward_would_swallow_is_named(self) -> None:
        for name, config in (("BertForMaskedLM", BERT), ("BertModel", BERT), ("LlamaForCausalLM", LLAMA)):
            params = {"class": name, "config": config}
            said = f"the forward of {name} takes no `attention_msk`; did you mean `attention_mask`"
            self.refused(said, params, "input_ids", "attention_msk")

    def test_an_input_of_a_model_inside_is_known(self) -> None:
        from orch_py.generate import forward_names

        cls, config = model("LlamaForSequenceClassification", LLAMA)
        known = forward_names.names(meta(cls, config))
        self.assertLessEqual({"input_ids", "position_ids", "cu_seq_lens_q"}, known)
        self.assertNotIn("hidden_states", known, "an argument that the code fills itself")

    def test_a_prefix_leads_to_the_model_inside(self) -> None:
        from orch_py.generate import forward_names

        given = {"encoder": {"model_type": "vit", **SIGLIP}, "decoder": {"model_type": "bert", **BERT}}
        known = forward_names.names(meta(*model("VisionEncoderDecoderModel", given)))
        self.assertLessEqual({"pixel_values", "decoder_token_type_ids", "interpolate_pos_encoding"}, known)
        self.assertNotIn("decoder_token_type_id", known)

    def test_keys_that_only_the_model_reads_are_taken(self) -> None:
        given = BERT | {
            "relative_attention": True,
            "position_buckets": 8,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "pos_att_type": ["p2c", "c2p"],
            "type_vocab_size": 0,
        }
        self.made({"class": "DebertaV2ForMaskedLM", "config": given})
        self.checked("DebertaV2Model", given)
        for key in ("position_bucket", "norm_rel_embd", "share_attn_key"):
            self.unknown("DebertaV2Model", BERT | {key: 8}, f"DebertaV2Config knows no `{key}`")

    def test_keys_of_a_part_that_the_whole_reads_are_taken(self) -> None:
        vision = {"model_type": "siglip_vision_model", **SIGLIP, "projection_dim": 16}
        text = {"model_type": "gemma", **LLAMA, "head_dim": 8}
        self.checked("PaliGemmaForConditionalGeneration", {"vision_config": vision, "text_config": text})
        for part in ("vision_config", "text_config"):
            given = {"vision_config": dict(vision), "text_config": dict(text)}
            given[part]["projection_dims"] = 16
            self.unknown("PaliGemmaForConditionalGeneration", given, f"knows no `projection_dims` .in `config.{part}`")
        # Read of the vision tower's config, and of no other.
        given = {"vision_config": vision, "text_config": text | {"projection_dim": 16}}
        self.unknown("PaliGemmaForConditionalGeneration", given, "GemmaConfig knows no `projection_dim`")

    def test_names_of_older_releases_and_common_ones_are_taken(self) -> None:
        self.checked("LlamaModel", LLAMA | {"rope_theta": 1e6, "torch_dtype": "float32", "num_labels": 3})
        self.checked("GPT2Model", GPT2 | {"hidden_size": 16, "tie_word_embeddings": True, "model_type": "gpt2"})

    def test_what_all_models_read_is_read_by_their_base(self) -> None:
        from orch_py.generate import config_keys

        found = {read.key for read in config_keys.reads("transformers.modeling_utils")}
        self.assertLessEqual(config_keys.OF_ALL, found)

    def test_what_a_config_drops_in_silence_is_refused(self) -> None:
        for change, said in (
            ({"temperature": 0.5}, "BertConfig drops `temperature` .*text generation"),
            ({"to_dict": 1}, "BertConfig knows no `to_dict`"),
            ({"rope_theta": 1e6}, "BertConfig knows no `rope_theta`"),
            ({"model_type": "gpt2"}, "`config.model_type` is `gpt2`, but BertConfig is of the type `bert`"),
        ):
            self.unknown("BertModel", BERT | change, said)

    def checked(self, name: str, given: dict[str, Any]) -> None:
        from orch_py.generate import torch_model

        torch_model.build_config(torch_model.model_class(name), given)

    def unknown(self, name: str, given: dict[str, Any], said: str) -> None:
        from orch_py.worker.protocol import Refused

        with self.assertRaisesRegex(Refused, said):
            self.checked(name, given)

    def test_a_checkpoint_of_another_type_is_refused(self) -> None:
        path = self.saved("GPT2LMHeadModel", GPT2)
        params = {"class": "GPTNeoXForCausalLM", "weights": {"kind": "path", "path": path}}
        said = "is a checkpoint of the type `gpt2`, but GPTNeoXForCausalLM is of `gpt_neox`; it was made by `GPT2LMHead"
        self.refused(said, params)

    def test_types_that_share_a_class_are_one(self) -> None:
        path = self.saved("GPT2LMHeadModel", GPT2, model_type="gpt-sw3")
        self.made({"class": "GPT2LMHeadModel", "weights": {"kind": "path", "path": path}})

    def test_a_part_is_loaded_from_the_whole(self) -> None:
        given = {"text_config": BERT, "vision_config": SIGLIP | {"image_size": 32, "patch_size": 16}}
        path = self.saved("CLIPModel", given)
        weights: dict[str, Any] = {"kind": "path", "path": path}
        self.refused("does not use: `logit_scale`", {"class": "CLIPTextModel", "weights": weights})
        weights["unused"] = ["vision_model.*", "*_projection.weight", "logit_scale"]
        self.made({"class": "CLIPTextModel", "weights": weights})

    def test_weights_that_are_left_over_or_lacking_are_named(self) -> None:
        path = self.saved("BertForPreTraining", BERT)
        weights: dict[str, Any] = {"kind": "path", "path": path}
        params = {"class": "BertForMaskedLM", "weights": weights}
        said = "has 4 weights that BertForMaskedLM does not use: `bert.pooler.dense.bias`.*`unused_weights`"
        self.refused(said, params)
        weights["unused"] = ["bert.pooler.*", "cls.seq_relationship.*"]
        self.made(params)
        weights["unused"] = [*weights["unused"], "cls.other.*"]
        self.refused("`unused_weights` has `cls.other.*`, but BertForMaskedLM leaves no such", params)
        # Seven are unused as well: what is lacking is told first.
        said = "lacks 2 weights of BertForQuestionAnswering: `qa_outputs.bias`, `qa_outputs.weight`"
        self.refused(said, {"class": "BertForQuestionAnswering", "weights": {"kind": "path", "path": path}})
        other = self.saved("BertForPreTraining", BERT, vocab_size=48)
        said = "has other shapes for [0-9]+ weights of BertForPreTraining: `bert.embeddings.word_embeddings.weight`"
        self.refused(said, {"class": "BertForPreTraining", "weights": {"kind": "path", "path": other}})

    def test_weights_that_no_output_depends_on_may_lack(self) -> None:
        folder = self.saved("BertForMaskedLM", BERT)
        self.without(folder, "bert.embeddings.token_type_embeddings.weight")
        weights: dict[str, Any] = {"kind": "path", "path": folder}
        params = {"class": "BertForMaskedLM", "weights": weights}
        self.refused("lacks 1 weights of .*token_type.*; if no output depends on them, name them in `missing", params)
        weights["missing"] = ["*.token_type_embeddings.weight"]
        output, _ = self.worker.do("materialise", params, inputs=self.inputs("input_ids", "attention_mask"))
        said = "`bert.embeddings.token_type_embeddings.weight`, which `missing_weights` names, but the outputs of "
        self.assertRegex(output["reason"], f"{said}BertForMaskedLM depend on it")
        weights["missing"] = ["*.token_type_embeddings.weight", "bert.other"]
        self.refused("`missing_weights` has `bert.other`, but the checkpoint lacks no such weight", params)

    def test_what_is_for_training_only_may_lack_and_is_zeros(self) -> None:
        import numpy as np
        from safetensors.numpy import load_file

        from orch_py.worker import trees

        name = "wav2vec2.masked_spec_embed"
        folder = self.saved("Wav2Vec2ForCTC", WAV2VEC2)
        self.without(folder, name)
        weights = {"kind": "path", "path": folder, "missing": [name]}
        samples = np.random.default_rng(0).standard_normal((1, 1600)).astype(np.float32)
        inputs = self.worker.root / "samples"
        inputs.mkdir()
        trees.write_tensors(inputs, trees.INPUTS, {"input_values": samples})
        output, tree = self.worker.do("materialise", {"class": "Wav2Vec2ForCTC", "weights": weights}, inputs=inputs)
        self.assertEqual((output["status"], output["reason"]), ("ok", None))
        self.assertFalse(load_file(tree / "model.safetensors")[name].any())

    def without(self, folder: str, name: str) -> None:
        from safetensors.numpy import load_file, save_file

        path = Path(folder) / "model.safetensors"
        tensors = load_file(path)
        del tensors[name]
        save_file(tensors, path, metadata={"format": "pt"})

    def test_a_model_larger_than_was_allowed_is_refused_with_both_figures(self) -> None:
        params = {"class": "BertForMaskedLM", "config": BERT, "max_parameters": 1000}
        self.refused("BertForMaskedLM has [0-9],[0-9]{3} parameters, .*`max_parameters` is 1,000", params)
        self.made(params | {"max_parameters": 1_000_000})

    def test_a_model_that_does_not_fit_the_machine_is_refused_with_both_figures(self) -> None:
        from orch_py.generate import class_checks
        from orch_py.worker.protocol import Refused

        cls, config = model("GPTNeoXForCausalLM", {})
        with mock.patch.object(class_checks, "whole_memory", return_value=16 * 2**30):
            said = "has 20,.* 76.. GiB in fp32; this machine has 16.0 GiB.* half: 2,147,483,648 parameters"
            with self.assertRaisesRegex(Refused, said) as caught:
                class_checks.before_weights(cls, config, {}, [])
            self.assertEqual(caught.exception.status, "oom")
            class_checks.before_weights(cls, config, {}, [], 10**12)
        with mock.patch.object(class_checks, "whole_memory", return_value=256 * 2**30):
            class_checks.before_weights(cls, config, {}, [])

    def test_memory_is_the_least_limit(self) -> None:
        from orch_py.worker.memory import whole_memory

        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            machine = whole_memory(root)
            group = root / "sys/fs/cgroup/a/b"
            group.mkdir(parents=True)
            (root / "proc/self").mkdir(parents=True)
            (root / "proc/self/cgroup").write_text("0::/a/b\n")
            (group / "memory.max").write_text("max\n")
            self.assertEqual(whole_memory(root), machine)
            (group.parent / "memory.max").write_text("3000000\n")
            self.assertEqual(whole_memory(root), 3_000_000)

    def test_an_output_that_is_not_returned_is_named_first(self) -> None:
        params = {"class": "BertForMaskedLM", "config": BERT, "outputs": ["logits", "pooler_output"]}
        self.refused("BertForMaskedLM returns no tensor `pooler_output`; it returns `logits`", params)

    def test_what_the_environment_lacks_is_named(self) -> None:
        for name, package in (("LayoutLMv2Model", "detectron2"), ("HiggsAudioV2TokenizerModel", "torchaudio")):
            if not installed(package):
                said = f"orch's environment `torch` lacks `{package}`, which {name} needs.*`--python`"
                self.refused(said, {"class": name, "config": {}}, status="unavailable")

    @unittest.skipUnless(installed("scipy"), "scipy is not installed")
    def test_classes_that_need_scipy_and_timm_are_built(self) -> None:
        from orch_py.generate import class_checks, torch_model

        for name in ("Mask2FormerModel", "MaskFormerModel", "DetrModel"):
            cls = torch_model.model_class(name)
            config = torch_model.build_config(cls, {})
            class_checks.before_weights(cls, config, {"pixel_values": None}, [])


def model(name: str, config: dict[str, Any]) -> tuple[Any, Any]:
    from orch_py.generate import torch_model

    cls = torch_model.model_class(name)
    return cls, torch_model.build_config(cls, config)


def meta(cls: Any, config: Any) -> Any:
    import torch

    with torch.device("meta"):
        return cls._from_config(config)


if __name__ == "__main__":
    unittest.main()
