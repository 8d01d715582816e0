"""heapq and bisect: the polyfills against C, values and complaints, with elements and lists of every kind."""

import bisect
import heapq

import pytest
import torch
from worlds import same

X = torch.tensor([1.0, 2.0, 3.0])


class Ranked:
    def __init__(self, rank):
        self.rank = rank

    def __lt__(self, other):
        return self.rank < other.rank

    def __repr__(self):
        return f"Ranked({self.rank})"


class Noted(list):
    def append(self, item):
        raise AssertionError("C does not ask")


def test_heaps():
    def f(x, given, items):
        heap, least, other = [], [], [Ranked(k * 7 % 5) for k in range(6)]
        for item in items:
            heapq.heappush(heap, (item, str(item)))
            least.append(heapq.heappushpop(given, item))
        heapq.heapify(other)
        ranks = [heapq.heappop(other).rank for _ in range(4)]
        most = list(items)
        heapq._heapify_max(most)
        taken = heapq._heapreplace_max(most, 0), heapq._heappop_max(most), heapq.heapreplace(given, 9)
        lists = heapq.nsmallest(2, items), heapq.nlargest(2, items, key=lambda k: -k), list(heapq.merge([1, 4], [2]))
        return x * heapq.heappop(heap)[0], heap, least, ranks, most, taken, lists, given

    same(lambda: (f, [(X, [1, 3, 5], [3, 1, 2, 5.5]), (X, [2, 3], [1, 1, 7, 0]), (X, [1, 3, 5], [3, 1, 2, 5.5])]))


def test_searches():
    def f(x, rows):
        places = [search(rows, 3) for search in (bisect.bisect, bisect.bisect_left, bisect.bisect_right)]
        places += [bisect.bisect(rows, 2, 1), bisect.bisect_left(rows, 9, hi=2), bisect.bisect(rows, 2, 0, -1)]
        places.append(bisect.bisect_left(rows, -3, key=lambda k: -k))
        bisect.insort(rows, 4)
        bisect.insort_left(rows, 3.0)
        bisect.insort(rows, 0, key=lambda k: k)
        return x + places[0], places, rows

    same(lambda: (f, [(X, [1, 3, 3, 8]), (X, [2, 5, 5, 8, 9]), (X, [])]), fullgraph=False)


@pytest.mark.parametrize("index", range(12))
def test_complaints(index):
    calls = [
        lambda: heapq.heappop([]),
        lambda: heapq.heappush((), 1),
        lambda: heapq.heapify(range(3)),
        lambda: heapq.heapreplace([], 1),
        lambda: heapq.heappush([], 1, 2),
        lambda: heapq.heappush([], item=2),
        lambda: heapq.heappush([1], "a"),
        lambda: bisect.bisect([1], 1, -1),
        lambda: bisect.bisect([1], 1, "a"),
        lambda: bisect.bisect([1, 2], 2, 0, 7),
        lambda: bisect.bisect(5, 1),
        lambda: bisect.insort((), 1),
    ]
    call = calls[index]

    def f(x):
        try:
            call()
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            return x + 1, type(error), str(error)

    same(lambda: (f, [(X,), (X,)]))


def test_a_list_with_methods_of_its_own():
    def f(x):
        heap = Noted()
        heapq.heappush(heap, 2)
        heapq.heappush(heap, 1)
        return x + 1, heapq.heappop(heap), heapq.heappushpop(heap, 5), list(heap)

    same(lambda: (f, [(X,), (X,)]), fullgraph=False)


def test_what_a_comparison_that_raises_leaves():
    def f(x, heap, run):
        try:
            run(heap)
        except (TypeError, RuntimeError) as error:
            return x + 1, heap, str(error)
        return x + 1, heap, "nothing"

    mixed = [3, None, 5, 4, "a", 7, 6, 8]
    for run in (heapq.heappop, heapq.heapify, lambda h: heapq.heappush(h, 1), lambda h: heapq.heapreplace(h, 9)):
        for start in range(4):
            same(lambda run=run, start=start: (f, [(X, mixed[start:], run)]), fullgraph=False)
