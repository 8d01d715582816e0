"""Examples: layers and functionals of torch.nn, and models made of them."""

import math

import torch
import torch.nn.functional as F
from corpus import I, V, X, Y, example
from corpus_modules import seeded
from torch import nn

IMAGE = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(4))
SEQUENCE = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(5))


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


@example("F.* with Python bodies", IMAGE, also=[(IMAGE[:1],)], make=True)
def batch_norm_trains():
    module = seeded(ConvNet)
    return module, module._modules["norm"]._buffers


class Attention(nn.Module):
    def __init__(self, width=8, heads=2):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("mask", torch.ones(16, 16).tril().bool())

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (p.view(b, t, self.heads, c // self.heads).transpose(1, 2) for p in self.qkv(x).chunk(3, dim=-1))
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        scores = scores.masked_fill(~self.mask[:t, :t], float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).contiguous().view(b, t, c))


@example("F.* with Python bodies", SEQUENCE, also=[(SEQUENCE[:, :3],)], make=True)
def attention_by_hand():
    return seeded(Attention)


@example("F.* with Python bodies", SEQUENCE, make=True)
def multihead_attention():
    attention = seeded(lambda: nn.MultiheadAttention(8, 2, batch_first=True))
    return lambda x: attention(x, x, x, need_weights=True)


@example("F.* with Python bodies", SEQUENCE, make=True)
def transformer_encoder_layer():
    return seeded(lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)).eval()


@example("F.* with Python bodies", SEQUENCE, make=True)
def transformer_decoder_stack():
    layer = seeded(lambda: nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True))
    decoder = nn.TransformerDecoder(layer, 2)
    return lambda x: decoder(x, x * 2, tgt_is_causal=True, tgt_mask=nn.Transformer.generate_square_subsequent_mask(5))


@example("F.* with Python bodies", SEQUENCE, make=True)
def gru_layer():
    gru = seeded(lambda: nn.GRU(8, 4, batch_first=True))
    return lambda x: gru(x)[0][:, -1]


@example("F.* with Python bodies", SEQUENCE, make=True)
def lstm_cell_loop():
    cell = seeded(lambda: nn.LSTMCell(8, 4))

    def forward(x):
        h = c = x.new_zeros(x.shape[0], 4)
        for t in range(x.shape[1]):
            h, c = cell(x[:, t], (h, c))
        return h

    return forward


@example("F.* with Python bodies")
def dropout_functional(x):
    return F.dropout(x, 0.5, training=True) + F.dropout(x, 0.5, training=False)


@example("F.* with Python bodies", X, I[:, 0] % 3)
def losses(x, target):
    cross = F.cross_entropy(x, target, label_smoothing=0.1, ignore_index=2)
    return cross + F.nll_loss(x.log_softmax(1), target) + F.mse_loss(x, x * 2) + F.smooth_l1_loss(x, x + 1)


@example("F.* with Python bodies", X, Y)
def more_losses(x, y):
    a = F.binary_cross_entropy_with_logits(x, y.sigmoid()) + F.kl_div(
        x.log_softmax(1), y.softmax(1), reduction="batchmean"
    )
    return a + F.cosine_similarity(x, y).sum() + F.huber_loss(x, y) + F.triplet_margin_loss(x, y, x + y)


@example("F.* with Python bodies", IMAGE)
def interpolate_and_pad(image):
    up = F.interpolate(image, scale_factor=2, mode="bilinear", align_corners=False)
    down = F.interpolate(image, size=(4, 4), mode="nearest")
    return up.mean() + down, F.pad(image, (1, 1, 2, 0), mode="reflect").shape, F.pad(down, (1, 1), value=2.0)


@example("F.* with Python bodies", IMAGE)
def pooling(image):
    a, indices = F.max_pool2d(image, 2, return_indices=True)
    return F.max_unpool2d(a, indices, 2) + F.avg_pool2d(image, 3, stride=1, padding=1), F.lp_pool2d(image, 2, 2)


@example("F.* with Python bodies", IMAGE)
def grid_sample(image):
    theta = torch.eye(2, 3).repeat(2, 1, 1)
    grid = F.affine_grid(theta, image.size(), align_corners=False)
    return F.grid_sample(image, grid, align_corners=False)


