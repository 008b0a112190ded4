"""Folders laid out as the most downloaded repositories of the Hub are, with small seeded weights.

What `orch init` and the loader look at is as it is there: the class that the config names, the names of weights and
what is among them that the class does not have or lacks, dtypes, shards, tokenizers and processors, and the files of
other frameworks beside them. Sizes alone are small.

Run by the Python of orch's torch environment: layouts.py FOLDER
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

SEED = 0
TEXT = [
    "The quick brown fox jumps over the lazy dog.",
    "A model of language writes one token after another, and each sees all that came before it.",
    "Pictures are cut into patches, sounds into frames, and both become rows of numbers.",
]
SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
BART = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "init_std": 0.15,
}
LLAMA = SMALL | {"num_key_value_heads": 2, "initializer_range": 0.1}
INIT = {"initializer_range": 0.1}


def build(
    folder: Path,
    cls: str,
    config: dict[str, Any],
    *,
    rename: Callable[[str], str | None] = lambda name: name,
    more: dict[str, list[int]] | None = None,
    dtype: str = "float32",
    shard: str = "5GB",
    said: dict[str, Any] | None = None,
    change: Callable[[Any], Any] = lambda model: model,
) -> None:
    """Writes a model of a class of transformers.

    `rename` gives each weight its name in the file, or None for one that the file lacks; `more` are the shapes of
    weights that the file has besides. `said` overrides what its config says. `change` alters the model before that.
    """
    import torch
    import transformers
    from safetensors.torch import load_file, save_file

    torch.manual_seed(SEED)
    made = getattr(transformers, cls)
    model = made(made.config_class(**config)).eval().to(getattr(torch, dtype))
    with torch.no_grad():
        change(model)
    model.save_pretrained(folder, max_shard_size=shard)
    for path in sorted(folder.glob("*.safetensors")):
        tensors = {rename(name): value for name, value in load_file(path).items()}
        tensors.pop(None, None)
        if more and not (folder / "model.safetensors.index.json").is_file():
            tensors |= {name: torch.randn(shape, dtype=getattr(torch, dtype)) for name, shape in more.items()}
        save_file({name: value.contiguous() for name, value in tensors.items() if name}, path, {"format": "pt"})
    if said:
        edit(folder / "config.json", said)


def edit(path: Path, said: dict[str, Any]) -> None:
    """Overrides members of a JSON object in a file."""
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | said, indent=2), "utf-8")


def beside(folder: Path, *names: str) -> None:
    """Files that no loader of transformers reads."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"not read")


def word_piece(folder: Path, size: int = 200) -> None:
    """A tokenizer as BERT has it: vocab.txt and tokenizer.json."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(TEXT, trainers.WordPieceTrainer(vocab_size=size, special_tokens=specials))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token, _ in vocabulary), "utf-8")
    told = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 512}
    (folder / "tokenizer_config.json").write_text(json.dumps(told), "utf-8")


def byte_pairs(folder: Path, size: int, specials: list[str], told: dict[str, Any]) -> None:
    """A tokenizer as GPT-2 and its kin have it: tokenizer.json, vocab.json and merges.txt."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=specials, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(TEXT, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    tokenizer.model.save(str(folder))
    (folder / "tokenizer_config.json").write_text(json.dumps(told), "utf-8")


def pieces(folder: Path, name: str, size: int = 120) -> Any:
    """A model of sentencepiece in a file of this name; gives its processor."""
    import sentencepiece

    source = folder / "text.tmp"
    source.write_text("\n".join(TEXT * 20), "utf-8")
    prefix = folder / "pieces"
    sentencepiece.SentencePieceTrainer.train(
        input=str(source),
        model_prefix=str(prefix),
        vocab_size=size,
        hard_vocab_limit=False,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
    )
    source.unlink()
    prefix.with_suffix(".vocab").unlink()
    prefix.with_suffix(".model").rename(folder / name)
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / name))


