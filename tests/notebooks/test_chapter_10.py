"""Chapter 10's exercises: plausible wrong answers fail, with a message that helps; the least bytes are the least."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "notebooks"))

from exercises import chapter_10  # noqa: E402


# ---- 1: traffic --------------------------------------------------------------------------------------------
def each_line_for_itself(kernels, sizes, results):
    return sum(sizes[n] for kernel in kernels for name, reads in kernel for n in (name, *reads))


def writes_everything(kernels, sizes, results):
    total = 0
    for kernel in kernels:
        made = {name for name, _ in kernel}
        total += sum(sizes[n] for n in made | {s for _, reads in kernel for s in reads})
    return total


def writes_results_only(kernels, sizes, results):
    total = 0
    for kernel in kernels:
        made = {name for name, _ in kernel}
        total += sum(sizes[n] for n in ({s for _, reads in kernel for s in reads} - made) | (made & results))
    return total


def reads_once_for_all(kernels, sizes, results):
    made = {name for kernel in kernels for name, _ in kernel}
    read = {s for kernel in kernels for _, reads in kernel for s in reads} - made
    return sum(sizes[n] for n in read | results)


def counts_arrays(kernels, sizes, results):
    return 100 * writes_results_only(kernels, dict.fromkeys(sizes, 1), results)


# ---- 2: in between -----------------------------------------------------------------------------------------
def neighbours_only(reads, a, b):
    return a in reads[b] or b in reads[a]


def always(reads, a, b):
    return True


def one_step_between(reads, a, b):
    return not any(a in reads[c] and c in reads[b] for c in reads)


def forwards_only(reads, a, b):
    todo, seen = [c for c in reads[b] if c != a], set()
    while todo:
        c = todo.pop()
        if c == a:
            return False
        if c not in seen:
            seen.add(c)
            todo.extend(reads[c])
    return True


def no_way_at_all(reads, a, b):
    return forwards_only({**reads, b: {*reads[b], "?"}, "?": reads[b]}, a, b) and a not in reads[b]


# ---- 3: same loops -----------------------------------------------------------------------------------------
def in_order(first, second):
    return dict(zip(second[1], first[1]))


def by_size(first, second):
    sizes = {size: variable for variable, (size, _) in first[1].items()}
    if sorted(sizes) != sorted(size for size, _ in second[1].values()):
        return None
    return {variable: sizes[size] for variable, (size, _) in second[1].items()}


def by_step(first, second):
    steps = {step: variable for variable, (_, step) in first[1].items()}
    if sorted(steps) != sorted(step for _, step in second[1].values()):
        return None
    return {variable: steps[step] for variable, (_, step) in second[1].items()}


def forgets_where_it_begins(first, second):
    if sorted(first[1].values()) != sorted(second[1].values()):
        return None
    kinds = {kind: variable for variable, kind in first[1].items()}
    return {variable: kinds[kind] for variable, kind in second[1].items()}


def the_other_way_round(first, second):
    found = forgets_where_it_begins(first, second) if first[0] == second[0] else None
    return found and {a: b for b, a in found.items()}


# ---- 4: a scheduler ----------------------------------------------------------------------------------------
def all_alone(kernels, results):
    return [[name] for name in kernels]


def all_together(kernels, results):
    return [list(kernels)]


def by_loops(kernels, results):
    groups = {}
    for name, (loops, _) in kernels.items():
        groups.setdefault(name if loops is None else loops, []).append(name)
    return list(groups.values())


def neighbours_in_the_list(kernels, results):
    groups = []
    for name, (loops, _) in kernels.items():
        if groups and loops is not None and kernels[groups[-1][-1]][0] == loops:
            groups[-1].append(name)
        else:
            groups.append([name])
    return groups


def forgets_one(kernels, results):
    return neighbours_in_the_list(kernels, results)[1:]


WRONG = [  # (check, wrong answer, what the message must speak of)
    (chapter_10.check_10_1, each_line_for_itself, "a stays inside"),
    (chapter_10.check_10_1, writes_everything, "a stays inside"),
    (chapter_10.check_10_1, writes_results_only, "written by one and read by the other"),
    (chapter_10.check_10_1, reads_once_for_all, "written by one and read by the other"),
    (chapter_10.check_10_1, counts_arrays, "written by one and read by the other"),
    (chapter_10.check_10_2, neighbours_only, "and b as well"),
    (chapter_10.check_10_2, always, "b lies between"),
    (chapter_10.check_10_2, one_step_between, "two lie between"),
    (chapter_10.check_10_2, forwards_only, "from the other end"),
    (chapter_10.check_10_2, no_way_at_all, "b reads a, and nothing else"),
    (chapter_10.check_10_3, in_order, "runs over the transpose"),
    (chapter_10.check_10_3, by_size, "another step"),
    (chapter_10.check_10_3, by_step, "another size"),
    (chapter_10.check_10_3, forgets_where_it_begins, "neighbour's cell"),
    (chapter_10.check_10_3, the_other_way_round, "one loop each"),
    (chapter_10.check_10_4, all_alone, "a chain becomes one kernel"),
    (chapter_10.check_10_4, all_together, "have other loops"),
    (chapter_10.check_10_4, by_loops, "has not run yet"),
    (chapter_10.check_10_4, neighbours_in_the_list, "take turns"),
    (chapter_10.check_10_4, forgets_one, "every kernel must be in one group"),
]


@pytest.mark.parametrize("check, answer, about", WRONG, ids=lambda v: getattr(v, "__name__", None))
def test_a_wrong_answer_fails_and_hears_why(check, answer, about):
    verdict = check(answer)
    assert not verdict.passed
    assert about in verdict.message, verdict.message


def partitions(names):
    if not names:
        yield []
        return
    first, *rest = names
    for groups in partitions(rest):
        yield [[first], *groups]
        for k in range(len(groups)):
            yield [*groups[:k], [first, *groups[k]], *groups[k + 1 :]]


def some_order(groups, kernels):
    """The groups in an order that runs, or None."""
    order, done = [], set()
    while len(order) < len(groups):
        ready = [
            group
            for group in groups
            if group not in order
            and all(s in done or s in group or s not in kernels for name in group for s in kernels[name][1])
        ]
        if not ready:
            return None
        order.append(ready[0])
        done.update(ready[0])
    return order


@pytest.mark.parametrize("kernels, results, least, about", chapter_10.PROGRAMS)
def test_the_least_bytes_are_the_least(kernels, results, least, about):
    possible = [order for groups in partitions(list(kernels)) if (order := some_order(groups, kernels)) is not None]
    possible = [groups for groups in possible if chapter_10.impossible(groups, kernels) is None]
    assert min(chapter_10.moved(groups, kernels, results) for groups in possible) == least