@example("F.* with Python bodies", torch.tensor([[0, 2], [1, 1]]), make=True)
def embedding_and_bag():
    table = seeded(lambda: nn.Embedding(4, 3, padding_idx=0))
    bag = seeded(lambda: nn.EmbeddingBag(4, 3, mode="mean"))
    return lambda ids: table(ids).sum() + bag(ids) + F.one_hot(ids, 4).sum(1)[:, :3]


@example("F.* with Python bodies", X)
def gumbel_and_activations(x):
    y = F.gumbel_softmax(x, tau=0.5, hard=True)
    return (
        y + F.gelu(x, approximate="tanh") + F.silu(x) + F.hardswish(x) + F.glu(torch.cat([x, x], 1)) + F.softmin(x, 1)
    )


@example("F.* with Python bodies", IMAGE, make=True)
def norms_of_each_kind():
    layers = nn.ModuleList([nn.GroupNorm(3, 3), nn.InstanceNorm2d(3), nn.LayerNorm([8, 8]), nn.LocalResponseNorm(2)])

    def forward(x):
        for layer in layers:
            x = layer(x) + x
        return x

    return forward


@example("F.* with Python bodies", SEQUENCE, make=True)
def rms_norm_and_rotary():
    norm = nn.RMSNorm(8)

    def rotate_half(x):
        a, b = x.chunk(2, dim=-1)
        return torch.cat((-b, a), dim=-1)

    def forward(x):
        angles = torch.outer(torch.arange(x.shape[1]), 1.0 / 10 ** (torch.arange(0, 8, 2) / 8)).repeat(1, 2)
        return norm(x) * angles.cos() + rotate_half(norm(x)) * angles.sin()

    return forward


class MixtureOfExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(3, 2)
        self.experts = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(1)
        output = torch.zeros_like(x)
        for k, expert in enumerate(self.experts):
            output = output + torch.where(chosen == k, expert(x) * weights, 0.0)
        return output


@example("F.* with Python bodies", make=True)
def mixture_of_experts_dense():
    return seeded(MixtureOfExperts)


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 8, 3, 2, 1)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(8, 4, 2, 2), nn.ConvTranspose2d(8, 3, 2, 2)])

    def forward(self, x):
        skips = []
        for layer in self.down:
            x = F.relu(layer(x))
            skips.append(x)
        skips.pop()
        for layer in self.up:
            x = layer(x if not skips or len(skips) == 1 and x.shape[1] == 8 else torch.cat([x, skips.pop()], 1))
        return x


@example("F.* with Python bodies", IMAGE, make=True)
def skip_connections():
    return seeded(Unet)


@example("F.* with Python bodies", IMAGE, make=True)
def channels_last_and_half():
    net = seeded(ConvNet).eval().to(memory_format=torch.channels_last)
    return lambda x: net(x.to(memory_format=torch.channels_last)).to(torch.bfloat16)


@example("F.* with Python bodies", X)
def linear_functional(x):
    weight = torch.ones(2, 3)
    return F.linear(x, weight, bias=torch.zeros(2)) + F.bilinear(x, x, torch.ones(2, 3, 3))


@example("F.* with Python bodies", X, V)
def layer_norm_functional(x, v):
    return F.layer_norm(x, (3,), weight=v, eps=1e-6) + F.rms_norm(x, (3,)) + F.normalize(x, dim=0)


@example("F.* with Python bodies", IMAGE)
def convolution_functional(image):
    kernel = torch.ones(3, 1, 3, 3) / 9
    return F.conv2d(image, kernel, padding="same", groups=3) + F.unfold(image, 3, padding=1).sum(), F.pixel_shuffle(
        torch.ones(1, 4, 2, 2), 2
    )


@example("F.* with Python bodies", X, make=True)
def clip_gradient_norm():
    linear = seeded(lambda: nn.Linear(3, 1))
    for p in linear.parameters():
        p.grad = torch.ones_like(p) * 3

    def forward(x):
        total = nn.utils.clip_grad_norm_(linear.parameters(), 1.0)
        return total + linear.weight.grad

    return forward
