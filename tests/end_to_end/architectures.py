"""More architectures of Hugging Face `transformers`, tiny and unmodified, counted against torch.compile beside the zoo.

Goes in: a name.  Comes out: `build(name)`, a seeded model in eval mode and the keyword arguments of two calls.
"""

import importlib

import torch

VOCABULARY, WIDTH, LAYERS, HEADS = 99, 32, 2, 4

_COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}


def text(length=12, **more):
    ids = torch.randint(3, VOCABULARY, (2, length))
    mask = torch.ones_like(ids)
    mask[0, -3:] = 0
    return {"input_ids": ids, "attention_mask": mask, **more}


def plain_text():
    return {"input_ids": torch.randint(3, VOCABULARY, (2, 12))}


def picture(size=32):
    return {"pixel_values": torch.randn(2, 3, size, size)}


def sound():
    return {"input_values": torch.randn(2, 400)}


def spectrogram():
    return {"input_features": torch.randn(2, 8, 40), "decoder_input_ids": torch.randint(3, VOCABULARY, (2, 6))}


def text_and_picture():
    return {**text(), **picture()}


# name: (family, head, options, batch)
ARCHITECTURES = {
    "bloom": (
        "Bloom",
        "BloomForCausalLM",
        {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "n_layer": 2, "n_head": 4},
        text,
    ),
    "clip": (
        "CLIP",
        "CLIPModel",
        {
            "text_config": {**_COMMON, "eos_token_id": 2},
            "vision_config": {**_COMMON, "image_size": 32, "patch_size": 8},
            "projection_dim": 16,
        },
        text_and_picture,
    ),
    "convnext": (
        "ConvNext",
        "ConvNextForImageClassification",
        {"hidden_sizes": [8, 16], "depths": [1, 2], "num_stages": 2},
        picture,
    ),
    "deberta_v2": (
        "DebertaV2",
        "DebertaV2ForMaskedLM",
        {**_COMMON, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8},
        text,
    ),
    "gemma2": (
        "Gemma2",
        "Gemma2ForCausalLM",
        {**_COMMON, "num_key_value_heads": 2, "head_dim": 8, "sliding_window": 6},
        text,
    ),
    "gpt_neox": ("GPTNeoX", "GPTNeoXForCausalLM", _COMMON, text),
    "longformer": ("Longformer", "LongformerModel", {**_COMMON, "attention_window": 4}, text),
    "mamba": (
        "Mamba",
        "MambaForCausalLM",
        {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": 2},
        plain_text,
    ),
    "mixtral": (
        "Mixtral",
        "MixtralForCausalLM",
        {**_COMMON, "num_key_value_heads": 2, "num_local_experts": 3},
        text,
    ),
    "mobilebert": (
        "MobileBert",
        "MobileBertForMaskedLM",
        {**_COMMON, "embedding_size": WIDTH, "intra_bottleneck_size": 16, "true_hidden_size": 16},
        text,
    ),
    "swin": (
        "Swin",
        "SwinForImageClassification",
        {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4},
        picture,
    ),
    "wav2vec2": (
        "Wav2Vec2",
        "Wav2Vec2ForCTC",
        {
            **{
                **_COMMON,
                "conv_dim": [16, 16],
                "conv_stride": [5, 2],
                "conv_kernel": [10, 3],
                "num_feat_extract_layers": 2,
            },
            **{"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2},
        },
        sound,
    ),
    "whisper": (
        "Whisper",
        "WhisperForConditionalGeneration",
        {
            **{"vocab_size": VOCABULARY, "d_model": WIDTH, "encoder_layers": 2, "decoder_layers": 2, "num_mel_bins": 8},
            **{
                "encoder_attention_heads": 4,
                "decoder_attention_heads": 4,
                "encoder_ffn_dim": 64,
                "decoder_ffn_dim": 64,
            },
            **{"max_source_positions": 20, "max_target_positions": 20, "pad_token_id": 0, "bos_token_id": 1},
            **{"eos_token_id": 2, "decoder_start_token_id": 1, "suppress_tokens": [], "begin_suppress_tokens": []},
        },
        spectrogram,
    ),
    "xlnet": (
        "XLNet",
        "XLNetLMHeadModel",
        {"vocab_size": VOCABULARY, "d_model": WIDTH, "n_layer": 2, "n_head": 4, "d_inner": 64},
        text,
    ),
}


def build(name):
    """A model in eval mode, and the keyword arguments of two calls with different data."""
    family, head, options, batch = ARCHITECTURES[name]
    transformers = importlib.import_module("transformers")
    torch.manual_seed(0)
    model = getattr(transformers, head)(getattr(transformers, f"{family}Config")(**options)).eval()
    return model, [batch(), batch()]