def unigram(folder: Path, size: int = 200) -> None:
    """A tokenizer as XLM-RoBERTa has it: tokenizer.json, and sentencepiece's own file beside it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=size, special_tokens=specials, unk_token="<unk>")
    tokenizer.train_from_iterator(TEXT, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    told = {"tokenizer_class": "XLMRobertaTokenizer", "model_max_length": 512}
    (folder / "tokenizer_config.json").write_text(json.dumps(told), "utf-8")
    pieces(folder, "sentencepiece.bpe.model")


def roberta_tokens(folder: Path, size: int = 300) -> None:
    byte_pairs(folder, size, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], {"tokenizer_class": "RobertaTokenizer"})


def image_processor(folder: Path, cls: str, **more: Any) -> None:
    import transformers

    getattr(transformers, cls)(**more).save_pretrained(folder)


BERT = SMALL | INIT | {"vocab_size": 200, "max_position_embeddings": 64}
ROBERTA = SMALL | INIT | {"vocab_size": 300, "max_position_embeddings": 66, "type_vocab_size": 1, "pad_token_id": 1}
VIT = SMALL | {"image_size": 64, "patch_size": 16, "initializer_range": 0.1}
LABELS = {"id2label": {"0": "NEGATIVE", "1": "POSITIVE"}, "label2id": {"NEGATIVE": 0, "POSITIVE": 1}}
FRAMEWORKS = ("pytorch_model.bin", "tf_model.h5", "flax_model.msgpack", "README.md", ".gitattributes")


def all_minilm(folder: Path) -> None:
    build(folder, "BertModel", BERT)
    word_piece(folder)
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules), "utf-8")
    beside(folder, *FRAMEWORKS, "1_Pooling/config.json", "onnx/model.onnx", "openvino/openvino_model.xml")


def bert_base(folder: Path) -> None:
    def old(name: str) -> str:
        return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")

    more = {"cls.seq_relationship.weight": [2, 64], "cls.seq_relationship.bias": [2]}
    more |= {"bert.pooler.dense.weight": [64, 64], "bert.pooler.dense.bias": [64]}
    build(folder, "BertForMaskedLM", BERT, rename=old, more=more)
    word_piece(folder)
    beside(folder, *FRAMEWORKS, "rust_model.ot", "coreml/fill-mask/float32_model.mlpackage/Manifest.json")


def electra(folder: Path) -> None:
    build(folder, "ElectraForPreTraining", BERT | {"embedding_size": 32})
    word_piece(folder)
    beside(folder, *FRAMEWORKS)


def xlm_roberta(folder: Path) -> None:
    more = {"roberta.pooler.dense.weight": [64, 64], "roberta.pooler.dense.bias": [64]}
    build(folder, "XLMRobertaForMaskedLM", ROBERTA | {"vocab_size": 200}, more=more)
    unigram(folder)
    beside(folder, *FRAMEWORKS, "onnx/model.onnx")


def clip(folder: Path) -> None:
    text = SMALL | {"vocab_size": 300, "max_position_embeddings": 32, "projection_dim": 64}
    vision = SMALL | {"image_size": 64, "patch_size": 16, "projection_dim": 64}
    config = {"text_config": text, "vision_config": vision, "projection_dim": 64, "initializer_factor": 3.0}
    more = {"text_model.embeddings.position_ids": [1, 32], "vision_model.embeddings.position_ids": [1, 17]}
    build(folder, "CLIPModel", config, more=more)
    byte_pairs(folder, 300, ["<|startoftext|>", "<|endoftext|>"], {"tokenizer_class": "CLIPTokenizer"})
    image_processor(folder, "CLIPImageProcessor", size={"shortest_edge": 64}, crop_size={"height": 64, "width": 64})
    beside(folder, *FRAMEWORKS)


def mpnet(folder: Path) -> None:
    """The config names a class with a head, and the file has the weights of the model below it, without prefix."""
    said = {"architectures": ["MPNetForMaskedLM"]}
    more = {"embeddings.position_ids": [1, 66]}
    build(folder, "MPNetModel", ROBERTA | {"vocab_size": 200}, said=said, more=more)
    word_piece(folder)
    beside(folder, *FRAMEWORKS, "modules.json", "1_Pooling/config.json")


def roberta(folder: Path) -> None:
    build(folder, "RobertaForMaskedLM", ROBERTA)
    roberta_tokens(folder)
    beside(folder, *FRAMEWORKS, "dict.txt")


def nsfw_vit(folder: Path) -> None:
    build(folder, "ViTForImageClassification", VIT | {"id2label": {"0": "normal", "1": "nsfw"}})
    image_processor(folder, "ViTImageProcessor", size={"height": 64, "width": 64})
    beside(folder, *FRAMEWORKS, "optimizer.pt")


def gpt2(folder: Path) -> None:
    """Weights of the model below the head, without prefix, and the triangular masks of old versions."""
    config = {"vocab_size": 300, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "initializer_range": 0.1}
    config |= {"bos_token_id": 299, "eos_token_id": 299}
    more = {f"h.{layer}.attn.bias": [1, 1, 64, 64] for layer in range(2)}

    def bare(name: str) -> str | None:
        return None if name.startswith("lm_head") else name.removeprefix("transformer.")

    build(folder, "GPT2LMHeadModel", config, rename=bare, more=more)
    byte_pairs(folder, 300, ["<|endoftext|>"], {"tokenizer_class": "GPT2Tokenizer", "model_max_length": 1024})
    beside(folder, *FRAMEWORKS, "64.tflite", "onnx/decoder_model.onnx")


CHAT = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def qwen(folder: Path) -> None:
    config = LLAMA | {"vocab_size": 320, "tie_word_embeddings": True, "max_position_embeddings": 256}
    build(folder, "Qwen2ForCausalLM", config, dtype="bfloat16", shard="100KB")
    told = {"tokenizer_class": "Qwen2Tokenizer", "chat_template": CHAT, "eos_token": "<|im_end|>"}
    byte_pairs(folder, 300, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], told)
    beside(folder, "LICENSE", "README.md")


def qwen3(folder: Path) -> None:
    config = LLAMA | {"vocab_size": 320, "tie_word_embeddings": True, "head_dim": 16, "max_position_embeddings": 256}
    build(folder, "Qwen3ForCausalLM", config, dtype="bfloat16")
    told = {"tokenizer_class": "Qwen2Tokenizer", "chat_template": CHAT, "eos_token": "<|im_end|>"}
    byte_pairs(folder, 300, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], told)


def llama(folder: Path) -> None:
    rope = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    rope |= {"original_max_position_embeddings": 64, "rope_theta": 500000.0}
    config = LLAMA | {"vocab_size": 320, "rope_parameters": rope, "max_position_embeddings": 256}
    build(folder, "LlamaForCausalLM", config, dtype="bfloat16", shard="100KB")
    told = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}
    byte_pairs(folder, 300, ["<|begin_of_text|>", "<|im_start|>", "<|im_end|>"], told)
    (folder / "chat_template.jinja").write_text(CHAT, "utf-8")
    beside(folder, "original/consolidated.00.pth", "original/params.json", "LICENSE.txt", "USE_POLICY.md")


def opt(folder: Path) -> None:
    """Pickled weights alone."""
    config = SMALL | {"vocab_size": 300, "word_embed_proj_dim": 64, "ffn_dim": 128}
    build(folder, "OPTForCausalLM", config)
    (folder / "model.safetensors").unlink()
    byte_pairs(folder, 300, ["<pad>", "</s>"], {"tokenizer_class": "GPT2Tokenizer"})
    beside(folder, *FRAMEWORKS)


def distilbert_sst2(folder: Path) -> None:
    config = {"vocab_size": 200, "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128}
    build(folder, "DistilBertForSequenceClassification", config | LABELS | INIT | {"max_position_embeddings": 64})
    word_piece(folder)
    beside(folder, *FRAMEWORKS, "onnx/model.onnx", "map.jpeg")


def t5(folder: Path) -> None:
    """An embedding that old versions of the class had, and a tokenizer of sentencepiece."""
    config = {"vocab_size": 128, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}
    more = {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": [32, 4]}
    said = {"task_specific_params": {"summarization": {"num_beams": 4, "prefix": "summarize: "}}}
    build(folder, "T5ForConditionalGeneration", config | {"decoder_start_token_id": 0}, more=more, said=said)
    pieces(folder, "spiece.model", 100)
    told = {"tokenizer_class": "T5Tokenizer", "extra_ids": 0, "model_max_length": 512}
    (folder / "tokenizer_config.json").write_text(json.dumps(told), "utf-8")
    beside(folder, *FRAMEWORKS)


def whisper(folder: Path) -> None:
    import transformers

    config = BART | {"vocab_size": 300, "num_mel_bins": 80, "max_source_positions": 1500, "max_target_positions": 64}
    config |= {"pad_token_id": 297, "bos_token_id": 297, "eos_token_id": 297, "decoder_start_token_id": 298}
    said = {"forced_decoder_ids": [[1, 5], [2, 6]], "suppress_tokens": [1, 2, 7], "begin_suppress_tokens": [220]}
    build(folder, "WhisperForConditionalGeneration", config, dtype="float16", said=said)
    transformers.WhisperFeatureExtractor().save_pretrained(folder)
    byte_pairs(folder, 290, ["<|endoftext|>"], {"tokenizer_class": "WhisperTokenizer"})
    beside(folder, *FRAMEWORKS, "normalizer.json", "model.fp32-00001-of-00002.bin")


def clap(folder: Path) -> None:
    import transformers

    text = SMALL | {"vocab_size": 300, "max_position_embeddings": 66, "projection_dim": 64, "pad_token_id": 1}
    audio = {"num_mel_bins": 64, "spec_size": 256, "patch_size": 4, "patch_stride": [4, 4], "hidden_size": 256}
    audio |= {"patch_embeds_hidden_size": 32, "depths": [1, 1, 1, 1], "num_attention_heads": [2, 2, 2, 2]}
    audio |= {"num_hidden_layers": 4, "projection_dim": 64, "mlp_ratio": 2.0, "window_size": 8, "num_classes": 10}
    build(folder, "ClapModel", {"text_config": text, "audio_config": audio, "projection_dim": 64})
    transformers.ClapFeatureExtractor(
        truncation="rand_trunc", padding="repeatpad", feature_size=64, hop_length=480
    ).save_pretrained(folder)
    roberta_tokens(folder)
    beside(folder, *FRAMEWORKS)


def wav2vec2(folder: Path) -> None:
    """Without the one weight that only training reads, and a tokenizer of letters."""
    import transformers

    config = SMALL | {"vocab_size": 32, "conv_dim": [32] * 7, "num_conv_pos_embeddings": 16, "initializer_range": 0.1}
    config |= {"num_conv_pos_embedding_groups": 4}
    build(folder, "Wav2Vec2ForCTC", config, rename=lambda name: None if name.endswith("masked_spec_embed") else name)
    transformers.Wav2Vec2FeatureExtractor(return_attention_mask=False).save_pretrained(folder)
    letters = ["<pad>", "<s>", "</s>", "<unk>", "|", *"ETAONIHSRDLUMWCFGYPBVK'XJQZ"]
    (folder / "vocab.json").write_text(json.dumps({each: place for place, each in enumerate(letters)}), "utf-8")
    told = {"tokenizer_class": "Wav2Vec2CTCTokenizer", "do_lower_case": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(told), "utf-8")
    beside(folder, *FRAMEWORKS)


def bge(folder: Path) -> None:
    build(folder, "BertModel", BERT, more={"embeddings.position_ids": [1, 64]})
    word_piece(folder)
    beside(folder, *FRAMEWORKS, "config_sentence_transformers.json", "1_Pooling/config.json", "onnx/model.onnx")


def reranker(folder: Path) -> None:
    config = ROBERTA | {"vocab_size": 200, "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    build(folder, "XLMRobertaForSequenceClassification", config)
    unigram(folder)


def cross_encoder(folder: Path) -> None:
    config = BERT | {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    said = {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}}
    # Of a score near zero the tolerance is near zero too.
    build(
        folder,
        "BertForSequenceClassification",
        config,
        said=said,
        change=lambda model: model.classifier.weight.mul_(20),
    )
    word_piece(folder)
    beside(folder, *FRAMEWORKS, "onnx/model.onnx")


def vit(folder: Path) -> None:
    build(folder, "ViTForImageClassification", VIT | {"id2label": {str(each): f"class {each}" for each in range(10)}})
    image_processor(folder, "ViTImageProcessor", size={"height": 64, "width": 64})
    beside(folder, *FRAMEWORKS)


def resnet(folder: Path) -> None:
    config = {"embedding_size": 16, "hidden_sizes": [16, 32, 64, 64], "depths": [1, 1, 1, 1], "layer_type": "basic"}
    build(folder, "ResNetForImageClassification", config)
    image_processor(folder, "ConvNextImageProcessor", size={"shortest_edge": 64}, crop_pct=0.875)
    beside(folder, *FRAMEWORKS)


def dinov2(folder: Path) -> None:
    build(folder, "Dinov2Model", SMALL | {"image_size": 56, "patch_size": 14, "mlp_ratio": 2, "initializer_range": 0.1})
    image_processor(folder, "BitImageProcessor", size={"shortest_edge": 64}, crop_size={"height": 56, "width": 56})
    beside(folder, *FRAMEWORKS)


def siglip(folder: Path) -> None:
    text = SMALL | {"vocab_size": 128, "max_position_embeddings": 16, "projection_size": 64}
    config = {"text_config": text, "vision_config": SMALL | {"image_size": 64, "patch_size": 16}}

    def trained(model: Any) -> None:
        model.logit_scale.fill_(4.7)
        model.logit_bias.fill_(-12.9)

    build(folder, "SiglipModel", config, change=trained)
    pieces(folder, "spiece.model", 100)
    told = {"tokenizer_class": "SiglipTokenizer", "model_max_length": 16}
    (folder / "tokenizer_config.json").write_text(json.dumps(told), "utf-8")
    image_processor(folder, "SiglipImageProcessor", size={"height": 64, "width": 64})
    beside(folder, "README.md")


def ner(folder: Path) -> None:
    more = {"bert.pooler.dense.weight": [64, 64], "bert.pooler.dense.bias": [64]}
    labels = {"id2label": {"0": "O", "1": "B-PER", "2": "I-PER"}, "label2id": {"O": 0, "B-PER": 1, "I-PER": 2}}
    build(folder, "BertForTokenClassification", BERT | labels, more=more)
    word_piece(folder)
    beside(folder, *FRAMEWORKS, "onnx/model.onnx")


def marian(folder: Path) -> None:
    config = BART | {"vocab_size": 101, "max_position_embeddings": 64, "pad_token_id": 100}
    build(
        folder, "MarianMTModel", config | {"decoder_start_token_id": 100, "eos_token_id": 0, "forced_eos_token_id": 0}
    )
    known = pieces(folder, "source.spm", 99)
    shutil.copyfile(folder / "source.spm", folder / "target.spm")
    tokens = ["</s>", "<unk>", *(known.id_to_piece(each) for each in range(3, known.get_piece_size()))]
    vocabulary = {each: place for place, each in enumerate(tokens)} | {"<pad>": 100}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), "utf-8")
    told = {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "de"}
    (folder / "tokenizer_config.json").write_text(json.dumps(told), "utf-8")
    beside(folder, *FRAMEWORKS, "metadata.json")


def bart_mnli(folder: Path) -> None:
    labels = {"id2label": {"0": "contradiction", "1": "neutral", "2": "entailment"}}
    more = {"model.encoder.version": [1], "model.decoder.version": [1]}
    config = BART | labels | {"vocab_size": 300, "max_position_embeddings": 64, "eos_token_id": 2}
    build(folder, "BartForSequenceClassification", config, more=more)
    byte_pairs(
        folder, 300, ["<s>", "<pad>", "</s>", "<unk>"], {"tokenizer_class": "BartTokenizer", "eos_token": "</s>"}
    )
    beside(folder, *FRAMEWORKS)


def esm(folder: Path) -> None:
    config = SMALL | {"vocab_size": 33, "position_embedding_type": "rotary", "pad_token_id": 1, "mask_token_id": 32}
    more = {"esm.embeddings.position_ids": [1, 66]}
    build(folder, "EsmForMaskedLM", config | {"max_position_embeddings": 66, "initializer_range": 0.1}, more=more)
    letters = ["<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1>", "<mask>"]
    (folder / "vocab.txt").write_text("\n".join(letters), "utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "EsmTokenizer"}), "utf-8")
    beside(folder, *FRAMEWORKS)


def detr(folder: Path) -> None:
    """A backbone of timm's, as the checkpoints from before transformers had its own."""
    config = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4}
    config |= {"decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_queries": 10}
    config |= {"use_timm_backbone": True, "backbone": "resnet18", "use_pretrained_backbone": False}
    build(folder, "DetrForObjectDetection", config)
    image_processor(folder, "DetrImageProcessor", size={"shortest_edge": 64, "longest_edge": 96})
    beside(folder, *FRAMEWORKS)


