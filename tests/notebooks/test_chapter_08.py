"""Chapter 08: wrong answers to its exercises fail, with a message that helps; the least prices are the least."""

import itertools
import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "notebooks"))

from exercises import chapter_08  # noqa: E402


# ---- 1: what crosses ---------------------------------------------------------------------------------------
def backward_of(graph, tangents):
    backward = set(tangents)
    for name, reads in graph.items():
        if not backward.isdisjoint(reads):
            backward.add(name)
    return backward


def with_the_tangent(graph, tangents):
    """Takes only what reads something for backward, so that the tangent itself crosses."""
    backward = backward_of(graph, tangents) - tangents
    return [n for n in graph if n not in backward and any(n in graph[b] for b in backward)]


def behind_the_tangent(graph, tangents):
    """Takes for backward what stands behind the tangent."""
    names = list(graph)
    first = min((names.index(t) for t in tangents), default=len(names))
    return [n for n in names[:first] if any(n in graph[b] for b in names[first:])]


def as_read(graph, tangents):
    backward = backward_of(graph, tangents)
    return list(dict.fromkeys(s for b in graph if b in backward for s in graph[b] if s not in backward))


def as_often_as_read(graph, tangents):
    backward = backward_of(graph, tangents)
    return sorted(s for b in graph if b in backward for s in graph[b] if s not in backward)


def without_inputs(graph, tangents):
    backward = backward_of(graph, tangents)
    return [n for n in graph if graph[n] and n not in backward and any(n in graph[b] for b in backward)]


def only_direct_readers(graph, tangents):
    backward = {n for n in graph if not tangents.isdisjoint(graph[n])}
    return [n for n in graph if n not in backward | tangents and any(n in graph[b] for b in backward)]


# ---- 2: what is computed again -----------------------------------------------------------------------------
def needed(graph, crossing, stop):
    todo, found = list(crossing), []
    while todo:
        name = todo.pop(0)
        if graph[name] and name not in stop and name not in found:
            found.append(name)
            todo.extend(graph[name])
    return found


def everything_unsaved(graph, crossing, saved, draws):
    if draws - saved:
        raise ValueError
    return [n for n in graph if graph[n] and n not in saved]


def only_what_crosses(graph, crossing, saved, draws):
    found = [n for n in graph if n in crossing and graph[n] and n not in saved]
    if draws & set(found):
        raise ValueError
    return found


def readers_first(graph, crossing, saved, draws):
    found = needed(graph, crossing, saved)
    if draws & set(found):
        raise ValueError
    return found


def draws_again(graph, crossing, saved, draws):
    found = needed(graph, crossing, saved)
    return [n for n in graph if n in found]


def stops_at_draws(graph, crossing, saved, draws):
    found = needed(graph, crossing, saved | draws)
    return [n for n in graph if n in found]


def through_saved(graph, crossing, saved, draws):
    found = [n for n in needed(graph, crossing, set()) if n not in saved]
    if draws & set(found):
        raise ValueError
    return [n for n in graph if n in found]


# ---- 3: the cheapest choice --------------------------------------------------------------------------------
def least_price(graph, crossing, save, again):
    """By trying all the sets of saved values."""
    names, best = [name for name, reads in graph.items() if reads and save[name] is not None], None
    for flags in itertools.product((False, True), repeat=len(names)):
        saved = {name for name, flag in zip(names, flags, strict=True) if flag}
        run = needed(graph, crossing, saved)
        if all(again[name] is not None for name in run):
            total = sum(save[name] for name in saved) + sum(again[name] for name in run)
            best = total if best is None else min(best, total)
    return best


@pytest.mark.parametrize(
    "graph, crossing, save, again, wanted, about", chapter_08.CHOICES, ids=[about for *_, about in chapter_08.CHOICES]
)
def test_the_least_prices_are_the_least(graph, crossing, save, again, wanted, about):
    save, again = ({**dict.fromkeys(graph, 0), **prices} for prices in (save, again))
    assert least_price(graph, crossing, save, again) == wanted


def price(amount):
    return float("inf") if amount is None else amount


def saves_what_crosses(graph, crossing, save, again):
    return sum(price(save[n]) for n in crossing if graph[n])


def computes_all(graph, crossing, save, again):
    return sum(price(again[n]) for n in needed(graph, crossing, set()))


