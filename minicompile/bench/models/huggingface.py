"""Ten architectures of Hugging Face `transformers`, unmodified, with random weights: nothing is downloaded.

Goes in: a row of the table below.  Comes out: an `Entry`; `transformers` is imported only when one is built.
"""

import importlib

import torch

from .registry import Batch, Entry, own_loss, sizes

# The knobs of each family have names of their own: width, layers, heads, MLP width.
BERT = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
T5 = ("d_model", "num_layers", "num_heads", "d_ff")
BART = ("d_model", "encoder_layers", "encoder_attention_heads", "encoder_ffn_dim")


def _load(name):
    try:
        return getattr(importlib.import_module("transformers"), name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("this model needs `pip install transformers` (extra: test)") from error


def make(family, head, knobs, extra):
    def model(o):
        values = dict(zip(knobs, (o.width, o.layers, o.heads, 4 * o.width), strict=False))
        more = {name: value(o) if callable(value) else value for name, value in extra.items()}
        return _load(head)(_load(f"{family}Config")(**{"vocab_size": o.vocab, **values, **more}))

    return model


def text(o):
    """A batch in which all sentences but the last are padded at their ends."""
    ids = torch.randint(3, o.vocab, (o.batch, o.length))
    mask = torch.ones_like(ids)
    mask[:-1, o.length - o.length // 4 :] = 0
    return Batch((), {"input_ids": ids, "attention_mask": mask}, ids.masked_fill(mask == 0, -100))


def text_to_text(o):
    """Encoder input as in `text`, and a shorter decoder side."""
    batch, target = text(o), torch.randint(3, o.vocab, (o.batch, o.length // 2))
    return Batch((), {**batch.kwargs, "decoder_input_ids": target.roll(1, dims=1)}, target)


def pictures(o):
    images = torch.randn(o.batch, 3, o.image, o.image)
    return Batch((), {"pixel_values": images}, torch.randint(10, (o.batch,)))


# As many places as the longest batch needs.
LONGEST = {"max_position_embeddings": lambda o: max(64, o.length)}


HALF_OF_THE_HEADS = {"num_key_value_heads": lambda o: o.heads // 2}
DECODER = {
    **{"decoder_layers": lambda o: o.layers, "decoder_attention_heads": lambda o: o.heads},
    **{"decoder_ffn_dim": lambda o: 4 * o.width, **LONGEST},
}
PIECES = {"image_size": lambda o: o.image, "patch_size": lambda o: o.patch, "num_labels": 10, "vocab_size": None}
NARROW = {"embedding_size": lambda o: o.width // 2, **LONGEST}
WINDOW = {"sliding_window": lambda o: o.length // 2}
GPT2 = {"n_positions": LONGEST["max_position_embeddings"], "bos_token_id": 0, "eos_token_id": 0}

# name: (family, what the class of the model has behind it, names of the knobs, other options, batch)
_TABLE = {
    "hf_bert": ("Bert", "ForMaskedLM", BERT, LONGEST, text),
    "hf_gpt2": ("GPT2", "LMHeadModel", ("n_embd", "n_layer", "n_head", "n_inner"), GPT2, text),
    "hf_llama": ("Llama", "ForCausalLM", BERT, HALF_OF_THE_HEADS, text),
    "hf_mistral": ("Mistral", "ForCausalLM", BERT, {**HALF_OF_THE_HEADS, **WINDOW}, text),
    "hf_t5": ("T5", "ForConditionalGeneration", T5, {"d_kv": lambda o: o.width // o.heads}, text_to_text),
    "hf_bart": ("Bart", "ForConditionalGeneration", BART, DECODER, text_to_text),
    "hf_vit": ("ViT", "ForImageClassification", BERT, PIECES, pictures),
    "hf_albert": ("Albert", "ForMaskedLM", BERT, NARROW, text),
    "hf_distilbert": ("DistilBert", "ForMaskedLM", ("dim", "n_layers", "n_heads", "hidden_dim"), LONGEST, text),
    "hf_electra": ("Electra", "ForMaskedLM", BERT, NARROW, text),
}
SIZES = sizes(
    **{"batch": (2, 4, 16), "length": (12, 64, 512), "width": (32, 256, 768), "layers": (2, 4, 12)},
    **{"heads": (4, 4, 12), "vocab": (99, 1000, 30522), "image": (16, 96, 224), "patch": (8, 16, 16)},
)


def entries(table):
    for name, (family, head, knobs, extra, batch) in table.items():
        yield Entry(name, make(family, family + head, knobs, extra), batch, own_loss, SIZES, "labels")


ENTRIES = list(entries(_TABLE))
