"""A GPT in the style of nanoGPT: the model that the course compiles.

Goes in: token numbers (batch, length).  Comes out: (logits, loss).  `attention="sdpa"` calls
`F.scaled_dot_product_attention`; `"manual"` writes it as matmul, mask, softmax, matmul, which a compiler can fuse.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from .registry import Entry, own_loss, sizes, tokens


class CausalSelfAttention(nn.Module):
    def __init__(self, o):
        super().__init__()
        assert o.width % o.heads == 0, f"width {o.width} is not a multiple of {o.heads} heads"
        self.heads, self.dropout, self.attention = o.heads, o.dropout, o.attention
        self.qkv = nn.Linear(o.width, 3 * o.width, bias=o.bias)  # all three projections in one matmul
        self.project = nn.Linear(o.width, o.width, bias=o.bias)
        self.residual_dropout = nn.Dropout(o.dropout)
        if o.attention == "manual":
            self.attention_dropout = nn.Dropout(o.dropout)
            past = torch.ones(o.context, o.context).tril().view(1, 1, o.context, o.context)
            self.register_buffer("past", past, persistent=False)

    def forward(self, x):  # (B, T, C)
        B, T, C = x.size()
        q, k, v = (part.view(B, T, self.heads, C // self.heads).transpose(1, 2) for part in self.qkv(x).split(C, dim=2))
        if self.attention == "sdpa":  # q, k, v: (B, heads, T, C / heads)
            dropout = self.dropout if self.training else 0.0
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=dropout, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))  # (B, heads, T, T)
            scores = scores.masked_fill(self.past[:, :, :T, :T] == 0, float("-inf"))
            y = self.attention_dropout(F.softmax(scores, dim=-1)) @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)  # heads side by side again
        return self.residual_dropout(self.project(y))


class LayerNorm(nn.Module):
    """`nn.LayerNorm` whose bias can be left out."""

    def __init__(self, width, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class MLP(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.widen = nn.Linear(o.width, 4 * o.width, bias=o.bias)
        self.gelu = nn.GELU()
        self.narrow = nn.Linear(4 * o.width, o.width, bias=o.bias)
        self.dropout = nn.Dropout(o.dropout)

    def forward(self, x):
        return self.dropout(self.narrow(self.gelu(self.widen(x))))


class Block(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.norm_1, self.attention = LayerNorm(o.width, o.bias), CausalSelfAttention(o)
        self.norm_2, self.mlp = LayerNorm(o.width, o.bias), MLP(o)

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class GPT(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.options = o
        self.transformer = nn.ModuleDict(
            {
                "token": nn.Embedding(o.vocab, o.width),
                "position": nn.Embedding(o.context, o.width),
                "dropout": nn.Dropout(o.dropout),
                "blocks": nn.ModuleList([Block(o) for _ in range(o.layers)]),
                "norm": LayerNorm(o.width, o.bias),
            }
        )
        self.head = nn.Linear(o.width, o.vocab, bias=False)
        self.transformer.token.weight = self.head.weight  # weight tying: one parameter, two uses
        self.apply(self._initialise)
        for name, parameter in self.named_parameters():
            if name.endswith(("project.weight", "narrow.weight")):  # the residual stream sums 2 * layers of these
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * o.layers))

    def _initialise(self, module):
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, idx, targets=None):  # (B, T), (B, T)
        B, T = idx.size()
        assert T <= self.options.context, f"{T} tokens do not fit into a context of {self.options.context}"
        position = torch.arange(0, T, dtype=torch.long, device=idx.device)  # (T,)
        x = self.transformer.dropout(self.transformer.token(idx) + self.transformer.position(position))  # (B, T, C)
        for block in self.transformer.blocks:
            x = block(x)
        x = self.transformer.norm(x)
        if targets is None:  # sampling: only the last place is asked for
            return self.head(x[:, [-1], :]), None  # (B, 1, vocab)
        logits = self.head(x)  # (B, T, vocab)
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)

    def configure_optimizer(self, weight_decay=0.1, lr=1e-3, betas=(0.9, 0.95)):
        """AdamW that decays matrices and embeddings, not biases and norms."""
        parameters = [p for p in self.parameters() if p.requires_grad]
        groups = [
            {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=lr, betas=betas)


@torch.no_grad()
def sample(model, idx, new_tokens, context, temperature=1.0, top_k=None):
    """Draw tokens one by one; the sequence grows until the context is full.  `model` may be compiled."""
    for _ in range(new_tokens):
        window = idx if idx.size(1) <= context else idx[:, -context:]
        logits = model(window)[0][:, -1, :] / temperature  # (B, vocab)
        if top_k is not None:
            smallest = torch.topk(logits, min(top_k, logits.size(-1))).values[:, [-1]]
            logits[logits < smallest] = -float("inf")
        idx = torch.cat((idx, torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)), dim=1)
    return idx


SIZES = {
    **{"dropout": 0.1, "bias": True, "batch": (2, 8, 16), "length": (16, 128, 1024), "context": (32, 128, 1024)},
    **{"vocab": (67, 512, 50304), "layers": (2, 6, 12), "heads": (2, 6, 12), "width": (32, 192, 768)},
}
ENTRIES = [
    Entry("gpt", GPT, tokens, own_loss, sizes(**SIZES, attention="sdpa"), "targets"),
    Entry("gpt_manual", GPT, tokens, own_loss, sizes(**SIZES, attention="manual"), "targets"),
]
