"""Models that the benchmark adds where their packages are installed: image models of `timm`, more of `transformers`.

Goes in: a name or a row of the tables below.  Comes out: `FURTHER[name]`, an `Entry` like those of the zoo; a package
is imported only when one of its models is built.
"""

import importlib.util

from . import huggingface as hf
from .registry import Entry, classify, images, sizes

_HEADS = {**hf.HALF_OF_THE_HEADS, "head_dim": lambda o: o.width // o.heads}
_PLACES = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 32}
_OPT = ("hidden_size", "num_hidden_layers", "num_attention_heads", "ffn_dim")

# as the table in huggingface.py
_TRANSFORMERS = {
    "hf_roberta": ("Roberta", "ForMaskedLM", hf.BERT, {"max_position_embeddings": lambda o: o.length + 64}, hf.text),
    "hf_deberta": ("DebertaV2", "ForMaskedLM", hf.BERT, _PLACES, hf.text),
    "hf_bloom": ("Bloom", "ForCausalLM", ("hidden_size", "n_layer", "n_head"), {}, hf.text),
    "hf_gemma2": ("Gemma2", "ForCausalLM", hf.BERT, {**_HEADS, **hf.WINDOW}, hf.text),
    "hf_gpt_neox": ("GPTNeoX", "ForCausalLM", hf.BERT, hf.LONGEST, hf.text),
    "hf_opt": ("OPT", "ForCausalLM", _OPT, {**hf.LONGEST, "word_embed_proj_dim": lambda o: o.width}, hf.text),
    "hf_phi": ("Phi", "ForCausalLM", hf.BERT, hf.LONGEST, hf.text),
    "hf_qwen3": ("Qwen3", "ForCausalLM", hf.BERT, _HEADS, hf.text),
    "hf_mbart": ("MBart", "ForConditionalGeneration", hf.BART, hf.DECODER, hf.text_to_text),
    "hf_pegasus": ("Pegasus", "ForConditionalGeneration", hf.BART, hf.DECODER, hf.text_to_text),
    "hf_beit": ("Beit", "ForImageClassification", hf.BERT, {**hf.PIECES, "vocab_size": 99}, hf.pictures),
    "hf_deit": ("DeiT", "ForImageClassification", hf.BERT, hf.PIECES, hf.pictures),
}

_TIMM = """
    beit_base_patch16_224 coat_tiny convnext_atto deit_tiny_patch16_224 densenet121 edgenext_xx_small efficientnet_b0
    fastvit_t8 ghostnet_100 hrnet_w18_small inception_v3 levit_128s mixer_s16_224 mobilenetv3_small_100 poolformer_s12
    regnety_002 repvgg_a0 res2net50_26w_4s resnest14d swin_tiny_patch4_window7_224 vit_tiny_patch16_224
    xcit_nano_12_p16_224
"""

# smaller ones end in one pixel, on which no batch norm is stable
_TIMM_SIZES = sizes(channels=3, classes=10, batch=(2, 4, 64), image=(160, 192, 224))


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
        yield from hf.entries(_TRANSFORMERS)
    if importlib.util.find_spec("timm"):
        yield from map(_timm, _TIMM.split())


FURTHER = {entry.name: entry for entry in _entries()}
