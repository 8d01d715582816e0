"""Models on text beside the GPT: a BERT-style encoder with a padding mask, and two LSTM language models.

Goes in: token numbers (batch, length), of which some are padding.  Comes out: scores for every place.
The two LSTMs differ in who walks through time: `nn.LSTM` (one ATen call) or a Python loop over `nn.LSTMCell`s.
"""

import torch
import torch.nn as nn

from .registry import Batch, Entry, predict_tokens, sizes, tokens


class EncoderLayer(nn.Module):
    """Attention, then MLP; the norm comes after the sum, as in BERT."""

    def __init__(self, o):
        super().__init__()
        self.heads = o.heads
        self.query, self.key, self.value = (nn.Linear(o.width, o.width) for _ in range(3))
        self.output = nn.Linear(o.width, o.width)
        self.norm_1, self.norm_2 = nn.LayerNorm(o.width, eps=1e-12), nn.LayerNorm(o.width, eps=1e-12)
        self.mlp = nn.Sequential(nn.Linear(o.width, 4 * o.width), nn.GELU(), nn.Linear(4 * o.width, o.width))
        self.dropout = nn.Dropout(o.dropout)

    def split_heads(self, x):  # (B, T, C) -> (B, heads, T, C / heads)
        return x.view(*x.shape[:-1], self.heads, -1).transpose(1, 2)

    def forward(self, x, mask):  # mask: (B, 1, 1, T), 0 where attention may look, very negative where it may not
        q, k, v = (self.split_heads(linear(x)) for linear in (self.query, self.key, self.value))
        scores = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5 + mask  # (B, heads, T, T)
        mixed = (self.dropout(scores.softmax(dim=-1)) @ v).transpose(1, 2).flatten(2)
        x = self.norm_1(x + self.dropout(self.output(mixed)))
        return self.norm_2(x + self.dropout(self.mlp(x)))


class BertEncoder(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.word = nn.Embedding(o.vocab, o.width, padding_idx=0)
        self.position, self.segment = nn.Embedding(o.length, o.width), nn.Embedding(2, o.width)
        self.norm, self.dropout = nn.LayerNorm(o.width, eps=1e-12), nn.Dropout(o.dropout)
        self.layers = nn.ModuleList(EncoderLayer(o) for _ in range(o.layers))
        self.pooler = nn.Linear(o.width, o.width)
        self.head = nn.Linear(o.width, o.vocab)
        self.register_buffer("places", torch.arange(o.length).unsqueeze(0), persistent=False)

    def forward(self, ids, attention_mask=None, segments=None):
        """(scores (B, T, vocab), pooled (B, C)).  attention_mask: (B, T), 1 for a token and 0 for padding."""
        if attention_mask is None:
            attention_mask = torch.ones_like(ids)
        if segments is None:
            segments = torch.zeros_like(ids)
        x = self.word(ids) + self.position(self.places[:, : ids.size(1)]) + self.segment(segments)
        x = self.dropout(self.norm(x))
        mask = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(x), torch.tanh(self.pooler(x[:, 0]))


def padded_tokens(o):
    """Sentences of different lengths in one rectangle; -100 in the target where there is nothing to predict."""
    ids = torch.randint(1, o.vocab, (o.batch, o.length))
    lengths = torch.linspace(o.length // 2, o.length, o.batch).long()
    mask = (torch.arange(o.length) < lengths[:, None]).long()
    target = torch.randint(1, o.vocab, ids.shape).masked_fill(mask == 0, -100)
    return Batch((ids * mask,), {"attention_mask": mask}, target)


def masked_words(output, target):
    """Cross-entropy of the masked words, and a term that reaches the pooler."""
    return predict_tokens(output, target) + output[1].pow(2).mean()


class LSTMLanguageModel(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.embed, self.dropout = nn.Embedding(o.vocab, o.width), nn.Dropout(o.dropout)
        self.lstm = nn.LSTM(o.width, o.width, o.layers, dropout=o.dropout, batch_first=True)
        self.head = nn.Linear(o.width, o.vocab)
        self.head.weight = self.embed.weight

    def forward(self, ids, state=None):
        x, state = self.lstm(self.dropout(self.embed(ids)), state)  # (B, T, C)
        return self.head(self.dropout(x)), state


class LSTMCellLanguageModel(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.embed, self.dropout = nn.Embedding(o.vocab, o.width), nn.Dropout(o.dropout)
        self.cells = nn.ModuleList(nn.LSTMCell(o.width, o.width) for _ in range(o.layers))
        self.head = nn.Linear(o.width, o.vocab)
        self.head.weight = self.embed.weight

    def forward(self, ids, state=None):
        x = self.dropout(self.embed(ids))
        if state is None:
            state = [(x.new_zeros(x.size(0), x.size(2)),) * 2 for _ in self.cells]
        else:
            state = list(state)  # the caller's list is not ours to change
        outputs = []
        for step in x.unbind(dim=1):  # (B, C)
            for i, cell in enumerate(self.cells):
                state[i] = cell(step, state[i])
                step = self.dropout(state[i][0])
            outputs.append(step)
        return self.head(torch.stack(outputs, dim=1)), state


WORDS = {"dropout": 0.1, "batch": (2, 8, 32), "vocab": (53, 1000, 30522), "width": (32, 256, 768)}
LAYERS = {"layers": (2, 4, 12), "heads": (2, 4, 12)}

ENTRIES = [
    Entry("bert_encoder", BertEncoder, padded_tokens, masked_words, sizes(**WORDS, **LAYERS, length=(12, 128, 512))),
    Entry("lstm", LSTMLanguageModel, tokens, predict_tokens, sizes(**WORDS, layers=2, length=(6, 32, 128))),
    Entry("lstm_cell", LSTMCellLanguageModel, tokens, predict_tokens, sizes(**WORDS, layers=2, length=(6, 16, 32))),
]
