"""One small differentiable program for each lowering, by family: functions of x and y, 3x4 tensors in (0.2, 0.8)."""

import torch

F = torch.nn.functional
aten = torch.ops.aten
ROWS = torch.tensor([2, 0, 2])
PLACES = torch.tensor([[0, 2, 1, 1], [2, 1, 0, 2], [1, 1, 2, 0]])
UNIQUE = torch.tensor([[0, 2, 1, 1], [2, 1, 0, 2], [1, 0, 2, 0]])  # no row twice in a column
MASK = torch.tensor([[True, False, True, True], [False, True, True, False], [True, True, False, True]])


def centered(x):
    return x - 0.5


def image(x):
    return x.reshape(1, 1, 3, 4)


def batch(x):
    return x.reshape(2, 2, 3)


ELEMENTWISE = {
    "abs": lambda x, y: centered(x).abs(),
    "acos": lambda x, y: x.acos(),
    "acosh": lambda x, y: (x + 1).acosh(),
    "add": lambda x, y: torch.add(x, y, alpha=2.5),
    "angle": lambda x, y: x.angle() * x,
    "asin": lambda x, y: x.asin(),
    "asinh": lambda x, y: x.asinh(),
    "atan": lambda x, y: x.atan(),
    "atan2": lambda x, y: torch.atan2(centered(x), y),
    "atanh": lambda x, y: x.atanh(),
    "ceil": lambda x, y: x.ceil() * x,
    "clamp": lambda x, y: x.clamp(0.3, 0.7),
    "clamp_max": lambda x, y: x.clamp_max(0.6),
    "clamp_min": lambda x, y: x.clamp_min(0.4),
    "copysign": lambda x, y: torch.copysign(x, centered(y)),
    "cos": lambda x, y: x.cos(),
    "cosh": lambda x, y: x.cosh(),
    "digamma": lambda x, y: x.digamma(),
    "div": lambda x, y: x / y,
    "erf": lambda x, y: x.erf(),
    "erfc": lambda x, y: x.erfc(),
    "erfinv": lambda x, y: x.erfinv(),
    "exp": lambda x, y: x.exp(),
    "exp2": lambda x, y: x.exp2(),
    "expm1": lambda x, y: x.expm1(),
    "floor": lambda x, y: (x * 5).floor() * x,
    "fmax": lambda x, y: torch.fmax(x, y),
    "fmin": lambda x, y: torch.fmin(x, y),
    "fmod": lambda x, y: torch.fmod(x * 3, y),
    "hypot": lambda x, y: torch.hypot(x, y),
    "leaky_relu": lambda x, y: F.leaky_relu(centered(x), 0.1),
    "lgamma": lambda x, y: x.lgamma(),
    "log": lambda x, y: x.log(),
    "log10": lambda x, y: x.log10(),
    "log1p": lambda x, y: x.log1p(),
    "log2": lambda x, y: x.log2(),
}
ELEMENTWISE_2 = {
    "maximum": lambda x, y: torch.maximum(x, y),
    "minimum": lambda x, y: torch.minimum(x, y),
    "mul": lambda x, y: x * y,
    "neg": lambda x, y: -x,
    "pow": lambda x, y: x**y + x**3 + 2.0**x,
    "reciprocal": lambda x, y: x.reciprocal(),
    "relu": lambda x, y: centered(x).relu(),
    "remainder": lambda x, y: torch.remainder(x * 3, y),
    "round": lambda x, y: x.round() * x,
    "rsqrt": lambda x, y: x.rsqrt(),
    "sgn": lambda x, y: centered(x).sgn() * x,
    "sigmoid": lambda x, y: x.sigmoid(),
    "sign": lambda x, y: centered(x).sign() * x,
    "sin": lambda x, y: x.sin(),
    "sinh": lambda x, y: x.sinh(),
    "sqrt": lambda x, y: x.sqrt(),
    "square": lambda x, y: x.square(),
    "sub": lambda x, y: torch.sub(x, y, alpha=0.5),
    "tan": lambda x, y: x.tan(),
    "tanh": lambda x, y: x.tanh(),
    "trunc": lambda x, y: (x * 3).trunc() * x,
    "where": lambda x, y: torch.where(MASK, x, y * 2),
    "masked_fill": lambda x, y: x.masked_fill(MASK, 1.5) * y,
    "to another type": lambda x, y: x.float().double() * 0 + x,
    "clone": lambda x, y: x.clone(memory_format=torch.contiguous_format) * y,
    "copy": lambda x, y: torch.zeros(3, 4, dtype=x.dtype).copy_(x) * y,
    "silu": lambda x, y: F.silu(x),
    "gelu": lambda x, y: F.gelu(x) + F.gelu(y, approximate="tanh"),
    "softplus": lambda x, y: F.softplus(x),
    "elu": lambda x, y: F.elu(centered(x)),
    "hardtanh": lambda x, y: F.hardtanh(x, 0.3, 0.7),
    "mish": lambda x, y: F.mish(x),
    "hardswish": lambda x, y: F.hardswish(x),
    "logsigmoid": lambda x, y: F.logsigmoid(x),
}
REDUCTIONS = {
    "amax": lambda x, y: x.amax(1),
    "amin": lambda x, y: x.amin((0, 1)),
    "cumprod": lambda x, y: x.cumprod(1),
    "cumsum": lambda x, y: x.cumsum(0),
    "max": lambda x, y: (x.max(), x.max(1)[0]),
    "mean": lambda x, y: (x.mean(), x.mean(1, keepdim=True)),
    "min": lambda x, y: (x.min(), x.min(0)[0]),
    "prod": lambda x, y: (x.prod(), x.prod(1)),
    "sum": lambda x, y: (x.sum(), x.sum((0, 1)), x.sum(0, keepdim=True)),
    "var": lambda x, y: (x.var(1), x.std(), torch.var_mean(x, 0)[0]),
    "logsumexp": lambda x, y: x.logsumexp(1),
    "norm": lambda x, y: (x.norm(), torch.linalg.vector_norm(x, 3, dim=1)),
    "softmax": lambda x, y: x.softmax(1) * y,
    "log_softmax": lambda x, y: x.log_softmax(0) * y,
    "cross_entropy": lambda x, y: F.cross_entropy(x, ROWS) + F.nll_loss(y.log(), ROWS),
    "layer_norm": lambda x, y: F.layer_norm(x, (4,), y[0], y[1]),
    "group_norm": lambda x, y: F.group_norm(x.view(1, 4, 3), 2, y[0], y[1]),
    "batch_norm": lambda x, y: F.batch_norm(x, None, None, y[0], y[1], training=True),
    "losses": lambda x, y: (
        F.smooth_l1_loss(x, y) + F.mse_loss(x, y) + F.binary_cross_entropy(x, y) + F.huber_loss(x, y)
    ),
    "sort": lambda x, y: (x.sort(1)[0], x.topk(2, 0)[0], x.median(1)[0]),
    "logcumsumexp": lambda x, y: x.logcumsumexp(1),
    "cummax": lambda x, y: (x.cummax(1)[0], y.cummin(0)[0]),
}
VIEWS = {
    "alias": lambda x, y: aten.alias(x) * y,
    "as_strided": lambda x, y: x.as_strided((2, 2), (1, 2), 1) * 2,
    "cat": lambda x, y: torch.cat([x, y, x], 1),
    "constant_pad_nd": lambda x, y: F.pad(x, (1, 2, 0, 1), value=3.0),
    "mirrored": lambda x, y: [
        F.pad(x, (1, 2), "reflect"),
        F.pad(x[None], (1, 2, 2, 0), "reflect") * y.sum(),
        F.pad(x.view(1, 3, 2, 2), (1, 1, 0, 1, 2, 1), "reflect"),
    ],
    "repeated edge": lambda x, y: [
        F.pad(x, (1, 2), "replicate"),
        F.pad(x[None], (1, 2, 2, 0), "replicate") * y.sum(),
        F.pad(x.view(1, 3, 2, 2), (1, 3, 0, 1, 2, 1), "replicate"),
    ],
    "diagonal": lambda x, y: x.diagonal() * 2,
    "diagonal_scatter": lambda x, y: torch.diagonal_scatter(x, y[0, :3]),
    "expand": lambda x, y: x[:1].expand(3, 4) * y,
    "flip": lambda x, y: x.flip(0, 1) * y,
    "narrow": lambda x, y: x.narrow(1, 1, 2) * 3,
    "permute": lambda x, y: x.permute(1, 0).contiguous() * 2,
    "repeat": lambda x, y: x.repeat(2, 1, 2),
    "reshape": lambda x, y: x.t().reshape(-1) * 2,
    "roll": lambda x, y: x.roll((1, 2), (0, 1)) * y,
    "select": lambda x, y: x.select(0, 1) * y,
    "select_scatter": lambda x, y: torch.select_scatter(x, y[0], 0, 2),
    "slice": lambda x, y: x[1:, ::2] * 2,
    "slice_scatter": lambda x, y: torch.slice_scatter(x, y[:2], 0, 1, 3),
    "split": lambda x, y: [p * 2 for p in x.split(2, 1)],
    "split_with_sizes": lambda x, y: [p * 2 for p in x.split([1, 3], 1)],
    "unsafe_split": lambda x, y: [p * 2 for p in torch.unsafe_split(x, 2, 1)],
    "squeeze": lambda x, y: x[:1].squeeze(0) * y,
    "stack": lambda x, y: torch.stack([x, y], 1),
    "transpose": lambda x, y: x.t() * y.transpose(0, 1),
    "tril": lambda x, y: x.tril() + y.triu(1),
    "unbind": lambda x, y: [p * 2 for p in x.unbind(1)],
    "unfold": lambda x, y: x.unfold(1, 2, 1) * 2,
    "unsqueeze": lambda x, y: x.unsqueeze(1) * y,
    "view": lambda x, y: x.view(2, 6) * 2,
    "written": lambda x, y: (x * 1).add_(y).mul_(x),
    "written view": lambda x, y: (lambda z: (z[0].mul_(y[1]), z)[1])(x * 1),
}
INDEXING = {
    "embedding": lambda x, y: F.embedding(PLACES, x),
    "gather": lambda x, y: x.gather(0, PLACES),
    "index": lambda x, y: (x[ROWS], x[ROWS, ROWS], x[ROWS[:, None], PLACES[0]]),
    "index_add": lambda x, y: x.index_add(0, ROWS, y, alpha=2.0),
    "index_copy": lambda x, y: x.index_copy(0, ROWS[:2], y[:2]),
    "index_put": lambda x, y: x.index_put((ROWS[:2],), y[:2]) + x.index_put((ROWS,), y, accumulate=True),
    "index_select": lambda x, y: x.index_select(1, ROWS),
    "scatter": lambda x, y: (x.scatter(0, UNIQUE, y), x.scatter(0, PLACES, 2.0)),
    "scatter_add": lambda x, y: x.scatter_add(0, PLACES, y),
    "scatter_reduce": lambda x, y: [x.scatter_reduce(0, PLACES, y, how) for how in ("sum", "mean", "amax", "amin")],
    "take": lambda x, y: x.take(PLACES),
    "take_along_dim": lambda x, y: x.take_along_dim(PLACES, 0),
    "embedding_bag": lambda x, y: F.embedding_bag(PLACES, x, mode="sum"),
    "upsample": lambda x, y: [
        F.interpolate(image(x), scale_factor=2, mode=mode) for mode in ("nearest", "nearest-exact", "bilinear")
    ],
    "upsample of others": lambda x, y: (
        F.interpolate(x.view(1, 3, 4), scale_factor=2),
        F.interpolate(x.view(1, 1, 1, 3, 4), scale_factor=2),
    ),
    "upsample by sizes": lambda x, y: (
        aten.upsample_nearest1d(x.view(1, 3, 4), [7]),
        aten.upsample_nearest2d(image(x), [5, 7]),
        aten.upsample_nearest3d(x.view(1, 1, 1, 3, 4), [2, 5, 7]),
        aten._upsample_nearest_exact1d(x.view(1, 3, 4), [7]),
        aten._upsample_nearest_exact2d(image(x), [5, 7]),
        aten._upsample_nearest_exact3d(x.view(1, 1, 1, 3, 4), [2, 5, 7]),
    ),
    "unsafe": lambda x, y: (
        aten._unsafe_masked_index(x, MASK[0, :3], [ROWS, ROWS], 0.5),
        aten._unsafe_index_put(x, [ROWS], y, True),
    ),
    "grid_sample": lambda x, y: F.grid_sample(image(x), y[:, :2].reshape(1, 1, 3, 2), align_corners=False),
}
PRODUCTS = {
    "mm": lambda x, y: x @ y.t(),
    "addmm": lambda x, y: torch.addmm(x[:, :3], x, y.t(), beta=0.5, alpha=2.0),
    "addmv": lambda x, y: torch.addmv(x[:, 0], x, y[0]),
    "baddbmm": lambda x, y: torch.baddbmm(x.view(2, 2, 3)[:, :, :2], batch(x), batch(y).mT),
    "addbmm": lambda x, y: torch.addbmm(x[:2, :2], batch(x), batch(y).mT),
    "bmm": lambda x, y: torch.bmm(batch(x), batch(y).mT),
    "dot": lambda x, y: torch.dot(x[0], y[0]) + torch.vdot(x[1], y[1]),
    "mv": lambda x, y: x @ y[0],
    "linear": lambda x, y: F.linear(x, y, y[:, 0]),
    "einsum": lambda x, y: torch.einsum("ij,kj->ik", x, y),
    "convolution": lambda x, y: F.conv2d(image(x), y[:2, :2].reshape(1, 1, 2, 2), padding=1),
    "conv1d": lambda x, y: F.conv1d(x.view(1, 3, 4), y.view(2, 3, 2), y[0, :2], stride=2),
    "conv_transpose": lambda x, y: F.conv_transpose2d(image(x), y[:2, :2].reshape(1, 1, 2, 2), stride=2),
    "attention": lambda x, y: F.scaled_dot_product_attention(batch(x)[None], batch(y)[None], batch(x * y)[None]),
    "avg_pool2d": lambda x, y: F.avg_pool2d(image(x), 2, stride=1),
    "max_pool2d": lambda x, y: F.max_pool2d(image(x), 2, stride=1),
    "adaptive_avg_pool2d": lambda x, y: F.adaptive_avg_pool2d(image(x), (2, 3)),
    "avg_pool of others": lambda x, y: F.avg_pool1d(x, 2) * 2,
    "linalg": lambda x, y: torch.linalg.solve(x[:, :3] + 3 * torch.eye(3, dtype=x.dtype), y[:, :1]),
}
FAMILIES = {
    "elementwise": ELEMENTWISE,
    "elementwise, second half": ELEMENTWISE_2,
    "reductions": REDUCTIONS,
    "views": VIEWS,
    "indexing": INDEXING,
    "products": PRODUCTS,
}
