"""Chapter 09's exercises: plausible wrong answers fail, with a message that helps."""

import itertools
import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "notebooks"))

from exercises import chapter_09  # noqa: E402


# ---- 1: the walk -------------------------------------------------------------------------------------------
def two_loops(sizes, strides, offset):
    return [offset + i * strides[0] + j * strides[1] for i in range(sizes[0]) for j in range(sizes[1])]


def forgets_offset(sizes, strides, offset):
    positions = itertools.product(*map(range, sizes))
    return [sum(i * step for i, step in zip(position, strides)) for position in positions]


def first_dimension_innermost(sizes, strides, offset):
    positions = itertools.product(*map(range, reversed(sizes)))
    return [offset + sum(i * step for i, step in zip(position, reversed(strides))) for position in positions]


def sorted_addresses(sizes, strides, offset):
    return sorted(offset + a for a in forgets_offset(sizes, strides, 0))


def nothing_without_dimensions(sizes, strides, offset):
    return [offset + a for a in forgets_offset(sizes, strides, 0)] if sizes else []


# ---- 2: another shape --------------------------------------------------------------------------------------
def number_of(position, sizes):
    number = 0
    for i, n in zip(position, sizes):
        number = number * n + i
    return number


def remainders_by_the_wrong_size(position, new, old):
    number, result = number_of(position, old), []
    for n in reversed(old):
        result.append(number % n)
        number //= n
    return tuple(reversed(result))


def not_reversed(position, new, old):
    number, result = number_of(position, new), []
    for n in reversed(old):
        result.append(number % n)
        number //= n
    return tuple(result)


def only_matrices(position, new, old):
    number = number_of(position, new)
    return number // old[-1], number % old[-1]


def transposes(position, new, old):
    return tuple(reversed(position)) if len(new) == len(old) else only_matrices(position, new, old)


# ---- 3: a lowering -----------------------------------------------------------------------------------------
def once_only(x, k=1, dims=(0, 1)):
    a, b = (d % x.ndim for d in dims)
    size = list(x.size)
    size[a], size[b] = size[b], size[a]

    def reindex(position):
        old = list(position)
        old[a], old[b] = position[b], x.size[b] - 1 - position[a]
        return tuple(old)

    return x.view(tuple(size), reindex)


def many_times(x, k=1, dims=(0, 1)):
    for _ in range(k):
        x = once_only(x, 1, dims)
    return x


def ignores_dims(x, k=1, dims=(0, 1)):
    for _ in range(k % 4):
        x = once_only(x, 1, (0, 1))
    return x


def the_other_way(x, k=1, dims=(0, 1)):
    return many_times(x, -k % 4, dims)


def beyond_the_edge(x, k=1, dims=(0, 1)):
    return x.view(x.size[::-1], lambda p: (p[1], x.size[1] - p[0]))


def computes(x, k=1, dims=(0, 1)):
    return torch.rot90(x, k, dims)


# ---- 4: a decomposition ------------------------------------------------------------------------------------
def plain(x):
    return x.exp().sum(-1).log()


def without_infinity(x):
    largest = x.amax(-1, keepdim=True)
    return (x - largest).exp().sum(-1).log() + largest.squeeze(-1)


def largest_of_all(x):
    largest = x.max()
    return (x - largest).exp().sum(-1).log() + largest


def nan_to_minus_infinity(x):
    largest = x.amax(-1, keepdim=True)
    return torch.nan_to_num(
        (x - largest).exp().sum(-1).log() + largest.squeeze(-1),
        nan=-float("inf"),
        posinf=float("inf"),
        neginf=-float("inf"),
    )


def keeps_the_dimension(x):
    return torch.logsumexp(x, -1, keepdim=True)


def in_float32(x):
    largest = x.float().amax(-1, keepdim=True)
    largest = torch.where(largest.isinf(), 0, largest)
    return (x.float() - largest).exp().sum(-1).log() + largest.squeeze(-1)


WRONG = [  # (check, wrong answer, what the message must speak of)
    (chapter_09.check_09_1, two_loops, "one dimension|IndexError"),
    (chapter_09.check_09_1, forgets_offset, "from the second on"),
    (chapter_09.check_09_1, first_dimension_innermost, "a matrix in order"),
    (chapter_09.check_09_1, sorted_addresses, "its transpose"),
    (chapter_09.check_09_1, nothing_without_dimensions, "without dimensions has one element"),
    (chapter_09.check_09_2, remainders_by_the_wrong_size, "rows become longer"),
    (chapter_09.check_09_2, not_reversed, "rows become longer"),
    (chapter_09.check_09_2, only_matrices, "one row becomes a matrix"),
    (chapter_09.check_09_2, transposes, "rows become longer"),
    (chapter_09.check_09_3, once_only, "by 180 degrees"),
    (chapter_09.check_09_3, many_times, "backwards"),
    (chapter_09.check_09_3, ignores_dims, "from the second dimension"),
    (chapter_09.check_09_3, the_other_way, "by 90 degrees"),
    (chapter_09.check_09_3, beyond_the_edge, "is not within"),
    (chapter_09.check_09_3, computes, "raised|TensorValue"),
    (chapter_09.check_09_4, plain, "exp(1000) is infinite"),
    (chapter_09.check_09_4, without_infinity, "nothing but minus infinity"),
    (chapter_09.check_09_4, largest_of_all, "expected|minus infinity"),
    (chapter_09.check_09_4, nan_to_minus_infinity, "infinity"),
    (chapter_09.check_09_4, keeps_the_dimension, "take apart"),
    (chapter_09.check_09_4, in_float32, "float64 stays float64"),
]


@pytest.mark.parametrize("check, answer, about", WRONG, ids=lambda v: getattr(v, "__name__", None))
def test_a_wrong_answer_fails_and_hears_why(check, answer, about):
    verdict = check(answer)
    assert not verdict.passed
    assert any(part in verdict.message for part in about.split("|")), verdict.message
