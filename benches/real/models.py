"""Full-size architectures with seeded weights, as folders in `save_pretrained` layout.

Run by the Python of orch's torch environment: models.py NAME FOLDER
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SEED = 0


@dataclass(frozen=True)
class Model:
    """A class of transformers with the config of a checkpoint that people use."""

    cls: str
    config: dict[str, Any] = field(default_factory=dict)
    length: int = 16
    """Tokens of the inputs; of models of pictures and sounds, nothing."""
    takes: str = "input_ids"
    """The input beside the attention mask."""


_LLAMA = {"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32_000, "initializer_range": 0.02}
MODELS = {
    "distilbert": Model("DistilBertForMaskedLM"),
    "bert-base": Model("BertForMaskedLM"),
    "gpt2": Model("GPT2LMHeadModel"),
    "vit-base": Model("ViTForImageClassification", takes="pixel_values"),
    "wav2vec2-base": Model("Wav2Vec2ForCTC", takes="input_values"),
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
        length=64,
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
    return cls(cls.config_class(**model.config)).eval()


if __name__ == "__main__":
    name, folder = sys.argv[1:]
    Path(folder).mkdir(parents=True)
    made(name).save_pretrained(folder, max_shard_size="2GB")
