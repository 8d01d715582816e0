"""Chapter 12's exercises: plausible wrong answers fail, with a message that helps."""

import pathlib
import sys

import pytest
import torch

tl = pytest.importorskip("triton.language")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "notebooks"))

from exercises import chapter_12  # noqa: E402
from exercises.chapter_12 import rt  # noqa: E402


# ---- 1: a masked kernel ------------------------------------------------------------------------------------
def without_mask(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i)
    tl.store(out + i, tl.where(value < 0, 0.0, value))


def masks_the_load_only(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n)
    tl.store(out + i, tl.where(value < 0, 0.0, value))


def always_the_first_block(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n)
    tl.store(out + i, tl.where(value < 0, 0.0, value), i < n)


def one_short(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n - 1)
    tl.store(out + i, tl.where(value < 0, 0.0, value), i < n - 1)


def loses_nan(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n)
    tl.store(out + i, tl.where(value > 0, value, 0.0), i < n)


def times_whether(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n)
    tl.store(out + i, value * (value > 0).to(tl.float32), i < n)


def everything_each(x, out, n, BLOCK: tl.constexpr):
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        value = tl.load(x + i, i < n)
        tl.store(out + i, tl.where(value < 0, 0.0, value), i < n)


# ---- 2: the largest of a row -------------------------------------------------------------------------------
def without_neutral(x, out, columns, stride, BLOCK: tl.constexpr):
    row, i = tl.program_id(0) + tl.arange(0, 1)[:, None], tl.arange(0, BLOCK)[None, :]
    tl.store(out + row, rt.reduce_max(tl.load(x + row * stride + i, i < columns)))


def large_enough(x, out, columns, stride, BLOCK: tl.constexpr):
    row, i = tl.program_id(0) + tl.arange(0, 1)[:, None], tl.arange(0, BLOCK)[None, :]
    tl.store(out + row, rt.reduce_max(tl.load(x + row * stride + i, i < columns, other=-1e30)))


def no_mask(x, out, columns, stride, BLOCK: tl.constexpr):
    row, i = tl.program_id(0) + tl.arange(0, 1)[:, None], tl.arange(0, BLOCK)[None, :]
    tl.store(out + row, rt.reduce_max(tl.load(x + row * stride + i)))


def rows_without_gaps(x, out, columns, stride, BLOCK: tl.constexpr):
    row, i = tl.program_id(0) + tl.arange(0, 1)[:, None], tl.arange(0, BLOCK)[None, :]
    tl.store(out + row, rt.reduce_max(tl.load(x + row * columns + i, i < columns, other=float("-inf"))))


def the_first_row(x, out, columns, stride, BLOCK: tl.constexpr):
    row, i = tl.program_id(0) + tl.arange(0, 1)[:, None], tl.arange(0, BLOCK)[None, :]
    tl.store(out + row, rt.reduce_max(tl.load(x + 0 * row + i, i < columns, other=float("-inf"))))


# ---- 3: sectors --------------------------------------------------------------------------------------------
def by_the_bytes(addresses, size):
    return -(-len([a for a in addresses if a is not None]) * size // 32)


def from_first_to_last(addresses, size):
    used = [a for a in addresses if a is not None]
    return max(used) // 32 - min(used) // 32 + 1 if used else 0


def each_address(addresses, size):
    return len({a for a in addresses if a is not None})


def counts_the_masked(addresses, size):
    return len({(a or 0) // 32 for a in addresses})


def first_byte_only(addresses, size):
    return len({a // 32 for a in addresses if a is not None})


# ---- 4: the sum of a softmax in one walk -------------------------------------------------------------------
def two_walks(blocks):
    kept = list(blocks)
    largest = max(block.max() for block in kept)
    return largest, sum((block - largest).exp().sum() for block in kept)


def never_rescales(blocks):
    largest, total = torch.tensor(-torch.inf), torch.tensor(0.0)
    for block in blocks:
        largest = torch.maximum(largest, block.max())
        total = total + (block - largest).exp().sum()
    return largest, total


def without_the_largest(blocks):
    largest, total = torch.tensor(-torch.inf), torch.tensor(0.0)
    for block in blocks:
        largest, total = torch.maximum(largest, block.max()), total + block.exp().sum()
    return largest, total / largest.exp()


def forgets_infinity(blocks):
    largest, total = torch.tensor(-torch.inf), torch.tensor(0.0)
    for block in blocks:
        new = torch.maximum(largest, block.max())
        total = total * (largest - new).exp() + (block - new).exp().sum()
        largest = new
    return largest, total


WRONG = [  # (check, wrong answer, what the message must speak of)
    (chapter_12.check_12_1, without_mask, "program 1 reads element 5 of x, which has 5"),
    (chapter_12.check_12_1, masks_the_load_only, "program 1 writes element 5 of out, which has 5"),
    (chapter_12.check_12_1, always_the_first_block, "were not written; which block"),
    (chapter_12.check_12_1, one_short, "elements [3] of out were not written"),
    (chapter_12.check_12_1, loses_nan, "relu of nan should be nan"),
    (chapter_12.check_12_1, times_whether, "relu of -inf should be 0.0"),
    (chapter_12.check_12_1, everything_each, "programs do each other's work"),
    (chapter_12.check_12_2, without_neutral, "a lane without an element must not win"),
    (chapter_12.check_12_2, large_enough, "nothing but minus infinity"),
    (chapter_12.check_12_2, no_mask, "program 2 reads element 15 of x|five columns"),
    (chapter_12.check_12_2, rows_without_gaps, "a gap between them"),
    (chapter_12.check_12_2, the_first_row, "the largest of row 1"),
    (chapter_12.check_12_3, by_the_bytes, "4 bytes too late"),
    (chapter_12.check_12_3, from_first_to_last, "a column of a matrix"),
    (chapter_12.check_12_3, each_address, "32 neighbouring floats"),
    (chapter_12.check_12_3, counts_the_masked, "nobody reads anything"),
    (chapter_12.check_12_3, first_byte_only, "across a border"),
    (chapter_12.check_12_4, two_walks, "the largest comes first"),
    (chapter_12.check_12_4, never_rescales, "grows from block to block"),
    (chapter_12.check_12_4, without_the_largest, "exp(1000) is infinite"),
    (chapter_12.check_12_4, forgets_infinity, "exp(-inf - -inf) is NaN"),
]


@pytest.mark.parametrize("check, answer, about", WRONG, ids=lambda v: getattr(v, "__name__", None))
def test_a_wrong_answer_fails_and_hears_why(check, answer, about):
    verdict = check(answer)
    assert not verdict.passed
    assert any(part in verdict.message for part in about.split("|")), verdict.message
