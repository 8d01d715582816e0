"""Examples: caches, rotary embeddings, masks, experts, samplers, boxes, windows and metrics, as models have them."""

import functools
import inspect
import math

import torch
import torch.nn.functional as F
from corpus import example
from torch import nn


class DynamicCache:
    def __init__(self):
        self.key_cache, self.value_cache, self._seen = ([], [], 0)

    def update(self, k, v, idx):
        if idx == 0:
            self._seen += k.shape[-2]
        if len(self.key_cache) <= idx:
            self.key_cache.append(k)
            self.value_cache.append(v)
        else:
            self.key_cache[idx] = torch.cat([self.key_cache[idx], k], dim=-2)
            self.value_cache[idx] = torch.cat([self.value_cache[idx], v], dim=-2)
        return (self.key_cache[idx], self.value_cache[idx])

    def __len__(self):
        return len(self.key_cache)

    def __getitem__(self, i):
        return (self.key_cache[i], self.value_cache[i])

    def __iter__(self):
        for i in range(len(self)):
            yield self[i]

    def to_legacy_cache(self):
        return tuple(((k, v) for k, v in self))

    @classmethod
    def from_legacy_cache(cls, past=None):
        c = cls()
        if past is not None:
            for i in range(len(past)):
                c.update(*past[i], i)
        return c


@example("transformers")
def dynamic_cache(x):
    c = DynamicCache.from_legacy_cache(((x, x),))
    for _ in range(2):
        k, v = c.update(x, x + 1, 0)
    return (k @ v.T, c.to_legacy_cache(), c._seen)


class StaticCache(nn.Module):
    def __init__(self):
        super().__init__()
        for i in range(2):
            self.register_buffer(f"k_{i}", torch.zeros(1, 8, 3))

    def forward(self, x, pos):
        for i in range(2):
            k = getattr(self, f"k_{i}")
            k[:, pos] = x
            k.index_copy_(1, pos + 4, x[None])
        return self.k_0.sum() + self.k_1.mean()


def static_cache():
    m = StaticCache()
    return (lambda x: m(x, torch.arange(4)), m)


example("transformers", make=True)(static_cache)


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


@example("transformers", torch.randn(2, 4, 8))
def rotary(x):
    inv = 1.0 / 10000 ** (torch.arange(0, 8, 2, dtype=torch.int64).float() / 8)
    freqs = torch.outer(torch.arange(4), inv)
    emb = torch.cat((freqs, freqs), -1)
    with torch.autocast(device_type="cpu", enabled=False):
        cos, sin = (emb.cos().to(x.dtype), emb.sin())
    fc = torch.polar(torch.ones_like(freqs), freqs)
    y = torch.view_as_real(torch.view_as_complex(x.float().reshape(2, 4, 4, 2)) * fc).flatten(2)
    return (x * cos + rotate_half(x) * sin, y)


@example("transformers")
def causal_mask(x):
    n = x.shape[0]
    m = torch.full((n, n), torch.finfo(x.dtype).min).triu_(1)
    m = m[None, None].expand(2, 1, -1, -1).clone()
    pad = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])
    m[:, :, :, :4] = m[:, :, :, :4].masked_fill(pad[:, None, None, :].eq(0), -10000.0)
    return m.softmax(-1) @ x


def moe():
    experts = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
    gate = nn.Linear(3, 2)

    def f(x):
        w, idx = torch.topk(gate(x).softmax(-1), 1)
        mask = F.one_hot(idx, 2).permute(2, 1, 0)
        out = torch.zeros_like(x)
        for i, e in enumerate(experts):
            out = out + e(x) * mask[i, 0, :, None] * w
        return out

    return f


example("transformers", make=True)(moe)


def moe_where():
    experts = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
    gate = nn.Linear(3, 2)

    def f(x):
        w, idx = torch.topk(gate(x).softmax(-1), 1)
        mask = F.one_hot(idx, 2).permute(2, 1, 0)
        out = torch.zeros_like(x)
        for i in range(2):
            s, top = torch.where(mask[i])
            out.index_add_(0, top, experts[i](x[top]) * w[top, s, None])
        return out

    return f


example("transformers", make=True)(moe_where)


class Processors(list):
    def __call__(self, ids, scores, **kw):
        for p in self:
            args = inspect.signature(p.__call__).parameters
            if len(args) > 2:
                if not all((a in kw for a in list(args.keys())[2:])):
                    raise ValueError("missing")
                scores = p(ids, scores, **kw)
            else:
                scores = p(ids, scores)
        return scores


class Temp:
    def __init__(self, t):
        self.t = t

    def __call__(self, ids, scores):
        return scores / self.t


class TopK:
    def __init__(self, k):
        self.k = k

    def __call__(self, ids, scores):
        return scores.masked_fill(scores < torch.topk(scores, self.k)[0][..., -1, None], -float("inf"))


def logits_processors():
    ps = Processors([Temp(0.7), TopK(2)])
    return lambda x: ps(None, x).softmax(-1)


example("transformers", make=True)(logits_processors)


def greedy():
    emb, head = (nn.Embedding(5, 3), nn.Linear(3, 5))

    def f(x):
        ids = torch.zeros(2, 1, dtype=torch.long)
        done = torch.zeros(2, dtype=torch.bool)
        for _ in range(3):
            nxt = head(emb(ids[:, -1])).argmax(-1)
            nxt = torch.where(done, torch.zeros_like(nxt), nxt)
            ids = torch.cat([ids, nxt[:, None]], 1)
            done = done | nxt.eq(4)
            if done.all():
                break
        return ids

    return f


example("transformers", make=True)(greedy)


