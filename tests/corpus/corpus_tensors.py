"""Examples: torch.* functions and Tensor methods: in-place, out=, tuple results, sizes, dtypes, devices, indexing."""

import torch
from corpus import I, V, X, Y, example

B = X > 0


# --- in-place and out= ----------------------------------------------------------------------------------
@example("in-place methods")
def in_place_on_argument(x):
    x.add_(1).mul_(2)
    return x.sum()


@example("in-place methods")
def in_place_on_view(x):
    x[0].fill_(7)
    x[:, 1] += 5
    x.t()[2].zero_()
    return x + 1


@example("in-place methods", X, V)
def item_assignment(x, v):
    y = x.clone()
    y[1:3] = v
    y[..., -1] = 0
    y[y > 1] = -1
    y[[0, 2], [1, 1]] = torch.tensor([8.0, 9.0])
    return y


@example("in-place methods")
def operators_in_place(x):
    y = x
    y += 1
    y *= y
    y @= torch.eye(3)
    return x, y is x


@example("in-place methods", X, I[:, :1] % 3)
def scatter_and_index_in_place(x, index):
    y = torch.zeros(4, 3).scatter_(1, index, 1.0).scatter_add_(1, index, x)
    y.index_add_(0, torch.tensor([0, 2]), torch.ones(2, 3)).index_fill_(0, torch.tensor([1]), 4)
    return y.masked_fill_(x > 1, 0.0).copy_(y * 2)


@example("out=")
def out_of_functional(x):
    out = torch.empty(4, 3)
    torch.add(x, 1, out=out)
    return out * 2


@example("out=", X, torch.zeros(4, 3))
def out_argument(x, out):
    result = torch.mul(x, 2, out=out)
    return result is out


@example("out=")
def out_tuple(x):
    values, indices = torch.empty(4), torch.empty(4, dtype=torch.int64)
    torch.max(x, 1, out=(values, indices))
    return values + indices


@example("in-place methods", X.clone().requires_grad_())
def detach_and_data(x):
    y = x.detach()
    z = x.data + 1
    return x * 2 + y, z, y.requires_grad


@example("in-place methods", X.clone().requires_grad_())
def requires_grad_inside(x):
    w = torch.ones(3).requires_grad_(True)
    return (x * w).sum(), w.requires_grad, w.is_leaf


@example("in-place methods")
def resize_and_set(x):
    y = torch.empty(0)
    y.resize_(2, 3).zero_()
    return y + x[:2]


# --- tuple results --------------------------------------------------------------------------------------
@example("tuple results")
def tuple_results_by_name(x):
    top = x.topk(2, dim=1)
    values, indices = x.sort(descending=True)
    best = torch.max(x, dim=0)
    return top.values + top.indices, values, best.indices, type(best).__name__


@example("tuple results")
def tuple_results_split(x):
    a, b = x.split(2)
    first, *rest = x.unbind(1)
    return a + b, first + sum(rest), torch.chunk(x, 2, dim=1)[0], len(torch.tensor_split(x, 3))


@example("tuple results")
def linear_algebra(x):
    square = x.T @ x + torch.eye(3)
    q, r = torch.linalg.qr(square)
    u, s, vh = torch.linalg.svd(square)
    return torch.linalg.solve(square, x.T) + (q @ r).sum(), s, torch.linalg.norm(x), square.det(), torch.inverse(square)


@example("tuple results")
def frexp_and_aminmax(x):
    mantissa, exponent = torch.frexp(x)
    low, high = torch.aminmax(x)
    std, mean = torch.std_mean(x, dim=0)
    return mantissa * exponent, high - low, std + mean, torch.var_mean(x)[0]


@example("tuple results")
def meshgrid_and_broadcast(x):
    a, b = torch.meshgrid(torch.arange(3), torch.arange(4), indexing="ij")
    c, d = torch.broadcast_tensors(x, x[:1])
    return a + b, c * d, torch.stack([x, x]).unbind()[1], torch.where(x > 0)


# --- sizes ----------------------------------------------------------------------------------------------
@example("torch.Size arithmetic")
def size_arithmetic(x):
    shape = x.shape[:-1] + (1, x.shape[-1])
    return x.view(shape), shape, x.shape.numel(), torch.Size([2, 3]) * 2, x.size(-1) // 2


