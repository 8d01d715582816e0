"""What `functools.lru_cache` and `functools.cmp_to_key` make of a function, in Python.  See polyfills/__init__.py."""

import functools
import types


class lru_cache_wrapper:
    """`functools._lru_cache_wrapper(...)`: the least recently used result goes first."""

    def __init__(self, user_function, maxsize, typed, cache_info_class):
        self.user_function, self.maxsize, self.typed = user_function, maxsize, typed
        self.cache_info_class = cache_info_class
        self.results, self.hits, self.misses = {}, 0, 0

    def __call__(self, /, *args, **kwargs):
        key, results = functools._make_key(args, kwargs, self.typed), self.results
        if key in results:
            self.hits += 1
            result = results.pop(key)
        else:
            self.misses += 1
            result = self.user_function(*args, **kwargs)
            if self.maxsize == 0:
                return result
            if key in results:  # the function called itself with the same arguments
                return result
            if self.maxsize is not None and len(results) >= self.maxsize:
                del results[next(iter(results))]
        results[key] = result
        return result

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def cache_info(self):
        return self.cache_info_class(self.hits, self.misses, self.maxsize, len(self.results))

    def cache_clear(self):
        self.results.clear()
        self.hits = self.misses = 0


class ComparedBy:
    """`functools.cmp_to_key(compare)`, and what it makes of each object."""

    def __init__(self, compare, obj=None, has_obj=False):
        self.compare, self.obj, self.has_obj = compare, obj, has_obj

    def __call__(self, obj):
        return ComparedBy(self.compare, obj, True)

    def compared(self, other):
        if type(other) is not type(self):
            raise TypeError("other argument must be K instance")
        if not (self.has_obj and other.has_obj):
            raise AttributeError("object")
        return self.compare(self.obj, other.obj)

    def __lt__(self, other):
        return self.compared(other) < 0

    def __gt__(self, other):
        return self.compared(other) > 0

    def __le__(self, other):
        return self.compared(other) <= 0

    def __ge__(self, other):
        return self.compared(other) >= 0

    def __eq__(self, other):
        return self.compared(other) == 0

    def __ne__(self, other):
        return self.compared(other) != 0

    __hash__ = None


def cmp_to_key(mycmp):
    return ComparedBy(mycmp)