class Sched:
    order = 1

    def __init__(self, n=10):
        self.betas = torch.linspace(0.1, 0.2, n)
        self.alphas = torch.cumprod(1 - self.betas, 0)
        self.timesteps = torch.arange(n).flip(0)
        self._step = None
        self.outs = [None] * 2

    def index_for_timestep(self, t):
        idx = (self.timesteps == t).nonzero()
        return idx[0].item()

    def step(self, eps, t, x):
        if self._step is None:
            self._step = 0
        a = self.alphas[t]
        prev = self.alphas[t - 1] if t > 0 else torch.tensor(1.0)
        x0 = (x - (1 - a) ** 0.5 * eps) / a**0.5
        self.outs = self.outs[1:] + [x0]
        self._step += 1
        return prev**0.5 * x0 + (1 - prev) ** 0.5 * eps


def scheduler_loop():
    s = Sched()

    def f(x):
        for t in range(3, 0, -1):
            x = s.step(x * 0.1, t, x)
        return (x, s._step)

    return f


example("diffusers", make=True)(scheduler_loop)


@example("torchvision", torch.tensor([[0.0, 0, 2, 2], [1, 1, 3, 3], [0, 0, 1, 1]]), torch.tensor([0.9, 0.8, 0.7]))
def box_iou(b, s):
    area = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    lt = torch.max(b[:, None, :2], b[:, :2])
    rb = torch.min(b[:, None, 2:], b[:, 2:])
    inter = (rb - lt).clamp(min=0).prod(2)
    x1, y1, x2, y2 = b.unbind(-1)
    return (
        inter / (area[:, None] + area - inter),
        torch.stack(((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1), -1),
        s.sort(descending=True)[1],
    )


@example("torchvision", torch.tensor([[0.0, 0, 2, 2], [1, 1, 3, 3]]), torch.tensor([0.9, 0.1]))
def keep_boxes(b, s):
    keep = torch.where(s > 0.5)[0]
    return (b[keep], s[keep])


class ConvNormAct(nn.Sequential):
    def __init__(self, i, o, norm=nn.BatchNorm2d, act=nn.ReLU, conv=nn.Conv2d):
        layers = [conv(i, o, 3, padding=1, bias=norm is None)]
        if norm is not None:
            layers.append(norm(o))
        if act is not None:
            layers.append(act(**{"inplace": True} if act is nn.ReLU else {}))
        super().__init__(*layers)
        self.out_channels = o


def conv_norm_act():
    m = ConvNormAct(1, 2)
    return lambda x: (m(x[None, None]), m.out_channels, len(m), m[0].kernel_size)


example("torchvision", make=True)(conv_norm_act)


@example("timm", torch.randn(1, 4, 4, 3))
def window_partition(x):
    B, H, W, C = x.shape
    w = x.view(B, H // 2, 2, W // 2, 2, C).permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, 2, 2, C)
    s = torch.roll(x, shifts=(-1, -1), dims=(1, 2))
    m = torch.zeros((1, H, W, 1))
    cnt = 0
    for h in (slice(0, -2), slice(-2, -1), slice(-1, None)):
        for ww in (slice(0, -2), slice(-2, -1), slice(-1, None)):
            m[:, h, ww, :] = cnt
            cnt += 1
    return (w, s, m)


@example("timm", torch.randn(1, 17, 8))
def resample_pos(pe):
    pre, pe = (pe[:, :1], pe[:, 1:])
    hw = int(math.sqrt(pe.shape[1]))
    pe = F.interpolate(
        pe.reshape(1, hw, hw, -1).permute(0, 3, 1, 2), size=(6, 6), mode="bicubic", antialias=True, align_corners=False
    )
    return torch.cat([pre, pe.permute(0, 2, 3, 1).flatten(1, 2)], dim=1)


@example("timm")
def partial_norm(x):
    norm = functools.partial(nn.LayerNorm, eps=1e-06)
    return (norm(3)(x), norm.keywords["eps"], norm.func.__name__)


def grad_accum():
    net = nn.Linear(3, 1)
    opt = torch.optim.SGD(net.parameters(), 0.1)

    def f(x):
        total = 0.0
        for i, batch in enumerate(x.split(2)):
            loss = net(batch).square().mean() / 2
            total = total + loss.detach()
            loss.backward()
            if (i + 1) % 2 == 0:
                opt.step()
                opt.zero_grad()
        return total

    return (f, net)


example("lightning", make=True)(grad_accum)


class Metric(nn.Module):
    def __init__(self):
        super().__init__()
        self._defaults = {}
        self.add_state("total", torch.tensor(0.0))
        self.add_state("n", torch.tensor(0))
        self.update = self._wrap(self.update)

    def add_state(self, name, default):
        setattr(self, name, default)
        self._defaults[name] = default.clone()

    def _wrap(self, fn):

        @functools.wraps(fn)
        def wrapped(*a, **k):
            self._computed = None
            with torch.set_grad_enabled(False):
                fn(*a, **k)

        return wrapped

    def update(self, x):
        self.total += x.sum()
        self.n += x.numel()

    def compute(self):
        return self.total / self.n

    def reset(self):
        for k, v in self._defaults.items():
            setattr(self, k, v.detach().clone())

    def forward(self, x):
        cache = {k: getattr(self, k) for k in self._defaults}
        self.reset()
        self.update(x)
        r = self.compute()
        for k, v in cache.items():
            setattr(self, k, v)
        self.update(x)
        return r


def torchmetric():
    m = Metric()
    return lambda x: (m(x), m.compute())


example("lightning", make=True)(torchmetric)