@example("torch.Size arithmetic")
def size_unpacked(x):
    rows, columns = x.size()
    return (
        x.reshape(rows * columns).view(columns, -1),
        x.shape == (4, 3),
        isinstance(x.shape, tuple),
        hash(x.shape) != 0,
    )


@example("torch.Size arithmetic")
def new_tensors_of_sizes(x):
    a = x.new_zeros(x.shape) + torch.zeros(*x.shape) + torch.empty_like(x).fill_(1)
    return a + torch.full(x.shape, 2.0), torch.ones(x.size(0), 1).expand(-1, 5), x.new_tensor([1, 2])


@example("torch.Size arithmetic", X, also=[(X[:3],), (X[:2],)])
def sizes_change(x):
    return x.reshape(-1) * x.shape[0] + len(x)


@example("torch.Size arithmetic", X, also=[(V,), (X[None],)])
def dimensions_change(x):
    return x.flatten() if x.dim() > 1 else x[None], x.ndim, x.stride()


# --- dtypes and devices ---------------------------------------------------------------------------------
@example("dtype/device objects")
def dtype_questions(x):
    if x.dtype.is_floating_point and x.dtype != torch.float64:
        x = x.to(torch.float64)
    return (
        x,
        torch.finfo(x.dtype).eps,
        torch.iinfo(torch.int32).max,
        x.dtype.itemsize,
        torch.promote_types(x.dtype, torch.int),
    )


@example("dtype/device objects")
def device_questions(x):
    device = torch.device("cpu")
    y = torch.zeros(3, device=device) if x.device == device and x.device.type == "cpu" else x
    return x + y.to(x.device), str(device), device.index, x.is_cuda, torch.cuda.is_available()


@example("dtype/device objects", X, torch.float16, also=[(X, torch.int64), (X, "float64")])
def dtype_argument(x, dtype):
    if isinstance(dtype, str):
        dtype = getattr(torch, dtype)
    return x.to(dtype=dtype), x.type(torch.bool), x.half().dtype, x.long()


@example("dtype/device objects", X, also=[(I,), (B,)])
def dtype_changes(x):
    return x.float() + 1, x.dtype, x.is_floating_point(), x.element_size()


@example("dtype/device objects")
def layout_questions(x):
    y = x.t()
    return y.contiguous() + 1, y.is_contiguous(), y.stride(), y.storage_offset(), x.layout is torch.strided


@example("dtype/device objects", X.clone().requires_grad_())
def autograd_questions(x):
    y = x * 2
    return y, y.requires_grad, x.is_leaf, y.is_leaf, x.grad is None, torch.is_grad_enabled(), torch.is_tensor(x)


# --- indexing and shapes --------------------------------------------------------------------------------
@example("torch.* functions and Tensor methods", X, I % 3)
def indexing(x, i):
    return x[0], x[1:, ::2], x[..., None], x[[0, 2]], x[i[:, 0]], x[x > 5].shape[1:], x[-1, -1], x[:, torch.tensor(1)]


@example("torch.* functions and Tensor methods", X, I % 3)
def gather_and_take(x, i):
    a = x.gather(1, i) + torch.take_along_dim(x, i, dim=1) + x.index_select(1, i[0])
    return a, x.take(i), torch.bucketize(x, torch.tensor([0.0, 1.0])), torch.searchsorted(V.sort().values, x)


@example("torch.* functions and Tensor methods")
def shapes(x):
    y = x.unsqueeze(0).expand(2, -1, -1).permute(2, 0, 1).flatten(1).squeeze()
    return (
        y.movedim(0, 1),
        x.repeat(2, 1).roll(1, 0).flip(0),
        x.T.mT,
        torch.rot90(x),
        x.swapaxes(0, 1),
        x.unfold(0, 2, 1),
    )


@example("torch.* functions and Tensor methods", X, Y)
def einsum_and_products(x, y):
    a = torch.einsum("ij,kj->ik", x, y) + x @ y.T + torch.tensordot(x, y, dims=([1], [1]))
    return (
        a,
        torch.outer(x[0], y[0]),
        torch.cross(x, y, dim=1),
        torch.kron(x, y).sum(),
        torch.cdist(x, y),
        x[0].dot(y[0]),
    )