def timm(folder: Path) -> None:
    """As timm's own repositories are: their config has no `model_type` and names no class."""
    import timm
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(SEED)
    name = "mobilenetv3_small_050"
    model = timm.create_model(name, pretrained=False)
    folder.mkdir()
    save_file(model.state_dict(), folder / "model.safetensors", {"format": "pt"})
    said = {"architecture": name, "num_classes": 1000, "num_features": 1024}
    said["pretrained_cfg"] = {"tag": "lamb_in1k", "input_size": [3, 224, 224], "crop_pct": 0.875}
    (folder / "config.json").write_text(json.dumps(said), "utf-8")
    beside(folder, *FRAMEWORKS)


def gptq(folder: Path) -> None:
    said = {"quantization_config": {"bits": 4, "group_size": 128, "quant_method": "gptq"}}
    build(folder, "LlamaForCausalLM", LLAMA | {"vocab_size": 320}, dtype="float16", said=said)


def remote_code(folder: Path) -> None:
    said = {
        "model_type": "xlm-roberta-lora",
        "architectures": ["XLMRobertaLoRA"],
        "auto_map": {"AutoModel": "jinaai/xlm-roberta-flash-implementation--modeling_lora.XLMRobertaLoRA"},
    }
    build(folder, "BertModel", BERT, said=said)
    word_piece(folder)


