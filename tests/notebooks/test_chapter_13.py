"""Chapter 13's exercises: plausible wrong answers fail, with a message that helps."""

import pathlib
import sys

import pytest

tl = pytest.importorskip("triton.language")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "notebooks"))

from exercises import chapter_13  # noqa: E402


# ---- 1: the traffic of tiles -------------------------------------------------------------------------------
def once(m, n, k, rows, columns):
    return m * k + k * n


def with_fractions(m, n, k, rows, columns):
    return m * k * n / columns + k * n * m / rows


def other_way_round(m, n, k, rows, columns):
    return m * k * -(-m // rows) + k * n * -(-n // columns)


def full_tiles(m, n, k, rows, columns):
    return -(-m // rows) * -(-n // columns) * k * (rows + columns)


def rounded_down(m, n, k, rows, columns):
    return m * k * (n // columns) + k * n * (m // rows)


# ---- 2: a matrix product -----------------------------------------------------------------------------------
def place(n, TILE):
    across = (n + TILE - 1) // TILE
    row = tl.program_id(0) // across * TILE + tl.arange(0, TILE)[:, None]
    return row, tl.program_id(0) % across * TILE + tl.arange(0, TILE)[None, :]


def without_masks(a, b, out, m, n, k, TILE: tl.constexpr):
    row, column = place(n, TILE)
    total = tl.full([TILE, TILE], 0.0, tl.float32)
    for start in range(0, k, TILE):
        i = start + tl.arange(0, TILE)
        total += tl.dot(tl.load(a + k * row + i[None, :]), tl.load(b + n * i[:, None] + column))
    tl.store(out + n * row + column, total)


def no_mask_inside(a, b, out, m, n, k, TILE: tl.constexpr):
    row, column = place(n, TILE)
    total = tl.full([TILE, TILE], 0.0, tl.float32)
    for start in range(0, k, TILE):
        i = start + tl.arange(0, TILE)
        left = tl.load(a + k * row + i[None, :], row < m, other=0.0)
        total += tl.dot(left, tl.load(b + n * i[:, None] + column, column < n, other=0.0))
    tl.store(out + n * row + column, total, (row < m) & (column < n))


def first_step_only(a, b, out, m, n, k, TILE: tl.constexpr):
    row, column = place(n, TILE)
    i = tl.arange(0, TILE)
    left = tl.load(a + k * row + i[None, :], (row < m) & (i[None, :] < k), other=0.0)
    right = tl.load(b + n * i[:, None] + column, (i[:, None] < k) & (column < n), other=0.0)
    tl.store(out + n * row + column, tl.dot(left, right), (row < m) & (column < n))


def wrong_strides(a, b, out, m, n, k, TILE: tl.constexpr):
    row, column = place(n, TILE)
    total = tl.full([TILE, TILE], 0.0, tl.float32)
    for start in range(0, k, TILE):
        i = start + tl.arange(0, TILE)
        left = tl.load(a + n * row + i[None, :], (row < m) & (i[None, :] < k), other=0.0)
        total += tl.dot(left, tl.load(b + n * i[:, None] + column, (i[:, None] < k) & (column < n), other=0.0))
    tl.store(out + n * row + column, total, (row < m) & (column < n))


def store_not_masked(a, b, out, m, n, k, TILE: tl.constexpr):
    row, column = place(n, TILE)
    total = tl.full([TILE, TILE], 0.0, tl.float32)
    for start in range(0, k, TILE):
        i = start + tl.arange(0, TILE)
        left = tl.load(a + k * row + i[None, :], (row < m) & (i[None, :] < k), other=0.0)
        total += tl.dot(left, tl.load(b + n * i[:, None] + column, (i[:, None] < k) & (column < n), other=0.0))
    tl.store(out + n * row + column, total)


# ---- 3: a race ---------------------------------------------------------------------------------------------
def fastest(names, right, seconds, known, key):
    if key not in known:
        known[key] = min(names, key=lambda name: min(seconds(name) for _ in range(3)))
    return known[key]


def first_right(names, right, seconds, known, key):
    return known.setdefault(key, next(name for name in names if right(name)))


def race(names, right, seconds, known, key, times=3, best=min, keep=True):
    if keep and key in known:
        return known[key]
    found = {}
    for name in names:
        try:
            if right(name):
                found[name] = best([seconds(name) for _ in range(times)])
        except RuntimeError:
            continue
    if not found:
        raise ValueError("no candidate is right")
    known[key] = min(found, key=found.get)
    return known[key]


def no_exceptions_caught(names, right, seconds, known, key):
    if key in known:
        return known[key]
    found = {name: min(seconds(name) for _ in range(3)) for name in names if right(name)}
    return known.setdefault(key, min(found, key=found.get))


def one_measurement(*args):
    return race(*args, times=1)


def the_middle_one(*args):
    return race(*args, best=lambda times: sorted(times)[1])


def again_and_again(*args):
    return race(*args, keep=False)


def takes_what_is_there(names, right, seconds, known, key):
    try:
        return race(names, right, seconds, known, key)
    except ValueError:
        return names[0]


def forgets(names, right, seconds, known, key):
    return race(names, right, seconds, {}, key)


# ---- 4: a replayed graph -----------------------------------------------------------------------------------
def hands_out_its_memory(replay, buffers, results):
    def call(*args):
        for buffer, value in zip(buffers, args):
            buffer.copy_(value)
        replay()
        return results

    return call


def never_copies_in(replay, buffers, results):
    def call(*args):
        replay()
        return [value.clone() for value in results]

    return call


def replaces_the_list(replay, buffers, results):
    def call(*args):
        buffers[:] = args
        replay()
        return [value.clone() for value in results]

    return call


def copies_too_late(replay, buffers, results):
    def call(*args):
        replay()
        for buffer, value in zip(buffers, args):
            buffer.copy_(value)
        return [value.clone() for value in results]

    return call


def first_time_only(replay, buffers, results):
    kept = []

    def call(*args):
        if not kept:
            for buffer, value in zip(buffers, args):
                buffer.copy_(value)
            replay()
            kept.extend(value.clone() for value in results)
        return kept

    return call


WRONG = [  # (check, wrong answer, what the message must speak of)
    (chapter_13.check_13_1, once, "tiles that divide"),
    (chapter_13.check_13_1, with_fractions, "columns that do not divide|rows that do not divide"),
    (chapter_13.check_13_1, other_way_round, "another size in each direction"),
    (chapter_13.check_13_1, full_tiles, "the last tile loads only what is there"),
    (chapter_13.check_13_1, rounded_down, "rows that do not divide"),
    (chapter_13.check_13_2, without_masks, "rows that do not fill the last tile"),
    (chapter_13.check_13_2, no_mask_inside, "an inner size that does not fill"),
    (chapter_13.check_13_2, first_step_only, "four tiles, two steps each"),
    (chapter_13.check_13_2, wrong_strides, "wider than high"),
    (chapter_13.check_13_2, store_not_masked, "writes element"),
    (chapter_13.check_13_3, fastest, "computes something else"),
    (chapter_13.check_13_3, first_right, "is in the middle"),
    (chapter_13.check_13_3, no_exceptions_caught, "out of resource"),
    (chapter_13.check_13_3, one_measurement, "the first call is slow"),
    (chapter_13.check_13_3, the_middle_one, "used the machine for a while"),
    (chapter_13.check_13_3, again_and_again, "is run again"),
    (chapter_13.check_13_3, takes_what_is_there, "raise ValueError"),
    (chapter_13.check_13_3, forgets, "should stand in known"),
    (chapter_13.check_13_4, hands_out_its_memory, "was overwritten by this call"),
    (chapter_13.check_13_4, never_copies_in, "the first call: expected"),
    (chapter_13.check_13_4, replaces_the_list, "the first call: expected"),
    (chapter_13.check_13_4, copies_too_late, "the first call: expected"),
    (chapter_13.check_13_4, first_time_only, "other values"),
]


@pytest.mark.parametrize("check, answer, about", WRONG, ids=lambda v: getattr(v, "__name__", None))
def test_a_wrong_answer_fails_and_hears_why(check, answer, about):
    verdict = check(answer)
    assert not verdict.passed
    assert any(part in verdict.message for part in about.split("|")), verdict.message