@example("torch.* functions and Tensor methods")
def reductions(x):
    numbers = x.mean(), x.var(0), x.prod(dim=1), x.amax((0, 1)), x.logsumexp(-1), x.cumsum(0), x.argmax(), x.norm(dim=1)
    return (
        numbers,
        x.any(),
        (x == x).all(1),
        x.median(),
        x.std(unbiased=False),
        torch.quantile(x, 0.5),
        x.count_nonzero(),
    )


@example("torch.* functions and Tensor methods", X, Y)
def comparisons_and_where(x, y):
    mask = (x > y) & ~(x < 0) | torch.isfinite(y)
    return (
        torch.where(mask, x, y),
        x.clamp(min=-1, max=0.5),
        torch.maximum(x, y),
        x.sign(),
        x.eq(y),
        torch.isclose(x, y),
    )


@example("torch.* functions and Tensor methods", X)
def number_and_tensor_operators(x):
    return 1 - x, 2**x, 1 / x, x // 2, x % 2, -x, abs(x), x**2, x.round(), 3 > x, ~(x > 0), divmod(x, 2)[0], +x


@example("torch.* functions and Tensor methods", [X, Y])
def joining(tensors):
    a = torch.cat(tensors, dim=-1) + torch.cat([*tensors], 1)
    return a, torch.stack(tensors, 1), torch.hstack(tensors), torch.vstack(tuple(tensors)), torch.block_diag(*tensors)


@example("torch.* functions and Tensor methods", X)
def making(x):
    a = (
        torch.arange(0, 1, 0.25),
        torch.linspace(0, 1, 3),
        torch.eye(2),
        torch.tril(torch.ones(2, 2)),
        torch.logspace(0, 1, 2),
    )
    return (
        a,
        torch.tensor([[1, 2], [3, 4]]) * 2,
        torch.zeros_like(x, dtype=torch.int32),
        torch.as_tensor([1.0]),
        torch.tensor(3),
    )


@example("torch.* functions and Tensor methods", X)
def tensor_as_python(x):
    total = 0
    for row in x:
        total = total + row
    return total, len(x), x.numel(), x.nelement(), x.dim(), x.size(0), 3 in [x.shape[1]], isinstance(x, torch.Tensor)


@example("torch.* functions and Tensor methods", X)
def fft_and_special(x):
    spectrum = torch.fft.rfft(x, dim=0)
    return (
        torch.fft.irfft(spectrum, n=4, dim=0),
        spectrum.abs(),
        torch.special.expit(x),
        torch.erf(x),
        torch.lgamma(x.abs() + 1),
    )


@example("torch.* functions and Tensor methods", X, torch.tensor([0.5, 2.0, 1.0]))
def unusual_calls(x, weights):
    a = torch.addmm(x @ x.T, x, x.T, beta=0.5, alpha=2)
    return (
        a,
        torch.lerp(x, x * 2, 0.5),
        torch.addcmul(x, x, weights, value=2),
        x.softmax(-1, dtype=torch.float64),
        torch.nan_to_num(x),
    )


@example("torch.* functions and Tensor methods", I)
def integer_tensors(i):
    return (
        i // 2,
        i % 3,
        i & 1,
        i << 2,
        i.bitwise_xor(3),
        i / 2,
        i.float().mean(),
        i.bincount() if i.dim() == 1 else i.sum(),
    )


@example("torch.* functions and Tensor methods", X)
def tensor_in_python_expressions(x):
    scale = torch.tensor(2.0)
    return (
        x * scale + [1, 2, 3][x.dim()] * torch.scalar_tensor(3),
        x.mul(other=x),
        torch.Tensor.add(x, 1),
        torch.Tensor([1, 2]),
    )


@example("torch.* functions and Tensor methods", X)
def attributes_on_tensors(x):
    x.tag = "seen"
    y = x + 1
    y.scale = 3
    return y * y.scale, getattr(x, "tag", None), hasattr(x, "missing")


@example("torch.* functions and Tensor methods", X)
def complex_views(x):
    z = torch.view_as_complex(torch.stack([x, x], -1).contiguous())
    return z.real, z.conj().imag, z.abs(), torch.polar(x.abs(), x).real, z.is_complex()