def adapter(folder: Path) -> None:
    folder.mkdir()
    said = {"base_model_name_or_path": "meta-llama/Llama-3.1-8B", "peft_type": "LORA", "r": 8}
    (folder / "adapter_config.json").write_text(json.dumps(said), "utf-8")
    beside(folder, "adapter_model.safetensors", "README.md")


def bge_m3(folder: Path) -> None:
    """Pickled weights, and an ONNX file beside them."""
    build(folder, "XLMRobertaModel", ROBERTA | {"vocab_size": 200})
    (folder / "model.safetensors").unlink()
    unigram(folder)
    beside(folder, "pytorch_model.bin", "onnx/model.onnx", "onnx/model.onnx_data", "colbert_linear.pt")


def diffusion(folder: Path) -> None:
    folder.mkdir()
    said = {"_class_name": "StableDiffusionPipeline", "unet": ["diffusers", "UNet2DConditionModel"]}
    (folder / "model_index.json").write_text(json.dumps(said), "utf-8")
    beside(folder, "unet/diffusion_pytorch_model.safetensors", "vae/diffusion_pytorch_model.safetensors")


def pyannote(folder: Path) -> None:
    folder.mkdir()
    (folder / "config.yaml").write_text("task:\n  _target_: pyannote.audio.tasks.VoiceActivityDetection\n", "utf-8")
    beside(folder, "pytorch_model.bin", "README.md")


