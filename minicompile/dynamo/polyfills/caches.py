"""What `functools.lru_cache` makes of a function, written in Python.  See polyfills/__init__.py."""

import functools


def lru_cache_wrapper(user_function, maxsize, typed, cache_info_class):
    """`functools._lru_cache_wrapper(...)`: the least recently used result goes first."""
    results, hits, misses = {}, 0, 0

    def wrapper(*args, **kwargs):
        nonlocal hits, misses
        key = functools._make_key(args, kwargs, typed)
        if key in results:
            hits += 1
            result = results.pop(key)
        else:
            misses += 1
            result = user_function(*args, **kwargs)
            if maxsize == 0:
                return result
            if key in results:  # the function called itself with the same arguments
                return result
            if maxsize is not None and len(results) >= maxsize:
                del results[next(iter(results))]
        results[key] = result
        return result

    def cache_info():
        return cache_info_class(hits, misses, maxsize, len(results))

    def cache_clear():
        nonlocal hits, misses
        results.clear()
        hits = misses = 0

    wrapper.cache_info, wrapper.cache_clear = cache_info, cache_clear
    return wrapper
