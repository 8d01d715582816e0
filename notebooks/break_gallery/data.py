"""Breaks at the data of tensors: capture knows shape, dtype and device, and no element."""

import torch

from .example import example, mended


@example("data-dependent branch")
def normalize_if_large(x):
    y = x * 2
    if y.sum() > 10:
        return y / y.sum()
    return y


@mended(normalize_if_large)
def normalize_where_large(x):
    y = x * 2
    return torch.where(y.sum() > 10, y / y.sum(), y)


@example("tensor read as a number")
def scale_by_largest(x):
    largest = x.abs().max().item()
    return x / (largest + 1)


@mended(scale_by_largest)
def scale_by_largest_tensor(x):
    largest = x.abs().max()
    return x / (largest + 1)


@example("tensor read as a list or array")
def add_row_sums(x):
    total = sum(x.sum(dim=1).tolist())
    return x + total


@mended(add_row_sums)
def add_row_sums_by_torch(x):
    return x + x.sum(dim=1).sum()


@example("tensor printed")
def describe(x):
    y = x * 2
    text = f"result: {y}"
    return y, text.split(":")[0]


@mended(describe)
def describe_shape(x):
    y = x * 2
    text = f"result: {y.shape} {y.dtype}"
    return y, text.split(":")[0]


@example("tensor storage")
def cut(x):
    y = x.clone()
    y.resize_(2, 2)
    return y * 2


@mended(cut)
def take(x):
    y = x.reshape(-1)[:4].reshape(2, 2)
    return y * 2


@example("data-dependent operator")
def sum_of_positive(x):
    positive = x[x > 0]
    return positive.sum()


@mended(sum_of_positive)
def sum_where_positive(x):
    positive = torch.where(x > 0, x, 0)
    return positive.sum()


@example("operator raised")
def try_sum(x):
    try:
        return x + torch.ones(4)
    except RuntimeError:
        return x + 1


@mended(try_sum)
def sum_of_known_shape(x):
    if x.shape[-1] == 4:
        return x + torch.ones(4)
    return x + 1


@example("number read from data", capture_scalar_outputs=True)
def first_positive_or_all(x):
    count = int((x > 0).sum())
    if count > 2:
        return x.reshape(-1)[:count] * 2
    return x.reshape(-1) * 2


@mended(first_positive_or_all)
def first_positive_or_all_by_torch(x):
    count = (x > 0).sum()
    count = int(torch.where(count > 2, count, x.numel()))
    torch._check(0 <= count)
    return x.reshape(-1)[:count] * 2
