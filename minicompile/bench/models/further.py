"""Models that the benchmark adds where their packages are installed: image models of `timm`, more of `transformers`.

Goes in: a name or a row of the tables below.  Comes out: `FURTHER[name]`, an `Entry` like those of the zoo; a package
is imported only when one of its models is built.
"""

import importlib.util

from .huggingface import BART, BERT, LONGEST, SIZES, make, pictures, text, text_to_text
from .registry import Entry, classify, images, own_loss

_HALF_OF_THE_HEADS = {"num_key_value_heads": lambda o: o.heads // 2}
_PIECES = {"image_size": lambda o: o.image, "patch_size": lambda o: o.patch, "num_labels": 10, "vocab_size": None}
_DECODER = {
    "decoder_layers": lambda o: o.layers,
    "decoder_attention_heads": lambda o: o.heads,
    "decoder_ffn_dim": lambda o: 4 * o.width,
    **LONGEST,
}

# name: (family, head, names of the knobs, other options, batch)
_TRANSFORMERS = {
    "hf_roberta": ("Roberta", "RobertaForMaskedLM", BERT, {"max_position_embeddings": lambda o: o.length + 64}, text),
    "hf_deberta": (
        "DebertaV2",
        "DebertaV2ForMaskedLM",
        BERT,
        {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 32},
        text,
    ),
    "hf_bloom": ("Bloom", "BloomForCausalLM", ("hidden_size", "n_layer", "n_head"), {}, text),
    "hf_gemma2": (
        "Gemma2",
        "Gemma2ForCausalLM",
        BERT,
        {**_HALF_OF_THE_HEADS, "head_dim": lambda o: o.width // o.heads, "sliding_window": lambda o: o.length // 2},
        text,
    ),
    "hf_gpt_neox": ("GPTNeoX", "GPTNeoXForCausalLM", BERT, LONGEST, text),
    "hf_opt": (
        "OPT",
        "OPTForCausalLM",
        ("hidden_size", "num_hidden_layers", "num_attention_heads", "ffn_dim"),
        {**LONGEST, "word_embed_proj_dim": lambda o: o.width},
        text,
    ),
    "hf_phi": ("Phi", "PhiForCausalLM", BERT, LONGEST, text),
    "hf_qwen3": (
        "Qwen3",
        "Qwen3ForCausalLM",
        BERT,
        {**_HALF_OF_THE_HEADS, "head_dim": lambda o: o.width // o.heads},
        text,
    ),
    "hf_mbart": ("MBart", "MBartForConditionalGeneration", BART, _DECODER, text_to_text),
    "hf_pegasus": ("Pegasus", "PegasusForConditionalGeneration", BART, _DECODER, text_to_text),
    "hf_beit": ("Beit", "BeitForImageClassification", BERT, {**_PIECES, "vocab_size": 99}, pictures),
    "hf_deit": ("DeiT", "DeiTForImageClassification", BERT, _PIECES, pictures),
}

_TIMM = """
    beit_base_patch16_224 coat_tiny convnext_atto deit_tiny_patch16_224 densenet121 edgenext_xx_small efficientnet_b0
    fastvit_t8 ghostnet_100 hrnet_w18_small inception_v3 levit_128s mixer_s16_224 mobilenetv3_small_100 poolformer_s12
    regnety_002 repvgg_a0 res2net50_26w_4s resnest14d swin_tiny_patch4_window7_224 vit_tiny_patch16_224
    xcit_nano_12_p16_224
"""

_IMAGES = {"channels": 3, "classes": 10}
_TIMM_SIZES = {
    "small": {**_IMAGES, "batch": 2, "image": 160},  # smaller ones end in one pixel, on which no batch norm is stable
    "medium": {**_IMAGES, "batch": 4, "image": 192},
    "large": {**_IMAGES, "batch": 64, "image": 224},
}


def _timm(name):
    def model(o):
        import timm

        made = timm.create_model(name, num_classes=o.classes)
        if made.default_cfg.get("fixed_input_size"):  # then the batch has such images too
            o.image = made.default_cfg["input_size"][-1]
        return made

    return Entry(f"timm_{name}", model, images, classify, _TIMM_SIZES)


def _entries():
    if importlib.util.find_spec("transformers"):
        for name, (family, head, knobs, extra, batch) in _TRANSFORMERS.items():
            yield Entry(name, make(family, head, knobs, extra), batch, own_loss, SIZES, "labels")
    if importlib.util.find_spec("timm"):
        yield from map(_timm, _TIMM.split())


FURTHER = {entry.name: entry for entry in _entries()}
