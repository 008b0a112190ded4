"""Full-size architectures with seeded weights, as folders in `save_pretrained` layout.

Run by the Python of orch's torch environment: models.py NAME FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SEED = 0


def _text(length: int) -> dict[str, tuple[int, ...]]:
    return {"input_ids": (1, length), "attention_mask": (1, length)}


@dataclass(frozen=True)
class Model:
    """A class of transformers with the config of a checkpoint that people use."""

    cls: str
    config: dict[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: _text(16))
    """The shape of each input, as in the row that `orch init` writes but for its `seq`."""
    outputs: tuple[str, ...] = ("logits",)
    """The outputs that are exported by hand; orch exports all."""
    processor: tuple[str, dict[str, Any]] | None = None
    """The class and the settings of the processor that lies beside the weights: of it `init` knows the shapes."""

    @property
    def length(self) -> int:
        """The tokens of the text, or 16 of a model without one."""
        return self.inputs.get("input_ids", (1, 16))[1]


_LLAMA = {"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32_000, "initializer_range": 0.02}
MODELS = {
    "distilbert": Model("DistilBertForMaskedLM"),
    "bert-base": Model("BertForMaskedLM"),
    "gpt2": Model("GPT2LMHeadModel"),
    "vit-base": Model("ViTForImageClassification", inputs={"pixel_values": (1, 3, 224, 224)}),
    "wav2vec2-base": Model("Wav2Vec2ForCTC", inputs={"input_values": (1, 16_000)}),
    "clip-vit-b-32": Model(
        "CLIPModel",
        inputs=_text(16) | {"pixel_values": (1, 3, 224, 224)},
        outputs=("logits_per_image", "logits_per_text", "text_embeds", "image_embeds"),
    ),
    "t5-small": Model(
        "T5ForConditionalGeneration",
        {"decoder_start_token_id": 0},
        inputs=_text(16) | {"decoder_input_ids": (1, 16)},
        outputs=("logits", "encoder_last_hidden_state"),
    ),
    "minilm": Model(
        "BertModel",
        {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
        outputs=("last_hidden_state", "pooler_output"),
    ),
    "detr-resnet-50": Model(
        "DetrForObjectDetection",
        inputs={"pixel_values": (1, 3, 800, 800)},
        outputs=("logits", "pred_boxes"),
        processor=("DetrImageProcessor", {}),
    ),
    "clap": Model(
        "ClapModel",
        inputs=_text(16) | {"input_features": (1, 1, 1001, 64)},
        outputs=("logits_per_audio", "logits_per_text", "text_embeds", "audio_embeds"),
        processor=("ClapFeatureExtractor", {"truncation": "rand_trunc"}),
    ),
    "whisper-small": Model(
        "WhisperForConditionalGeneration",
        {
            "vocab_size": 51_865,
            "d_model": 768,
            "encoder_layers": 12,
            "decoder_layers": 12,
            "encoder_attention_heads": 12,
            "decoder_attention_heads": 12,
            "encoder_ffn_dim": 3072,
            "decoder_ffn_dim": 3072,
        },
        # Without the mask, torch's exporter meets an operator that ONNX lacks; orch's row has none.
        inputs={"input_features": (1, 80, 3000), "decoder_input_ids": (1, 16), "decoder_attention_mask": (1, 16)},
        outputs=("logits", "encoder_last_hidden_state"),
        processor=("WhisperFeatureExtractor", {}),
    ),
    "xlm-roberta-large": Model(
        "XLMRobertaForMaskedLM",
        {
            "vocab_size": 250_002,
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "intermediate_size": 4096,
            "max_position_embeddings": 514,
            "type_vocab_size": 1,
        },
    ),
    "qwen2-0.5b": Model(
        "Qwen2ForCausalLM",
        {
            "vocab_size": 151_936,
            "hidden_size": 896,
            "intermediate_size": 4864,
            "num_hidden_layers": 24,
            "num_attention_heads": 14,
            "num_key_value_heads": 2,
            "tie_word_embeddings": True,
        },
        inputs=_text(64),
    ),
    "llama-3gib": Model(
        "LlamaForCausalLM", _LLAMA | {"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 14}
    ),
    "llama-7gib": Model(
        "LlamaForCausalLM", _LLAMA | {"hidden_size": 2560, "intermediate_size": 6912, "num_hidden_layers": 24}
    ),
}


def made(name: str) -> Any:
    """The model with seeded weights, in fp32."""
    import torch
    import transformers

    model = MODELS[name]
    torch.manual_seed(SEED)
    cls = getattr(transformers, model.cls)
    config = model.config
    if model.cls.startswith("Detr"):
        # Its own default backbone is fetched from the Hub.
        resnet = transformers.ResNetConfig(out_features=["stage4"])
        config = config | {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}
        config = config | {"backbone_config": resnet}
    return cls(cls.config_class(**config)).eval()


def save(name: str, folder: Path) -> None:
    """Writes the model, in shards of 2 GB, and its processor to a new folder."""
    import transformers

    folder.mkdir(parents=True)
    made(name).save_pretrained(folder, max_shard_size="2GB")
    if MODELS[name].processor is not None:
        cls, settings = MODELS[name].processor
        getattr(transformers, cls)(**settings).save_pretrained(folder)


if __name__ == "__main__":
    save(sys.argv[1], Path(sys.argv[2]))
