"""A small config of a class of configs: its own defaults, with the sizes that make a model large set to small ones.

The rule is by the names of keys, which transformers keeps alike between models. What it does not know stays as it is,
and a model that is then too large, or does not run, is for a maintainer to write by hand.
"""

from __future__ import annotations

from typing import Any

from transformers import CONFIG_MAPPING, PreTrainedConfig

Document = dict[str, Any]

LAYERS, HEADS, HEAD, WIDTH, INNER, VOCABULARY, POSITIONS, IMAGE = 2, 4, 16, 64, 128, 128, 256, 64

_SMALL: tuple[tuple[int, str], ...] = (
    (
        LAYERS,
        """num_hidden_layers num_layers n_layer n_layers depth encoder_layers decoder_layers num_encoder_layers
        num_decoder_layers num_experts_per_tok moe_topk linear_num_key_heads vision_layers text_layers mtp_num_layers
        num_block_layers encoder_num_hidden_layers decoder_num_hidden_layers""",
    ),
    (
        HEADS,
        """num_attention_heads num_heads n_head n_heads encoder_attention_heads decoder_attention_heads
        num_key_value_heads num_kv_heads n_routed_experts num_experts num_local_experts moe_num_experts
        num_conv_pos_embedding_groups index_n_heads linear_num_value_heads encoder_num_attention_heads
        decoder_num_attention_heads""",
    ),
    (
        HEAD,
        """head_dim d_kv attention_head_dim v_head_dim qk_nope_head_dim qk_rope_head_dim index_head_dim
        linear_key_head_dim linear_value_head_dim sliding_window num_queries num_conv_pos_embeddings chunk_size
        kv_channels""",
    ),
    (
        32,
        """kv_lora_rank q_lora_rank num_codevectors_per_group codevector_dim proj_codevector_dim max_source_positions
        max_target_positions state_size mamba_d_state""",
    ),
    (
        WIDTH,
        """hidden_size d_model n_embd embed_dim embedding_size embedding_dim projection_dim dim hidden_dim
        out_hidden_size classifier_proj_size pooler_output_size output_dim output_hidden_size xvector_output_dim
        decoder_hidden_size encoder_hidden_dim projector_hidden_size text_hidden_size vision_hidden_size
        subsampling_conv_channels word_embed_proj_dim encoder_hidden_size attention_hidden_size text_embed_dim
        vision_embed_dim embedding_projection_hidden_size""",
    ),
    (
        INNER,
        """intermediate_size encoder_ffn_dim decoder_ffn_dim ffn_dim d_ff mlp_dim moe_intermediate_size n_inner
        feed_forward_size shared_expert_intermediate_size ffn_hidden_size dim_feedforward decoder_intermediate_size
        shared_intermediate_size""",
    ),
    (VOCABULARY, "vocab_size padded_vocab_size"),
    (POSITIONS, "max_position_embeddings n_positions max_seq_len max_sequence_length seq_length n_ctx"),
    (IMAGE, "image_size img_size"),
)
_SIZES = {name: size for size, names in _SMALL for name in names.split()}
# Stage by stage: width of the first, and how often each is repeated.
_STAGES = ("hidden_sizes", "embed_dims", "encoder_hidden_sizes", "dims", "stage_channels")
_REPEATS = ("depths", "stage_depths", "num_blocks")
_PLACES = ("pad_token_id", "bos_token_id", "eos_token_id")


def small(kind: type[PreTrainedConfig]) -> Document:
    """The overrides of `kind`'s defaults, as a spec holds them."""
    return _of(kind())


def _of(config: PreTrainedConfig) -> Document:
    found: Document = {}
    names = {config.attribute_map.get(name, name) for name in vars(config)} | set(vars(config))
    for name in sorted(name for name in names if hasattr(config, name) and not name.startswith("_")):
        value = getattr(config, name)
        if isinstance(value, PreTrainedConfig):
            # A sub-config that is given as a dict forgets what the config above it had set.
            found[name] = ({"model_type": value.model_type} if value.model_type in CONFIG_MAPPING else {}) | _of(value)
        elif (less := _less(name, value)) is not None and less != value:
            found[name] = less
    return found | _agreeing(config, found)


def _less(name: str, value: Any) -> Any:
    """A small value for the key, or None to leave it as it is."""
    if name in _STAGES and _is_numbers(value):
        return [HEAD * (place + 1) for place in range(len(value))]
    if name in _REPEATS and _is_numbers(value):
        return [1] * len(value)
    size = _SIZES.get(name)
    if size is not None and _is_numbers(value):
        return [min(each, size) for each in value]
    if size is not None and isinstance(value, int) and value > size:
        return size
    return None


def _is_numbers(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(each, int) for each in value)


def _agreeing(config: PreTrainedConfig, small: Document) -> Document:
    """Keys that must agree with those that became smaller."""
    found: Document = {}
    vocabulary = small.get("vocab_size")
    if vocabulary is not None:
        for token, name in enumerate(_PLACES):
            value = getattr(config, name, None)
            if isinstance(value, list) or (isinstance(value, int) and value >= vocabulary):
                found[name] = token
    # Tokens that stand for an image or a sound, from the top of the vocabulary down.
    marks = [
        name for name in sorted(vars(config)) if name.endswith(("_token_id", "_token_index")) and name not in _PLACES
    ]
    for place, name in enumerate(marks):
        value = getattr(config, name)
        if isinstance(value, int) and value >= (vocabulary or VOCABULARY):
            found[name] = VOCABULARY - 1 - place
    kinds = getattr(config, "layer_types", None)
    layers = small.get("num_hidden_layers")
    if isinstance(kinds, list) and layers and "layer_types" in vars(config):
        distinct = list(dict.fromkeys(kinds))
        found["layer_types"] = (distinct * layers)[: max(layers, len(distinct))]
        found["num_hidden_layers"] = len(found["layer_types"])
    groups = getattr(config, "num_key_value_heads", None)
    if isinstance(groups, int) and groups < getattr(config, "num_attention_heads", groups):
        found["num_key_value_heads"] = min(groups, LAYERS)
    return found | {name: 1 for name in ("n_group", "topk_group") if isinstance(getattr(config, name, None), int)}
