"""`heapq` and `bisect` as they are in C, which overwrites the standard library's own Python.

Goes in and comes out: what the originals take and give; heaps are plain lists.  See `polyfills/__init__.py`.
"""

import bisect
import heapq
import operator


def sifting(smaller):
    """(up, down) for heaps whose elements `smaller` orders.  As in C they swap at each step: a comparison may raise."""

    def compared(heap, one, other):
        size = len(heap)
        answer = smaller(heap[one], heap[other])
        if len(heap) != size:
            raise RuntimeError("list changed size during iteration")
        return answer

    def up(heap, first, place):
        """Move an element towards the root until its parent is no larger."""
        while place > first:
            parent = (place - 1) >> 1
            if not compared(heap, place, parent):
                break
            heap[place], heap[parent] = heap[parent], heap[place]
            place = parent

    def down(heap, first):
        """Move an element down to a leaf, along smaller children, and up again to where it belongs."""
        place, size = first, len(heap)
        while place < size >> 1:
            child = 2 * place + 1
            if child + 1 < size and not compared(heap, child, child + 1):
                child += 1
            heap[place], heap[child] = heap[child], heap[place]
            place = child
        up(heap, first, place)

    return up, down


def of_order(smaller):
    """What heaps of either order do."""
    up, down = sifting(smaller)

    def heappush(heap, item, /):
        heap.append(item)
        up(heap, 0, len(heap) - 1)

    def heappushpop(heap, item, /):
        if heap and smaller(heap[0], item):
            item, heap[0] = heap[0], item
            down(heap, 0)
        return item

    def heappop(heap, /):
        if not heap:
            raise IndexError("index out of range")
        last = heap.pop()
        return heapreplace(heap, last) if heap else last

    def heapreplace(heap, item, /):
        if not heap:
            raise IndexError("index out of range")
        first, heap[0] = heap[0], item
        down(heap, 0)
        return first

    def heapify(heap, /):
        for place in reversed(range(len(heap) // 2)):
            down(heap, place)

    return heappush, heappushpop, heappop, heapreplace, heapify


def searching(goes_right, insert):
    """goes_right(item, found): whether the place is behind the element that was found."""

    def search(a, x, lo=0, hi=None, *, key=None):
        low, high = operator.index(lo), -1 if hi is None else operator.index(hi)
        if low < 0:
            raise ValueError("lo must be non-negative")
        if high == -1:
            high = len(a)
        wanted = key(x) if insert and key is not None else x
        while low < high:
            middle = (low + high) // 2
            found = a[middle] if key is None else key(a[middle])
            if goes_right(wanted, found):
                low = middle + 1
            else:
                high = middle
        if not insert:
            return low
        a.insert(low, x)

    return search


def before(item, found):
    return found < item


def not_behind(item, found):
    return not item < found


LEAST_FIRST = (heapq.heappush, heapq.heappushpop, heapq.heappop, heapq.heapreplace, heapq.heapify)
MOST_FIRST = (heapq._heappop_max, heapq._heapreplace_max, heapq._heapify_max)
OF_LISTS = {
    **dict(zip(LEAST_FIRST, of_order(lambda a, b: a < b))),
    **dict(zip(MOST_FIRST, of_order(lambda a, b: b < a)[2:])),
}
POLYFILLS = {
    bisect.bisect_left: searching(before, insert=False),
    bisect.bisect_right: searching(not_behind, insert=False),
    bisect.insort_left: searching(before, insert=True),
    bisect.insort_right: searching(not_behind, insert=True),
}
