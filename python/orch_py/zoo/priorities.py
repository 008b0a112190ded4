"""How much a row matters: `high` what the default suite runs, `medium` what is used most, `low` the rest."""

from __future__ import annotations

# The classes of `specs/models.yaml`, the key models; a test compares the two.
KEY = frozenset(
    """BertForMaskedLM T5ForConditionalGeneration LlamaForCausalLM OPTForCausalLM CLIPModel ViTForImageClassification
    ClapModel WhisperForConditionalGeneration Wav2Vec2ForCTC LlavaForConditionalGeneration
    LlavaNextForConditionalGeneration Qwen2ForCausalLM Qwen3ForCausalLM DetrForObjectDetection XCLIPModel""".split()
)
# The types of these, whose other tasks are used as much as anything.
_KEY_TYPES = "bert t5 llama opt clip vit clap whisper wav2vec2 llava llava_next qwen2 qwen3 detr xclip"
# Types that both of Optimum's exporters take (optimum-onnx at 1939f27, optimum-intel at e1de5beec), and for which the
# auto mappings of transformers 5.23.0 have classes in four or more tables. Nobody writes and keeps so much for what few
# use. How often a model is downloaded changes daily, and no wheel tells it.
_EXPORTED = """albert arcee bart beit bigbird_pegasus bloom camembert convbert convnext data2vec-audio data2vec-text
    data2vec-vision deberta deberta-v2 deepseek_v3 deit distilbert electra esm falcon flaubert gemma gemma2
    gemma3 glm gpt2 gpt_bigcode gpt_neo gpt_neox gpt_oss gptj ibert mbart mistral mobilebert mobilenet_v2
    mobilevit mpnet mpt mt5 nystromformer perceiver phi phi3 qwen3_moe rembert resnet roberta roformer
    segformer smollm3 squeezebert stablelm swin unispeech unispeech-sat wav2vec2-conformer wavlm xlm
    xlm-roberta"""
MOST_USED = frozenset(f"{_KEY_TYPES} {_EXPORTED}".split())


def priority(class_name: str, model_type: str) -> str:
    if class_name in KEY:
        return "high"
    return "medium" if model_type in MOST_USED else "low"