def chronos(folder: Path) -> None:
    config = {"vocab_size": 128, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}
    said = {"architectures": ["ChronosBoltModelForForecasting"], "chronos_config": {"context_length": 512}}
    build(folder, "T5ForConditionalGeneration", config, said=said)


# Each layout, by the repository that it is of; and of those that cannot run, words of what `orch init` says.
LAYOUTS: dict[str, tuple[Callable[[Path], None], str | None]] = {
    "all-MiniLM-L6-v2": (all_minilm, None),
    "bert-base-uncased": (bert_base, None),
    "electra-base-discriminator": (electra, None),
    "xlm-roberta-base": (xlm_roberta, None),
    "clip-vit-base-patch32": (clip, None),
    "all-mpnet-base-v2": (mpnet, None),
    "roberta-large": (roberta, None),
    "nsfw_image_detection": (nsfw_vit, None),
    "gpt2": (gpt2, None),
    "Qwen2.5-0.5B-Instruct": (qwen, None),
    "Qwen3-0.6B": (qwen3, None),
    "Llama-3.1-8B-Instruct": (llama, None),
    "distilbert-sst-2": (distilbert_sst2, None),
    "t5-small": (t5, None),
    "whisper-large-v3": (whisper, None),
    "clap-htsat-unfused": (clap, None),
    "wav2vec2-base-960h": (wav2vec2, None),
    "bge-base-en-v1.5": (bge, None),
    "bge-reranker-v2-m3": (reranker, None),
    "ms-marco-MiniLM-L6-v2": (cross_encoder, None),
    "vit-base-patch16-224": (vit, None),
    "resnet-50": (resnet, None),
    "dinov2-base": (dinov2, None),
    "siglip-base-patch16-224": (siglip, None),
    "bert-base-NER": (ner, None),
    "opus-mt-en-de": (marian, None),
    "bart-large-mnli": (bart_mnli, None),
    "esm2_t6_8M_UR50D": (esm, None),
    "detr-resnet-50": (detr, None),
    "opt-125m": (opt, "pickle"),
    "mobilenetv3_small_050": (timm, None),
    "Llama-2-7B-GPTQ": (gptq, "quantised by `gptq`"),
    "jina-embeddings-v3": (remote_code, "trust_remote_code"),
    "a-lora": (adapter, "adapter of `meta-llama/Llama-3.1-8B`"),
    "bge-m3": (bge_m3, "onnx/model.onnx"),
    "stable-diffusion-v1-5": (diffusion, "model_index.json"),
    "segmentation-3.0": (pyannote, "config.json"),
    "chronos-bolt-small": (chronos, "ChronosBoltModelForForecasting"),
}


if __name__ == "__main__":
    root = Path(sys.argv[1])
    root.mkdir(parents=True)
    for name, (make, _) in LAYOUTS.items():
        try:
            make(root / name)
        except Exception as error:
            raise SystemExit(f"{name}: {type(error).__name__}: {error}") from error
