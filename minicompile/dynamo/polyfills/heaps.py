"""`heapq` and `bisect`, of which the standard library's own Python is overwritten by C, but for the sifting.

Goes in and comes out: what the originals take and give; heaps are plain lists.  See `polyfills/__init__.py`.
"""

import bisect
import heapq
import operator


def heappush(heap, item, /):
    heap.append(item)
    heapq._siftdown(heap, 0, len(heap) - 1)


def heappushpop(heap, item, /):
    if heap and heap[0] < item:
        item, heap[0] = heap[0], item
        heapq._siftup(heap, 0)
    return item


def with_sifting(sift):
    """What heaps of either order do: `sift(heap, place)` moves an element down to where it belongs."""

    def heappop(heap, /):
        if not heap:
            raise IndexError("index out of range")
        last = heap.pop()
        return heapreplace(heap, last) if heap else last

    def heapreplace(heap, item, /):
        if not heap:
            raise IndexError("index out of range")
        first, heap[0] = heap[0], item
        sift(heap, 0)
        return first

    def heapify(heap, /):
        for place in reversed(range(len(heap) // 2)):
            sift(heap, place)

    return heappop, heapreplace, heapify


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


OF_LISTS = {
    heapq.heappush: heappush,
    heapq.heappushpop: heappushpop,
    **dict(zip((heapq.heappop, heapq.heapreplace, heapq.heapify), with_sifting(heapq._siftup))),
    **dict(zip((heapq._heappop_max, heapq._heapreplace_max, heapq._heapify_max), with_sifting(heapq._siftup_max))),
}
POLYFILLS = {
    bisect.bisect_left: searching(before, insert=False),
    bisect.bisect_right: searching(not_behind, insert=False),
    bisect.insort_left: searching(before, insert=True),
    bisect.insort_right: searching(not_behind, insert=True),
}