def each_for_itself(graph, crossing, save, again):
    """The cheaper of the two for each value that crosses, as if its inputs were there."""
    return sum(min(price(save[n]), price(again[n])) for n in crossing if graph[n])


def as_a_tree(graph, crossing, save, again):
    """Pays for a value once for each reader."""

    def cheapest(name):
        if not graph[name]:
            return 0
        return min(price(save[name]), price(again[name]) + sum(map(cheapest, graph[name])))

    return sum(map(cheapest, crossing))


# ---- 4: without writes -------------------------------------------------------------------------------------
def writes_to_a_copy(table, x):
    copy = table.clone()
    before, result = chapter_08.centre_table(copy, x)
    return copy, before, result


def promotes(table, x):
    first = table[0] + x
    new = torch.cat([first[None], table[1:]]) - first.mean()
    return new, table[0].sum(), new[0] * 2


def mean_of_before(table, x):
    first = (table[0] + x).to(table.dtype)
    new = (torch.cat([first[None], table[1:]]) - table[0].mean()).to(table.dtype)
    return new, table[0].sum(), new[0] * 2


def row_of_before(table, x):
    """Forgets that `first` shows the table, also after the second write."""
    first = (table[0] + x).to(table.dtype)
    new = torch.cat([first[None], table[1:]]) - first.mean()
    return new, table[0].sum(), first * 2


def sum_of_after(table, x):
    first = (table[0] + x).to(table.dtype)
    new = torch.cat([first[None], table[1:]]) - first.mean()
    return new, first.sum(), new[0] * 2


def first_row_only(table, x):
    first = (table[0] + x).to(table.dtype)
    new = torch.cat([(first - first.mean())[None], table[1:]])
    return new, table[0].sum(), new[0] * 2


def by_a_mask(table, x):
    """Multiplies the other rows by 0 where x is added, which makes nan of infinity."""
    mask = torch.zeros_like(table)
    mask = torch.cat([mask[:1] + 1, mask[1:]])
    rows = table * mask + x.to(table.dtype) * mask + table * (1 - mask)
    new = rows - rows[0].mean()
    return new, table[0].sum(), new[0] * 2


WRONG = [  # (check, wrong answer, what the message must speak of)
    (chapter_08.check_08_1, with_the_tangent, "two values that the backward reads"),
    (chapter_08.check_08_1, behind_the_tangent, "do not depend on it"),
    (chapter_08.check_08_1, as_read, "the order is that of the graph"),
    (chapter_08.check_08_1, as_often_as_read, "read twice"),
    (chapter_08.check_08_1, without_inputs, "an input crosses like any other"),
    (chapter_08.check_08_1, only_direct_readers, "two values that the backward reads"),
    (chapter_08.check_08_2, everything_unsaved, "a and b are not needed"),
    (chapter_08.check_08_2, only_what_crosses, "what c is made of"),
    (chapter_08.check_08_2, readers_first, "a chain"),
    (chapter_08.check_08_2, draws_again, "other numbers would be drawn"),
    (chapter_08.check_08_2, stops_at_draws, "other numbers would be drawn"),
    (chapter_08.check_08_2, through_saved, "a and b are not needed"),
    (chapter_08.check_08_3, saves_what_crosses, "cheap operators"),
    (chapter_08.check_08_3, computes_all, "save it"),
    (chapter_08.check_08_3, each_for_itself, "cheap operators"),
    (chapter_08.check_08_3, as_a_tree, "computed once"),
    (chapter_08.check_08_4, writes_to_a_copy, "writes to a tensor"),
    (chapter_08.check_08_4, lambda table, x: (table, *chapter_08.centre_table(table, x)), "writes to a tensor"),
    (chapter_08.check_08_4, promotes, "a write keeps the type"),
    (chapter_08.check_08_4, mean_of_before, "the new table should be"),
    (chapter_08.check_08_4, row_of_before, "the result should be"),
    (chapter_08.check_08_4, sum_of_after, "before should be"),
    (chapter_08.check_08_4, first_row_only, "the new table should be"),
    (chapter_08.check_08_4, by_a_mask, "minus infinity"),
]


@pytest.mark.parametrize("check, answer, about", WRONG, ids=lambda v: getattr(v, "__name__", None))
def test_a_wrong_answer_fails_and_hears_why(check, answer, about):
    verdict = check(answer)
    assert not verdict.passed
    assert any(part in verdict.message for part in about.split("|")), verdict.message
